from __future__ import annotations

import json
import os

import pytest

import residua as rs
from residua.audits.auditing import planned
from residua.cli import inputs, main
from residua.compare import Rules
from residua.report.plan import Plan

pytestmark = pytest.mark.usefixtures("one_thread")

CURVE = rs.measure.InformationCurve(last=1)


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.fixture(scope="module")
def asked(truths, slanted) -> dict:
    return {
        "original": truths["original"], "reference": truths["reference"], "task": slanted, "curve": CURVE,
        "measures": (),
    }  # fmt: skip


def test_an_audit_that_follows_its_plan_says_so_and_verifies(asked, truths, tmp_path):
    plan = planned(**asked)
    assert Plan.read(plan.write(tmp_path / "plan.json")) == plan
    made = rs.audit(**asked, unlearned=truths["hd"], plan=plan)
    made.save(tmp_path / "audit")
    assert plan.sha256 in (tmp_path / "audit/report.md").read_text()
    assert rs.verify(tmp_path / "audit") == []
    body = json.loads((tmp_path / "audit/report.json").read_text())
    body["about"]["plan"]["rules"]["margin"] = 0.1
    (tmp_path / "audit/report.json").write_text(json.dumps(body))
    assert "departs from its plan: the rules differ in margin" in rs.verify(tmp_path / "audit")[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rules": Rules(margin=0.4)}, "rules"),
        ({"seed": 3}, "seed"),
        ({"curve": rs.measure.InformationCurve(last=2)}, "measures"),
        ({"reference": "proxy:0.15"}, "references"),
    ],
)
def test_an_audit_that_departs_from_its_plan_is_refused_before_the_work(asked, truths, change, words):
    plan = planned(**asked)
    with pytest.raises(rs.InputError, match=f"{words} of this audit are not those of the plan"):
        rs.audit(**asked | change, unlearned=truths["hd"], plan=plan)


def test_what_is_not_a_plan_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    for name in ("x.json", "nowhere.json"):
        with pytest.raises(rs.InputError, match="plan"):
            Plan.read(tmp_path / name)
    (tmp_path / "deep.json").write_text("[" * 200_000)
    with pytest.raises(rs.InputError, match=r"deep.json is not a plan"):
        Plan.read(tmp_path / "deep.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(rs.InputError, match="a pipe, a socket or a device"):
        Plan.read(tmp_path / "pipe.json")


def test_a_plan_from_the_command_line_binds_the_audit(truths, stripes, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(inputs, "open_dataset", lambda words, **more: stripes)
    for name in ("original", "hd", "reference"):
        rs.save(truths[name], tmp_path / f"{name}.safetensors")
    words = ["--data", "stripes", "--forget", "class:2", "--last", "1"]
    words += ["--original", str(tmp_path / "original.safetensors")]
    words += ["--reference", str(tmp_path / "reference.safetensors")]
    file = tmp_path / "plan.json"
    assert main(["audit", *words, "--plan-only", "--plan", str(file)]) == 0
    assert capsys.readouterr().out.split()[0] == Plan.read(file).sha256
    hd = ["--unlearned", str(tmp_path / "hd.safetensors")]
    assert main(["audit", *words, *hd, "--plan-only"]) == 3
    assert "--unlearned would change nothing in a plan" in capsys.readouterr().err
    assert main(["audit", *words]) == 3
    assert "--unlearned is missing" in capsys.readouterr().err
    bound = ["audit", *words, "--unlearned", str(tmp_path / "hd.safetensors"), "--plan", str(file)]
    assert main([*bound, "--margin", "0.3"]) == 3
    assert "rules of this audit are not those of the plan" in capsys.readouterr().err
