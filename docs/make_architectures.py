"""Writes the table of docs/models.md: which real architectures `adopt` takes, found by trying.

    python docs/make_architectures.py [--check]

Random weights, the installed timm, torchvision and transformers, their smallest variants. `--check` writes nothing and
exits with 1 where the page says otherwise.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import residua as rs
from residua.models.classifier import clone, reinitialise

PAGE = Path(__file__).with_name("models.md")
BEGIN = "<!-- begin architectures: written by docs/make_architectures.py -->\n"
END = "<!-- end architectures -->\n"
LIBRARIES: list[Any] = []


@dataclass(frozen=True)
class Try:
    """A real architecture: the library's name, arguments that make it small, the image side, and cuts if needed."""

    library: str
    name: str
    side: int = 64
    cuts: tuple[str, ...] | None = None
    arguments: tuple[tuple[str, Any], ...] = ()


def of(library: str, name: str, side: int = 64, cuts: tuple[str, ...] | None = None, **arguments: Any) -> Try:
    return Try(library, name, side, cuts, tuple(arguments.items()))


TOKENS = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": 64,
}
WINDOWS = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 2], "image_size": 64, "window_size": 4}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
EXPERIMENTS = (
    of("torchvision", "resnet18"),
    of("torchvision", "resnet50"),
    of("torchvision", "vit_b_32", 224),
    of("torchvision", "convnext_tiny"),
    of("torchvision", "swin_t"),
    of("torchvision", "swin_v2_t"),
    of("torchvision", "efficientnet_b0"),
    of("torchvision", "mobilenet_v2"),
    of("torchvision", "mobilenet_v3_small"),
    of("torchvision", "regnet_y_400mf"),
    of("torchvision", "densenet121"),
    of("torchvision", "shufflenet_v2_x0_5", cuts=("stage2", "stage3", "conv5")),
    of("torchvision", "mnasnet0_5", cuts=("layers.9", "layers.12", "layers")),
    of("torchvision", "squeezenet1_1"),
    of("timm", "resnet18"),
    of("timm", "vit_tiny_patch16_224", img_size=64),
    of("timm", "deit_tiny_patch16_224", img_size=64),
    of("timm", "deit_tiny_distilled_patch16_224", img_size=64),
    of("timm", "deit3_small_patch16_224", img_size=64, depth=4),
    of("timm", "beit_base_patch16_224", img_size=64, depth=3),
    of("timm", "convnext_atto"),
    of("timm", "convnextv2_atto"),
    of("timm", "swin_tiny_patch4_window7_224", img_size=64, window_size=4),
    of("timm", "swinv2_tiny_window8_256", img_size=64, window_size=4),
    of("timm", "swinv2_cr_tiny_ns_224", img_size=64, window_size=4),
    of("timm", "efficientnet_b0"),
    of("timm", "efficientnetv2_rw_t"),
    of("timm", "mobilenetv2_050"),
    of("timm", "mobilenetv3_small_050"),
    of("timm", "mobilenetv4_conv_small"),
    of("timm", "regnety_002"),
    of("timm", "densenet121"),
    of("timm", "mixer_s32_224", img_size=64, cuts=("blocks.3", "norm")),
    of("transformers", "ResNetForImageClassification", embedding_size=16, **STAGES),
    of("transformers", "ViTForImageClassification", **TOKENS),
    of("transformers", "DeiTForImageClassification", **TOKENS),
    of("transformers", "DeiTForImageClassificationWithTeacher", **TOKENS),
    of("transformers", "BeitForImageClassification", **TOKENS),
    of("transformers", "SwinForImageClassification", **WINDOWS),
    of("transformers", "Swinv2ForImageClassification", **WINDOWS),
    of("transformers", "ConvNextForImageClassification", **STAGES),
    of("transformers", "ConvNextV2ForImageClassification", **STAGES),
    of(
        "transformers",
        "EfficientNetForImageClassification",
        width_coefficient=0.25,
        depth_coefficient=0.2,
        hidden_dim=320,
    ),
    of("transformers", "MobileNetV1ForImageClassification", depth_multiplier=0.25),
    of("transformers", "MobileNetV2ForImageClassification", depth_multiplier=0.35),
    of("transformers", "RegNetForImageClassification", embedding_size=8, groups_width=8, **STAGES),
)


def row(one: Try) -> tuple[str, ...]:
    """Library, name, how it is adopted or why not, and its blocks."""
    with rs.seeded(0):
        net = build(one)
    batch = torch.randn(4, 3, one.side, one.side, generator=torch.Generator().manual_seed(0))
    try:
        model = rs.adopt(net, list(one.cuts) if one.cuts else None, batch)
    except rs.InputError as error:
        return one.library, one.name, f"refused: {error}", ""
    check(net, model, batch)
    how = f"with cuts {', '.join(one.cuts)}" if one.cuts else "yes"
    return one.library, one.name, how, f"{model.depth}"


def build(one: Try) -> torch.nn.Module:
    from residua.models.foreign.building import build_listed

    key = "num_labels" if one.library == "transformers" else "num_classes"
    return build_listed(f"{one.library}:{one.name}", dict(one.arguments) | {key: 5})


def check(net: torch.nn.Module, model: rs.Classifier, batch: torch.Tensor) -> None:
    """Equal outputs to 1e-5 in both modes, and weights that can be drawn again: more than the page says."""
    for training in (False, True):
        outputs = []
        for each in (net.train(training), clone(model).train(training)):
            with rs.seeded(1), torch.no_grad():
                found = each(batch)
            outputs.append(getattr(found, "logits", found))
        apart = (outputs[0] - outputs[1]).abs().max() / outputs[0].abs().max().clamp_min(1.0)
        if not float(apart) <= 1e-5:
            raise AssertionError(f"{type(net).__name__}: outputs differ by {float(apart):.2g}")
    reinitialise(clone(model))


def page() -> str:
    """The whole page, with the table between its two marks made anew."""
    prepare_torchvision()
    rows = []
    for one in EXPERIMENTS:
        rows.append(row(one))
        sys.stderr.write(f"{' '.join(rows[-1])}\n")
    counts = {word: sum(r[2].startswith(word) for r in rows) for word in ("yes", "with", "refused")}
    lines = [
        f"`docs/make_architectures.py` tries {len(rows)} real architectures with random weights: "
        f"{counts['yes']} are adopted as they are, {counts['with']} with cuts, {counts['refused']} refused. Whatever is adopted "
        "gives the module's outputs to 1e-5 in eval and in train mode, and its weights can be drawn again.",
        "",
        "| library | architecture | adopted | blocks |",
        "|---|---|---|---|",
        *(f"| {' | '.join(cells)} |" for cells in rows),
    ]
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1]


def prepare_torchvision() -> None:
    """A wheel for CUDA beside a PyTorch without it lacks two operators, which no network here uses: they are declared."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or "torchvision" in sys.modules:
        return
    try:
        torch.ops.load_library(Path(spec.origin).parent / "_C.so")
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        LIBRARIES.append(library)  # its operators go when it goes


def main(words: list[str], write: Callable[[str], object] = PAGE.write_text) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = page()
    if "--check" in words:
        return int(text != PAGE.read_text())
    write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
