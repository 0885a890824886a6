"""adopt: anybody's network becomes a Classifier, described so that its checkpoint can be opened again."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from residua.errors import InputError, first_line
from residua.models.checkpoint import Checkpoint
from residua.models.classifier import Classifier, probabilities
from residua.models.foreign import draws
from residua.models.foreign.building import build_listed, described, shapes_without_memory
from residua.models.foreign.cutting import boundaries, cut
from residua.models.foreign.families import recognise
from residua.models.foreign.fitting import Weights, fitted

__all__ = ["adopt", "logits_of"]

TOLERANCE = 1e-5
SIDES = (32, 28, 64, 224, 8)
# Wrappers of networks, and the name under which each holds its network.
WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "_FabricModule": "_original_module",
}


def adopt(module: nn.Module, cuts: Sequence[str] | None = None, example: Tensor | None = None) -> Classifier:
    """A classifier that computes what `module` computes, from copies of its weights, in eval mode.

    Outputs are compared with the module's in eval and in train mode. The architecture names the library, name and
    arguments where those build the same network, so that a checkpoint of it can be opened again.

    Args:
        module: The network. Our own networks, nn.Sequential, and the usual families of torchvision, timm and Hugging
            Face are recognised (docs/models.md).
        cuts: Names of the submodules whose outputs end the blocks, for other networks.
        example: A batch of at least two inputs; without it, random images of usual sizes are tried.
    """
    return adopt_as(module, cuts, example, None)


def adopt_as(
    module: nn.Module, cuts: Sequence[str] | None, example: Tensor | None, known: dict[str, Any] | None
) -> Classifier:
    """`adopt`, where `known` are fields of the architecture that need not be found out."""
    if not isinstance(module, nn.Module):
        raise InputError(f"a {type(module).__name__} cannot be adopted; pass an nn.Module")
    if isinstance(cuts, str) or (cuts is not None and not cuts):
        raise InputError(f"cuts is {cuts!r}, expected a list of names of submodules; give at least one")
    module = _unwrapped(module)
    if isinstance(module, Classifier) and cuts is None:
        return copy.deepcopy(module).eval()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(0)
        given = _copied(module)
        batch = _example(given, example)
        whole = _copied(given)
        own = {id(tensor): name for name, tensor in whole.state_dict(keep_vars=True).items()}
        adopted = _taken_apart(whole, cuts, batch)
        _check(given, adopted, batch)
        logits = _run(given, batch)
        if probabilities(logits):
            raise InputError(f"{type(given).__name__} returns probabilities, expected logits; leave out its softmax")
        adopted = _without_side_effects(adopted, batch)
        tensors = adopted.state_dict(keep_vars=True)
        adopted.own_names = {name: own[id(each)] for name, each in tensors.items() if id(each) in own}
        adopted.architecture = {
            "adopted": f"{type(given).__module__}.{type(given).__qualname__}",
            "classes": int(logits.shape[1]),
            "channels": int(batch.shape[1]),
            "input": list(batch.shape[1:]),
        }
        if cuts:
            adopted.architecture["cuts"] = list(cuts)
        built_by = origin(given, batch, int(logits.shape[1])) if known is None else known
        adopted.architecture = built_by | adopted.architecture
    return adopted.eval()


def random_inputs(*shape: int) -> Tensor:
    """A batch of four inputs of this shape, always the same."""
    return torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))


def logits_of(output: Any) -> Tensor:
    """A network's logits: its output, or the `logits` in it."""
    found = getattr(output, "logits", output)
    if not isinstance(found, Tensor) or found.ndim != 2:
        what = f"{found.ndim} dimensions" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise InputError(f"the network returns {what}, expected logits (samples x classes); wrap it so that it does")
    return found


def _unwrapped(module: nn.Module) -> nn.Module:
    """Without what was put around the network for speed."""
    while (inside := WRAPPERS.get(type(module).__name__)) in module._modules:
        # Not by getattr: what is compiled answers for the attributes of what it holds.
        module = module._modules[inside]  # type: ignore[assignment]
    return module


def _copied(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module).requires_grad_(True).eval()
    except Exception as error:
        raise InputError(
            f"{type(module).__name__} cannot be copied ({first_line(error)}); keep no computed tensors or open files in it"
        ) from error


def _taken_apart(module: nn.Module, cuts: Sequence[str] | None, batch: Tensor) -> Classifier:
    draws.known(module)
    if cuts is not None:
        return cut(module, list(cuts), batch)
    found = recognise(module)
    if found is None and isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        found = _behind_its_input(module, batch) or in_sequence(module)
    if found is None:
        where = boundaries(module, batch)
        what = f"{type(module).__name__} is not a supported architecture"
        parts = [name for name, part in module.named_children() if next(part.parameters(), None) is not None]
        if len(parts) == 1:
            what += f" (if it only wraps one, pass its .{parts[0]})"
        if not where:
            raise InputError(
                f"{what}, and no submodule's output is all that the rest of it sees; write its forward as a chain of "
                "submodules, and name those at which its blocks end with --cuts (in Python, cuts=[...])"
            )
        raise InputError(
            f"{what}; name the submodules at which its blocks end, for example --cuts {','.join(where)} (in Python, "
            f"cuts={where!r})"
        )
    return found


def _behind_its_input(module: nn.Sequential, batch: Tensor) -> Classifier | None:
    """nn.Sequential(normalise, network): what comes before the network joins its first block."""
    *before, last = module
    if any(True for part in before for _ in part.parameters()):
        return None
    inner = recognise(last)
    if inner is not None:
        inner.blocks[0] = nn.Sequential(*before, inner.blocks[0])
    return inner


def _example(module: nn.Module, example: Tensor | None) -> Tensor:
    """A batch that the network takes: the caller's, or random images of a usual size."""
    device = next((p.device for p in module.parameters()), None)
    if device is None:
        raise InputError(f"{type(module).__name__} has no weights; pass a network")
    if example is not None:
        if not isinstance(example, Tensor) or example.ndim < 2 or len(example) < 2:
            raise InputError("example must be a batch of at least two inputs, as the network takes them")
        example = example[:8].detach().to(device)
        try:
            _run(module, example)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{type(module).__name__} does not take the example of shape {tuple(example.shape)} "
                f"({first_line(error)}); show images of a size that it takes with --size 32 or the like (in Python, "
                "example=, a batch that it takes)"
            ) from error
        return example
    for shape in _guesses(module):
        batch = torch.randn(4, *shape, device=device)
        try:
            _run(copy.deepcopy(module).train(), batch)
            _run(module, batch)
        except InputError:
            raise
        except Exception:  # not this size; the network's own complaint is of no use
            continue
        return batch
    raise InputError(
        f"what {type(module).__name__} takes could not be guessed; pass example=, a batch of at least two inputs"
    )


def _guesses(module: nn.Module) -> list[tuple[int, ...]]:
    stated = getattr(getattr(module, "config", module), "image_size", None)
    stated = stated or getattr(getattr(module, "patch_embed", None), "img_size", None)
    stated = (stated, stated) if isinstance(stated, int) else stated
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            sides = ([tuple(stated)] if stated else []) + [(side, side) for side in SIDES]
            return [(part.in_channels, *side) for side in sides]
        if isinstance(part, nn.Linear):
            n = part.in_features
            flat = [(c, round((n / c) ** 0.5), round((n / c) ** 0.5)) for c in (1, 3)]
            return [shape for shape in flat if shape[0] * shape[1] * shape[2] == n] + [(n,)]
    return []


def _run(module: nn.Module, batch: Tensor) -> Tensor:
    with torch.no_grad():
        return logits_of(module(batch))


def _compared(one: nn.Module, other: nn.Module, batch: Tensor, training: bool) -> tuple[Tensor, float]:
    """Outputs of the first network, and the largest difference of the second's, relative to the largest output."""
    found = []
    for model in (one, other):
        torch.manual_seed(0)
        found.append(_run(model.train(training), batch))
    return found[0], float((found[0] - found[1]).abs().max() / found[0].abs().max().clamp_min(1.0))


def _check(module: nn.Module, adopted: Classifier, batch: Tensor) -> None:
    """Refuse unless outputs agree in eval mode, in train mode, and in eval mode with moved statistics and fewer samples."""
    if next(adopted.pool.parameters(), None) is not None:
        raise InputError("what pools the last block has weights of its own; give cuts, the last one after it")
    if not adopted.depth:
        raise InputError("there is no block before the head; give cuts")
    both = copy.deepcopy(module), copy.deepcopy(adopted)
    for mode, seen in (("eval", batch), ("train", batch), ("eval", batch[1:])):
        try:
            outputs, apart = _compared(*both, seen, mode == "train")
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{type(module).__name__} does not run in {mode} mode ({first_line(error)}); "
                "pass an example that it takes in both modes"
            ) from error
        if not torch.isfinite(outputs).all():
            raise InputError(f"the outputs of {type(module).__name__} are not finite numbers; its weights are damaged")
        if not apart <= TOLERANCE:
            raise InputError(
                f"the blocks of {type(module).__name__} do not give its outputs in {mode} mode (they differ by "
                f"{apart:.2g}); give other cuts, or keep what depends on the mode inside submodules"
            )
    vectors = adopted.eval().encode(batch)
    if vectors.ndim != 2:
        raise InputError(
            f"the head of {type(module).__name__} takes {vectors.ndim} dimensions, expected one vector per sample; "
            "give cuts"
        )


class Untouched(nn.Module):
    """A copy: the layer that follows writes into its input, which is the features of a block."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clone()


@torch.no_grad()
def _without_side_effects(adopted: Classifier, batch: Tensor) -> Classifier:
    """A block that would overwrite the features of the block before it is given a copy of them."""
    z = batch.clone()
    parts = [*adopted.blocks, adopted.pool, adopted.head]
    for i, part in enumerate(parts):
        before = z.clone()
        found = part(z)
        if not torch.equal(before, z):
            parts[i] = nn.Sequential(Untouched(), part)
        z = found
    adopted.blocks, adopted.pool, adopted.head = nn.ModuleList(parts[:-2]), parts[-2], parts[-1]
    return adopted


POOLING = ("Flatten", "Identity", "Pool1d", "Pool2d", "Pool3d", "Pool")


def in_sequence(module: nn.Sequential) -> Classifier:
    """Norms, activations and poolings end the block that they follow; the last layer is the head.

    Poolings directly before the head are `pool`. Dropout there belongs to the head, whose features
    are those of the block before it.
    """
    parts = list(module)
    heavy = [i for i, part in enumerate(parts) if _learns_a_matrix(part)]
    if len(heavy) < 2:
        raise InputError(
            f"this nn.Sequential has {len(heavy)} layers with weights among its {len(parts)} parts, expected at "
            "least 2, a block and the head; pass the network inside it, or give cuts"
        )
    head = heavy[-1]
    while isinstance(parts[head - 1], nn.Dropout):
        head -= 1
    pool = head
    while _only_pools(parts[pool - 1]):
        pool -= 1
    starts = [0, *heavy[1:-1], pool]
    blocks = [_together(parts[a:b]) for a, b in itertools.pairwise(starts)]
    return Classifier(blocks, _together(parts[head:]), pool=_together(parts[pool:head]))


def _learns_a_matrix(part: nn.Module) -> bool:
    return any(p.ndim > 1 for p in part.parameters())


def _only_pools(part: nn.Module) -> bool:
    learns = next(part.parameters(), None) is not None
    return not learns and type(part).__name__.endswith(POOLING)


def _together(parts: list[nn.Module]) -> nn.Module:
    if not parts:
        return nn.Identity()
    return parts[0] if len(parts) == 1 else nn.Sequential(*parts)


def origin(module: nn.Module, batch: Tensor, classes: int) -> dict[str, Any]:
    """Library, name and arguments that build a network which computes what this one computes; else nothing.

    It is built, given the module's weights, and compared in eval and in train mode: dropout that the description
    misses would show.
    """
    try:
        found = described(module, classes, int(batch.shape[1]))
        if found is None:
            return {}
        again = build_listed(found["network"], found["arguments"]).to(batch.device)
        again.load_state_dict(module.state_dict())
    except (InputError, RuntimeError, AttributeError, KeyError, TypeError):
        return {}
    for training in (False, True):
        if not _compared(copy.deepcopy(module), again, batch, training)[1] <= TOLERANCE:
            return {}
    return found


def rebuilt(checkpoint: Checkpoint, weights: Weights) -> Classifier:
    """The adopted network of this checkpoint, with its weights under the names that adopting gives them."""
    path, architecture = checkpoint.path, checkpoint.architecture
    network, arguments = architecture["network"], architecture.get("arguments", {})
    shape: Any = architecture.get("input")
    cuts: Any = architecture.get("cuts")
    sound = isinstance(arguments, dict) and _is_shape(shape) and (cuts is None or _are_names(cuts))
    if not sound:
        raise InputError(f"checkpoint {path} does not say how its network is built; save it again with residua.save")
    wanted = shapes_without_memory(network, arguments)
    held = sum(tensor.numel() for tensor in weights.values())
    if wanted is not None and sum(map(math.prod, wanted.values())) > 2 * held + 1_000_000:
        raise InputError(
            f"checkpoint {path} names a network that is far larger than its weights; save it again with residua.save"
        )
    model = adopt_as(build_listed(network, arguments), cuts, random_inputs(*shape), architecture)
    model.load_state_dict(fitted(path, weights, model))
    return model


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) in (1, 3)
        and all(isinstance(n, int) and 0 < n <= 4096 for n in shape)
        and math.prod(shape) <= 1 << 24
    )


def _are_names(cuts: object) -> bool:
    return isinstance(cuts, list) and bool(cuts) and all(isinstance(name, str) for name in cuts)
