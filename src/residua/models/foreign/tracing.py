"""What a network does, as torch.fx sees it: one graph for both modes, and the shapes of its tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from residua.errors import InputError, first_line


class Shapes(fx.Interpreter):
    """Runs the network and remembers the shape of every tensor."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.tensors: dict[fx.Node, torch.Size] = {}

    def of(self, example: Tensor) -> dict[fx.Node, torch.Size]:
        self.run(example)
        return self.tensors

    def run_node(self, n: fx.Node) -> Any:
        found = super().run_node(n)
        if isinstance(found, Tensor) and n.op != "output":
            self.tensors[n] = found.shape
        return found


class _Tracer(fx.Tracer):
    def __init__(self, cuts: Sequence[str]) -> None:
        super().__init__()
        self.cuts = cuts
        self.ends: dict[str, list[Any]] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        on_the_way = any(name.startswith(f"{module_qualified_name}.") for name in self.cuts)
        return not on_the_way and type(m).forward is not nn.Sequential.forward

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        found = super().call_module(m, forward, args, kwargs)
        self.ends.setdefault(self.path_of_module(m), []).append(
            found.node if isinstance(found, fx.Proxy) else found
        )
        return found


def _trace(module: nn.Module, cuts: Sequence[str]) -> tuple[fx.Graph, dict[str, list[Any]]]:
    tracer = _Tracer(cuts)
    try:
        graph = tracer.trace(module)
    except Exception as error:  # the forward is anybody's, and so are its errors
        raise InputError(
            f"the forward of {type(module).__name__} cannot be traced ({first_line(error)}); "
            "let it take one tensor and keep branches that depend on data inside submodules"
        ) from error
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for extra in inputs[1:]:
        if extra.users:
            raise InputError(
                f"{type(module).__name__} takes the inputs {', '.join(node.name for node in inputs)}, expected one "
                "tensor; wrap it in a module that takes images alone"
            )
        graph.erase_node(extra)
    return graph, tracer.ends


def same_in_both_modes(module: nn.Module, cuts: Sequence[str]) -> tuple[fx.Graph, dict[str, list[Any]]]:
    """One graph for train and eval: where only `self.training` was handed on, it is read at run time."""
    training = module.training
    try:
        learning, _ = _trace(module.train(), cuts)
        graph, ends = _trace(module.eval(), cuts)
    finally:
        module.train(training)
    pairs = list(zip(learning.nodes, graph.nodes, strict=False))
    same = len(learning.nodes) == len(graph.nodes) and all(
        (a.op, str(a.target)) == (b.op, str(b.target)) for a, b in pairs
    )
    if not same:
        raise InputError(
            f"{type(module).__name__} takes another path in train mode than in eval mode; "
            "put what differs into a submodule of its own"
        )
    for a, b in pairs:
        args, kwargs = _asking(graph, b, a.args, b.args), dict(b.kwargs)
        for name, value in b.kwargs.items():
            kwargs[name] = _asking(graph, b, (a.kwargs.get(name),), (value,))[0]
        b.args, b.kwargs = args, kwargs
    return graph, ends


def _asking(
    graph: fx.Graph, node: fx.Node, learning: Sequence[Any], reading: Sequence[Any]
) -> tuple[Any, ...]:
    found = []
    for a, b in zip(learning, reading, strict=True):
        if (a, b) == (True, False):
            with graph.inserting_before(node):
                b = graph.create_node("get_attr", "training")
        found.append(b)
    return tuple(found)


def ask_for_the_batch_size_again(graph: fx.Graph, by_sample: set[fx.Node]) -> None:
    """`n = x.shape[0]` at the top and `view(n, -1)` at the bottom is not a skip connection: each tensor knows n itself."""
    for node in list(graph.nodes):
        if not _is_batch_size(node):
            continue
        for user in list(node.users):
            asked = user.args[0] if user.args else None
            if isinstance(asked, fx.Node) and asked is not node and asked in by_sample:
                with graph.inserting_before(user):
                    own = graph.call_method("size", (asked, 0))
                user.replace_input_with(node, own)
        if not node.users:
            graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if not node.users and (node.target is getattr or (node.op, node.target) == ("call_method", "size")):
            graph.erase_node(node)


def _is_batch_size(node: fx.Node) -> bool:
    if node.op == "call_method" and node.target == "size":
        return node.args[1:] == (0,)
    if node.op == "call_function" and node.target is operator.getitem and node.args[1] == 0:
        source = node.args[0]
        return isinstance(source, fx.Node) and (
            (source.target is getattr and source.args[1] == "shape")
            or (source.op == "call_method" and source.target == "size" and len(source.args) == 1)
        )
    return False
