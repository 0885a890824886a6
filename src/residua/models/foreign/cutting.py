"""Any other network, cut where the caller says, with torch.fx.

The network is traced once for both modes, with the shapes of its tensors. A boundary is the output of a submodule. It
divides the network if it is one tensor through which everything later learns of the input: then block l is what is
between boundary l - 1 and boundary l.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from residua.errors import InputError, first_line
from residua.models.classifier import Classifier
from residua.models.foreign import draws


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
        self.ends.setdefault(self.path_of_module(m), []).append(found.node if isinstance(found, fx.Proxy) else found)
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


def _asking(graph: fx.Graph, node: fx.Node, learning: Sequence[Any], reading: Sequence[Any]) -> tuple[Any, ...]:
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


def cut(module: nn.Module, cuts: Sequence[str], example: Tensor) -> Classifier:
    """The classifier whose blocks end at these submodules.

    After the last of them comes, without weights, what makes a vector of each sample (`pool`); the
    rest is the head.
    """
    traced = Traced(module, cuts, example)
    ends = [traced.boundary(name) for name in cuts]
    places = [traced.place[end] for end in ends]
    if places != sorted(set(places)):
        raise InputError(
            f"cuts {', '.join(cuts)} do not follow each other in the network; name each once, in the order of "
            f"{_or(traced.boundaries())}"
        )
    vector = traced.vector_after(ends[-1])
    if vector is None:
        raise InputError(
            f"after the cut {cuts[-1]} weights come before there is one vector per sample; let the last cut be "
            f"nearer to the head: {_or(traced.boundaries(last=True))}"
        )
    pieces = [traced.piece(start, end) for start, end in zip([None, *ends], [*ends, vector], strict=True)]
    head = traced.piece(vector, traced.result)
    return Classifier(pieces[:-1], head, pool=pieces[-1], block_names=[c.replace(".", "_") for c in cuts])


def boundaries(module: nn.Module, example: Tensor) -> list[str]:
    """Names of submodules at which this network can be cut."""
    return Traced(module, (), example).boundaries()


class Traced:
    """A network's operations in their order, and which of its submodules end where.

    Only containers on the way to a cut, and nn.Sequential, are looked into: everything else may do in
    its forward what it likes.
    """

    def __init__(self, module: nn.Module, cuts: Sequence[str], example: Tensor) -> None:
        self.module = module
        self.names = dict(module.named_modules())
        unknown = [name for name in cuts if not name or name not in self.names]
        if unknown:
            raise InputError(
                f"there is no submodule {unknown[0]!r} to cut at; choose among "
                f"{_or(Traced(module, (), example).boundaries())}"
            )
        self.graph, self.ends = same_in_both_modes(module, cuts)
        whole = fx.GraphModule(module, self.graph)
        try:
            with torch.no_grad():
                self.tensors, fewer = Shapes(whole).of(example), Shapes(whole).of(example[1:])
        except Exception as error:  # it ran as it was written, but not as it was traced
            raise InputError(
                f"the forward of {type(module).__name__} does not run as torch.fx sees it ({first_line(error)}); "
                "keep what depends on data inside submodules"
            ) from error
        by_sample = {node for node, shape in self.tensors.items() if shape[:1] != fewer[node][:1]}
        ask_for_the_batch_size_again(self.graph, by_sample)
        self.place = {node: i for i, node in enumerate(self.graph.nodes)}
        output = next(node for node in self.graph.nodes if node.op == "output")
        if not isinstance(output.args[0], fx.Node):
            raise InputError(
                f"{type(module).__name__} returns a {type(output.args[0]).__name__}, expected one tensor of logits; "
                "wrap it in a module that returns the logits alone"
            )
        self.result: fx.Node = output.args[0]

    def boundary(self, name: str) -> fx.Node:
        ends = self.ends.get(name, [])
        choice = f"cut at {_or(self.boundaries())}"
        if len(ends) != 1 or not isinstance(ends[0], fx.Node) or ends[0] not in self.tensors:
            why = f"runs {len(ends)} times" if len(ends) != 1 else "does not return a single tensor"
            raise InputError(f"{name} cannot be a boundary because it {why}; {choice}")
        around = self._around(ends[0])
        if around is not None:
            raise InputError(
                f"{name} cannot be a boundary because {around} is used after it without passing through it; {choice}"
            )
        return ends[0]

    def boundaries(self, *, last: bool = False) -> list[str]:
        """Submodules in their order at which the network can be cut: anywhere, or for the last time."""
        found: dict[str, fx.Node] = {}
        for name, ends in self.ends.items():
            end = ends[0]
            whole = len(ends) == 1 and isinstance(end, fx.Node) and end in self.tensors
            if not whole or end is self.result or self._around(end) is not None:
                continue
            if self._learned_before(end) and self.vector_after(end, through_weights=not last) is not None:
                found[name] = end
        # A container speaks for what is inside it.
        outer = [name for name in found if not any(name.startswith(f"{other}.") for other in found)]
        outer.sort(key=lambda name: self.place[found[name]])
        return self._one_for_each_block(outer, found)

    def _one_for_each_block(self, names: Sequence[str], ends: dict[str, fx.Node]) -> list[str]:
        """Boundaries without a matrix to learn between them (norms have none) end the same block; one is enough.

        It is the last (activations and poolings within the network belong to the block before), but none after the
        maps have shrunk to one place: that is what pools the last block.
        """
        groups: list[list[str]] = []
        for name in names:
            before = groups[-1][-1] if groups else None
            if before is None or self._mixes_between(ends[before], ends[name]):
                groups.append([])
            groups[-1].append(name)
        return [next((n for n in reversed(group) if self._has_places(ends[n])), group[0]) for group in groups]

    def _mixes_between(self, start: fx.Node, end: fx.Node) -> bool:
        """True if a matrix is learned between two boundaries; a norm's weights are none."""
        between = list(self.graph.nodes)[self.place[start] + 1 : self.place[end] + 1]
        return any(parameter.ndim > 1 for node in between for parameter in self._parameters(node))

    def _has_places(self, node: fx.Node) -> bool:
        shape = self.tensors[node]
        return len(shape) > 2 and shape[2:].numel() > 1

    def vector_after(self, end: fx.Node, *, through_weights: bool = False) -> fx.Node | None:
        """The first boundary from `end` on that is one vector per sample, with no weights on the way."""
        for node in list(self.graph.nodes)[self.place[end] :]:
            if node is not end and not through_weights and self._learns(node):
                return None
            if node in self.tensors and len(self.tensors[node]) == 2 and self._around(node) is None:
                return node if node is not self.result else None
        return None

    def _around(self, end: fx.Node) -> str | None:
        """Values from before `end`, other than `end`, that later operations use."""
        for node in list(self.graph.nodes)[self.place[end] + 1 :]:
            for used in node.all_input_nodes:
                if self.place[used] < self.place[end] and used.op != "get_attr":
                    return self._named(used)
        return None

    def _named(self, node: fx.Node) -> str:
        if node.op == "placeholder":
            return "the input"
        names = [name for name, ends in self.ends.items() if node in ends]
        return f"the output of {names[-1]}" if names else f"the result of {node.name}"

    def _learns(self, node: fx.Node) -> bool:
        return bool(self._parameters(node))

    def _parameters(self, node: fx.Node) -> list[nn.Parameter]:
        if node.op == "get_attr":
            found = operator.attrgetter(str(node.target))(self.module)
            return [found] if isinstance(found, nn.Parameter) else []
        return list(self.names[str(node.target)].parameters()) if node.op == "call_module" else []

    def _learned_before(self, end: fx.Node) -> bool:
        return any(self._learns(node) for node in list(self.graph.nodes)[: self.place[end] + 1])

    def piece(self, start: fx.Node | None, end: fx.Node) -> nn.Module:
        """The operations after `start` up to `end`, as a module."""
        if start is end:
            return nn.Identity()
        first = 0 if start is None else self.place[start] + 1
        graph, copies = fx.Graph(), {}
        if start is not None:
            copies[start] = graph.placeholder("x")
        for node in list(self.graph.nodes)[first : self.place[end] + 1]:
            for used in node.all_input_nodes:
                if used not in copies:  # a weight that is also used before
                    copies[used] = graph.node_copy(used)
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(copies[end])
        for node in graph.nodes:
            if node.op == "get_attr" and "." not in str(node.target) and node.target != "training":
                node.target = f"{OWN}.{node.target}"
        made = fx.GraphModule(_Root(self.module), graph)
        draws.known(made)
        return made


OWN = "own_tensors"


class _Root(nn.Module):
    """The network, with the tensors that it owns itself once more under a name: they need an owner."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.__dict__["_modules"] = dict(module._modules)
        self.__dict__["_parameters"] = dict(module._parameters)
        self.__dict__["_buffers"] = dict(module._buffers)
        self._modules[OWN] = module
        self.training = module.training


def _or(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "nothing, for it has no place where one tensor carries everything"
