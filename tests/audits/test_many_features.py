"""Saved features by the hundred thousand: read in a bounded number, evenly, and with progress."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from residua.audits import saved
from residua.cli import main


def test_samples_are_taken_evenly_and_only_where_there_are_too_many():
    labels = (torch.arange(100_000) % 20 == 0).long()
    some = saved.chosen_rows(labels, 512)
    assert len(some) == 20_000
    assert float(labels[some].double().mean()) == pytest.approx(0.05)
    assert int(some.max()) > 99_900
    assert torch.equal(some, saved.chosen_rows(labels, 512))
    assert len(saved.chosen_rows(labels[:20_000], 512)) == 20_000
    rare = torch.zeros(100_000, dtype=torch.long)
    rare[:150] = 1
    assert int(rare[saved.chosen_rows(rare, 512)].sum()) == 100


def test_an_audit_of_saved_features_reports_model_block_and_samples(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(saved, "MOST", 400)
    monkeypatch.setattr(saved, "FEWEST", 100)
    rng = np.random.default_rng(0)
    labels = np.arange(1000) % 4 == 0
    for name, strength in (("o", 2.0), ("u", 1.0), ("r", 0.5)):
        z = rng.normal(size=(1000, 2)) + strength * labels[:, None]
        np.savez(tmp_path / f"{name}.npz", block5=z.astype(np.float32), labels=labels.astype(np.int64))
    files = [str(tmp_path / f"{name}.npz") for name in "our"]
    words = ["--original", files[0], "--unlearned", files[1], "--reference", files[2]]
    assert main(["audit", "--features", *words, "--out", str(tmp_path / "audit")]) in (0, 1, 2)
    said = capsys.readouterr().err
    for role in ("original", "unlearned", "reference"):
        assert f"{role}: block 5, 250 of 1000 samples x 2" in said
    assert main(["verify", str(tmp_path / "audit")]) == 0
