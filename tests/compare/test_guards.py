"""Guards: a run that did nothing, a run that ruined the model."""

from __future__ import annotations

import pytest

from residua.compare import guards

ORIGINAL = {"UA": 0.01, "RA": 0.99, "TA": 0.90}
CLASS = {"scenario": "class", "samples": 1000}


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({"UA": 1.0, "RA": 0.98, "TA": 0.91}, []),
        ({"UA": 0.02, "RA": 0.99, "TA": 0.90}, ["nothing happened: UA is 2.0%, Original's 1.0%"]),
        ({"UA": 0.00, "RA": 0.99, "TA": 0.90}, ["nothing happened"]),
        ({"UA": 1.0, "RA": 0.5, "TA": 0.85}, ["the model collapsed: RA is 50.0%"]),
        ({"UA": 1.0, "RA": 0.95, "TA": 0.6}, ["the model collapsed: TA is 60.0%"]),
        ({"UA": 0.01, "RA": 0.1, "TA": 0.1}, ["nothing happened", "the model collapsed"]),
    ],
)
def test_each_failure_is_named_with_what_to_change(after, words):
    found = guards(after, ORIGINAL, **CLASS)
    assert len(found) == len(words)
    for sentence, word in zip(found, words, strict=True):
        assert sentence.startswith(word)
        assert "the learning rate or the epochs" in sentence


@pytest.mark.parametrize(
    ("scenario", "samples", "before", "after", "happened"),
    [
        # Class-wise: a tenth of the way to 1.
        ("class", 500, 0.402, 0.448, False),
        ("class", 500, 0.402, 0.470, True),
        ("class", 500, 0.0, 0.09, False),
        ("class", 500, 0.0, 0.11, True),
        # Random: sqrt(p (1 - p) / n) is 0.0144 for p = 0.118, n = 500, and 0.0014 for p = 0.01, n = 5000.
        ("random", 500, 0.116, 0.126, False),
        ("random", 500, 0.116, 0.146, True),
        ("random", 5000, 0.01, 0.011, False),
        ("random", 5000, 0.01, 0.012, True),
        ("random", 500, 0.116, 0.05, False),
        # Not one of forty was wrong, and still nobody knows that none ever is.
        ("random", 40, 0.0, 0.0, False),
        ("random", 40, 0.0, 0.025, True),
        # Where Original already fails nothing can happen.
        ("class", 500, 1.0, 1.0, True),
        ("random", 500, 0.99, 0.99, True),
    ],
)
def test_how_far_ua_must_move_depends_on_what_is_forgotten(scenario, samples, before, after, happened):
    rest = {"RA": 0.9, "TA": 0.9}
    found = guards({"UA": after, **rest}, {"UA": before, **rest}, scenario=scenario, samples=samples)
    assert [sentence.split(":")[0] for sentence in found] == ([] if happened else ["nothing happened"])


@pytest.mark.parametrize(
    ("settings", "stronger", "gentler"),
    [
        (None, "raise the learning rate or the epochs", "lower the learning rate or the epochs"),
        ({"epochs": "more", "lr": "more"}, "raise epochs or lr", "lower epochs or lr"),
        ({"alpha": "less", "dampening": "less"}, "lower alpha or dampening", "raise alpha or dampening"),
        ({"alpha": "less", "lr": "more"}, "raise lr", "lower lr"),
        (
            dict.fromkeys(("epochs", "forget_epochs", "lr"), "more"),
            "raise epochs, forget_epochs or lr",
            "lower epochs, ",
        ),
        ({}, "change its settings", "change its settings"),
    ],
)
def test_the_advice_names_settings_that_the_method_has(settings, stronger, gentler):
    still, ruined = guards({"UA": 0.01, "RA": 0.1, "TA": 0.1}, ORIGINAL, **CLASS, settings=settings)
    assert still.split("; ")[1].startswith(stronger)
    assert ruined.split("; ")[1].startswith(gentler)
