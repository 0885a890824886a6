"""The section of a model card: what was found, short, and safe to paste."""

from __future__ import annotations

from planted_pages import HOSTILE, audit_report

from residua.report.text import card


def test_a_card_says_what_was_found_and_what_it_does_not_show():
    text = card(audit_report(), "ab" * 32)
    assert text.startswith("## Unlearning audit\n")
    assert "**SHALLOW**: It no longer says it but still knows it" in text
    assert "class 0, boot: 200 images; class 1, cat: 81 images" in text
    assert "IDI 0.93 (0.80 to 1.05)" in text
    assert "- Only these models." in text
    assert "ab" * 32 in text
    assert "cd" * 32 in text
    assert len(text.splitlines()) < 30


def test_names_in_a_card_are_text():
    text = card(audit_report((HOSTILE[0], "a | b\n# title\x1b[31m", "[x](javascript:alert(1))")), "ab" * 32)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "a \\| b # title" in text
    assert all(line.count(" | ") == 1 for line in text.splitlines() if line.startswith("| "))


def test_many_classes_are_not_all_named():
    report = audit_report()
    task = report.about["task"] | {"splits": {"forget": {"n": 9, "per_class": [1] * 9}}, "class_names": None}
    text = card(report.model_copy(update={"about": report.about | {"task": task}}), "ab" * 32)
    assert "class 4: 1 images; and 4 more classes" in text
