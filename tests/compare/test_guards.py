"""Guards: a run that did nothing, a run that ruined the model."""

from __future__ import annotations

import pytest

from residua.compare import guards

ORIGINAL = {"UA": 0.01, "RA": 0.99, "TA": 0.90}


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({"UA": 1.0, "RA": 0.98, "TA": 0.91}, []),
        ({"UA": 0.02, "RA": 0.99, "TA": 0.90}, ["nothing happened"]),
        ({"UA": 0.00, "RA": 0.99, "TA": 0.90}, ["nothing happened"]),
        ({"UA": 1.0, "RA": 0.5, "TA": 0.85}, ["the model collapsed: RA is 50.0%"]),
        ({"UA": 1.0, "RA": 0.95, "TA": 0.6}, ["the model collapsed: TA is 60.0%"]),
        ({"UA": 0.01, "RA": 0.1, "TA": 0.1}, ["nothing happened", "the model collapsed"]),
    ],
)
def test_each_failure_is_named_with_what_to_change(after, words):
    found = guards(after, ORIGINAL)
    assert len(found) == len(words)
    for sentence, word in zip(found, words, strict=True):
        assert sentence.startswith(word)
        assert "the learning rate or the epochs" in sentence


def test_where_original_already_fails_nothing_can_happen():
    assert guards({"UA": 1.0, "RA": 0.9, "TA": 0.9}, {"UA": 1.0, "RA": 0.9, "TA": 0.9}) == []
