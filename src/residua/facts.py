"""Facts: what the numbers of a record depend on, as typed parts that a reader need not search for keys."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Facts(BaseModel):
    """A part of a record. Unknown fields are refused; what is None is not written."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if getattr(self, name) is not None}


class SplitFacts(Facts):
    """The size of one split and, where the data are at hand, its classes and hash."""

    n: int
    per_class: list[int] | None = None
    sha256: str | None = None


class TaskFacts(Facts):
    """What was to be forgotten: `ForgetTask.manifest()`. Of saved outputs and features, the sizes alone are known.

    `mean` and `std` say how images of this `shape` were normalised; records of 0.1.0 do not have them.
    """

    splits: dict[str, SplitFacts]
    dataset: str | None = None
    scenario: Literal["class", "random"] | None = None
    forgotten_classes: list[int] | None = None
    classes: int | None = None
    shape: list[int] | None = None
    mean: list[float] | None = None
    std: list[float] | None = None
    duplicates: dict[str, int] | None = None
    sha256: str | None = None
    class_names: list[str] | None = None

    def differs_from(self, other: TaskFacts) -> list[str]:
        """In what two tasks differ, in words; what one of them does not say, as older records do not, is no difference."""
        names = [
            name for name in (self.splits | other.splits) if self.splits.get(name) != other.splits.get(name)
        ]
        found = [f"the splits {', '.join(names)}"] if names else []
        for name in ("dataset", "scenario", "forgotten_classes", "classes", "shape", "mean", "std"):
            mine, theirs = (_rounded(getattr(each, name)) for each in (self, other))
            if None not in (mine, theirs) and mine != theirs:
                found.append(f"{name.replace('_', ' ')} ({theirs} then, {mine} now)")
        return found

    def size(self, split: str) -> int:
        """How many examples this split has; 0 where it is not there."""
        return self.splits[split].n if split in self.splits else 0

    def named(self, label: int) -> str:
        """A class as a reader knows it: `class 6, shirt`, or `class 6` where names are not known."""
        names = self.class_names or []
        return f"class {label}, {names[label]}" if 0 <= label < len(names) else f"class {label}"


def _rounded(value: Any) -> Any:
    """Means and deviations of pixels differ between machines in their last digits."""
    if isinstance(value, list):
        return [round(each, 6) if isinstance(each, float) else each for each in value]
    return value


class ShadowFacts(Facts):
    """The shadow models of an attack, or one of them and one forget set."""

    models: int | None = None
    forget_sets: int | None = None
    size: int | None = None
    of_class: int | None = None
    weights: list[str] | None = None
    model: int | None = None
    forget_set: int | None = None
    examples: str | None = None


class Setting(Facts):
    """Data, network and scale. Absent parts are None.

    `network` and `problem` are open: a network is described by the arguments that build it, whoever wrote it, and
    a calibration problem by its own fields.
    """

    scale: str = "custom"
    network: dict[str, Any] | None = None
    task: TaskFacts | None = None
    dataset: str | None = None
    train: str | None = None
    pretraining: dict[str, Any] | None = None
    shadows: ShadowFacts | None = None
    problem: dict[str, Any] | None = None
    device: str | None = None
    precision: str | None = None


class ProxyFacts(Facts):
    """How a reference was trained for one audit: on this share of the retained data, with these fields."""

    share: float
    fields: dict[str, Any]


class MethodFacts(Facts):
    """Who made the model, and which model it is.

    `fields` are the hyperparameters, open because other people's methods have their own. `weights` and `original`
    are hashes of the model and of the one that it was made from. `saved` has the hashes of outputs and features
    where their owner gave those in place of a model. `init` is the hash of the file that a training started from.
    """

    label: str
    kind: str | None = None
    fields: dict[str, Any] = {}
    weights: str | None = None
    original: str | None = None
    saved: dict[str, str] = {}
    proxy: ProxyFacts | None = None
    init: str | None = None


class MeasureFacts(Facts):
    """How a reading was made, or why there is none.

    `fields` are the measure's own settings, `about` is what else two readings must share to be compared, `reading`
    is the kind of reading, `notes` say why single values are missing, `refused` why all are.
    """

    label: str
    kind: str | None = None
    fields: dict[str, Any] = {}
    about: dict[str, Any] = {}
    reading: str = "reading"
    notes: dict[str, str] = {}
    refused: str | None = None


def upgraded(body: dict[str, Any], blocks: list[int]) -> dict[str, Any]:
    """The content of a version 1 record as version 2 has it.

    In version 1 the hyperparameters were beside label and hashes, and a curve alone kept what it was measured on;
    `blocks` are those of its arrays.
    """
    method = dict(body["method"])
    taken = {name: method.pop(name) for name in ("label", "weights", "original", "saved") if name in method}
    proxy = method.pop("proxy", None)
    if proxy is not None:
        own = {name: value for name, value in proxy.items() if name not in ("label", "class", "share")}
        taken["proxy"] = {"share": proxy["share"], "fields": own}
    kind = {"kind": method.pop("class")} if "class" in method else {}
    setting = dict(body["setting"])
    single = {new: setting.pop(old) for old, new in _SHADOW if old in setting}
    if single:
        setting["shadows"] = single
    return body | {
        "schema_version": 2,
        "setting": {"scale": "custom"} | setting,
        "method": {"label": ""} | taken | kind | {"fields": method},
        "measures": {label: _measure(label, facts, blocks) for label, facts in body["measures"].items()},
    }


_SHADOW = (("model", "model"), ("set", "forget_set"), ("examples", "examples"))


def _measure(label: str, facts: dict[str, Any], blocks: list[int]) -> dict[str, Any]:
    about = {name: value for name, value in facts.items() if name != "notes"}
    fields = dict(about)
    upgrade: dict[str, Any] = {"label": fields.pop("label", label), "notes": facts.get("notes", {})}
    if "measure" in fields:
        upgrade |= {"reading": "curve", "kind": "InformationCurve", "about": about}
        fields = fields["measure"] | ({"blocks": blocks} if blocks else {})
        fields.pop("last", None)
    elif "class" in fields:
        upgrade["kind"] = fields.pop("class")
    return upgrade | {"fields": fields}
