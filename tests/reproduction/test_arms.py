"""The gauge and the dose, from records: places on the axis, angles, the rule, and the sentence at the end."""

from __future__ import annotations

import numpy as np
import pytest
from made_records import make_record

from reproduction.__main__ import main
from reproduction.arms import arm_points, arm_table, chosen_factor
from reproduction.record_index import indexed, open_records
from reproduction.results import folder_tables
from residua.record import MeasureFacts


def made(label, fields=None, kept=None, ua=1.0, ta=0.87, turned=0.0, scale="gauge"):
    """A record whose last block is turned by so many degrees from Original's."""
    record = make_record(label, scale=scale, kept=kept, ta=ta)
    angle = np.radians(turned)
    arrays = {
        "weights.fold": np.array([300, 0]),
        "weights.part.4": np.array([1.0, 0.0]),
        "weights.part.5": np.array([np.cos(angle), np.sin(angle)]),
    }
    readings = record.readings | {"weights": {"weight_norm": 1.0}}
    readings["accuracy"] = readings["accuracy"] | {"UA": ua}
    method = record.method.model_copy(update={"fields": fields or {}})
    measures = record.measures | {"weights": MeasureFacts(label="weights")}
    return record.model_copy(
        update={"method": method, "measures": measures, "readings": readings, "arrays": record.arrays | arrays}
    )


def gauge(rl=((1, 0.2, 0.87), (0.5, 0.9995, 0.865), (0.1, 1.0, 0.866), (0.05, 1.0, 0.5))):
    rows = [made("Original"), made("Retrain")]
    for factor, ua, ta in rl:
        fields = {"factor": factor, "method": {}}
        rows.append(made(f"RL x {factor:g}", fields, kept=0.8, ua=ua, ta=ta, turned=1 / factor))
    rows += [
        made(f"SCRUB x {f:g}", {"factor": f, "method": {}}, kept=k, turned=2 / f) for f, k in ((1, 0.9), (0.1, 0.1))
    ]
    return rows


def test_the_gauge_shows_idi_and_angles_and_ends_in_a_sentence():
    points = arm_points(indexed(gauge()), "gauge")["gauge"]
    assert len(points) == 6
    table = arm_table(points, "gauge", "gauge")
    row = next(row for row in table.rows if row[:2] == ("SCRUB", "0.1"))
    assert row == ("SCRUB", "0.1", "100.0", "87.0", "0.10", "0.0", "20.0", "1")
    assert "**seen**" in table.note
    assert "SCRUB from 0.90 to 0.10" in table.note


def test_the_rule_takes_the_largest_factor_at_which_rl_reaches_its_ua_and_keeps_ta():
    assert "the factor 0.5:" in chosen_factor(indexed(gauge()))
    lost = ((1, 0.2, 0.87), (0.5, 0.9995, 0.85), (0.1, 1.0, 0.866))
    assert "the factor 0.1:" in chosen_factor(indexed(gauge(lost)))
    assert "chooses no factor" in chosen_factor(indexed(gauge(((1, 0.99, 0.87),))))
    assert chosen_factor(indexed([made("Original"), made("Retrain")])) == ""


def test_doses_are_learning_rate_times_steps_and_of_cola_those_of_the_collapse(tmp_path, capsys):
    fields = {"collapse_lr": 0.01, "collapse_epochs": 3, "lr": 7, "epochs": 7, "batch": 60}
    rows = [made("Original", scale="dose"), made("Retrain", scale="dose")]
    rows += [
        made("COLA x 1", fields, scale="dose"),
        made("FT x 2", {"lr": 0.02, "epochs": 1, "batch": 100}, scale="dose"),
    ]
    places = {point.method: point.place for point in arm_points(indexed(rows), "dose")["dose"]}
    assert places == pytest.approx({"COLA": 0.01 * 3 * 3, "FT": 0.02 * 2})
    for record in rows:
        record.write(tmp_path / "records")
    figure = tmp_path / "dose.svg"
    assert main(["dose", "--records", str(tmp_path / "records"), "--out", str(figure), "--markdown"]) == 0
    assert "lr x steps" in capsys.readouterr().out
    (table,) = folder_tables(open_records(tmp_path)).values()
    assert "**The dose: dose**" in table, "as RESULTS.md links it"
    assert figure.stat().st_size > 1000
    assert main(["gauge", "--records", str(tmp_path / "records")]) == 3
    assert "python -m reproduction run gauge" in " ".join(capsys.readouterr().err.split())
