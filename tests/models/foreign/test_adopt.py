"""adopt on networks written by hand."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import residua as rs
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")


def layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Chain(nn.Module):
    """Networks as people write them: the batch size at the top, functional dropout and flattening at the bottom."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = layer(3, 4)
        self.body = nn.ModuleDict({"one": layer(4, 4), "two": layer(4, 8)})
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        n = x.shape[0]
        x = self.stem(x)
        x = F.relu(self.body["one"](x) + x, inplace=True)
        x = F.max_pool2d(self.body["two"](x), 2)
        x = F.dropout(F.relu(self.norm(x), inplace=True), 0.3, training=self.training)
        return self.fc(F.adaptive_avg_pool2d(x, 1).view(n, -1))


class Skipping(nn.Module):
    """The stem's output passes by the first stage."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one, self.two, self.three = layer(3, 4), layer(4, 4), layer(8, 4), layer(4, 4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        a = self.stem(x)
        b = self.one(a)
        c = self.two(torch.cat([a, b], 1))
        return self.fc(self.three(c).mean((2, 3)))


class Tokens(nn.Module):
    """A small transformer that owns its class token and positions itself."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 5, 8))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True) for _ in range(3)
        )
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        b = x.size(0)
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(b, -1, -1), x], 1) + self.pos_embed
        for part in self.layers:
            x = part(x)
        return self.head(self.norm(x)[:, 0])


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pos_embed = nn.Parameter(torch.randn(1, 8, 1, 1))
        self.one, self.two = layer(8, 8), layer(8, 8)

    def forward(self, x):
        return self.two(F.dropout(self.one(x + self.pos_embed), training=self.training))


class Containing(nn.Module):
    """Weights that belong to a container which is cut inside."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.encoder, self.fc = layer(3, 8), Encoder(), nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(self.encoder(self.stem(x)).mean((2, 3)))


class Reshaped(nn.Module):
    """The batch size, and a weight with as many rows as the example has samples."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.fc = layer(3, 4), nn.BatchNorm2d(4), nn.Linear(4, 5)
        self.register_buffer("mean", torch.zeros(3, 1, 1))
        self.layer_scale = nn.Parameter(torch.ones(len(IMAGES), 4))

    def forward(self, x):
        n = x.shape[0]
        x = self.stem(x - self.mean + (self.layer_scale * n).mean() - n)
        x = self.norm(torch.reshape(x, (n, 4, -1, 8)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).reshape(n, 4))


IMAGES = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def run(net, x=IMAGES):
    with rs.seeded(1), torch.no_grad():
        return net(x)


def check_equal(net, adopted):
    net = copy.deepcopy(net)
    for mode, x in ((False, IMAGES), (True, IMAGES), (False, IMAGES[:3])):
        torch.testing.assert_close(run(adopted.train(mode), x), run(net.train(mode), x), atol=1e-5, rtol=0)


CUTS = {
    "once": (Chain, ["norm"]),
    "before an activation in place": (Chain, ["stem", "body.two", "norm"]),
    "inside a stage": (Chain, ["stem.0", "stem", "body.two.1", "norm"]),
    "around the skip": (Skipping, ["stem", "two", "three"]),
    "reshaped by the batch size": (Reshaped, ["stem", "norm"]),
    "inside a container with weights": (Containing, ["stem", "encoder.one", "encoder"]),
    "tokens": (Tokens, ["layers.0", "layers.1", "norm"]),
}


@pytest.mark.parametrize("case", CUTS)
def test_a_network_is_cut_where_it_is_said(case):
    make, cuts = CUTS[case]
    with rs.seeded(0):
        net = make()
    before = weights_digest(net)
    adopted = rs.adopt(net, cuts, IMAGES)
    assert weights_digest(net) == before
    assert net.training
    assert adopted.depth == len(cuts)
    assert not {p.data_ptr() for p in net.parameters()} & {p.data_ptr() for p in adopted.parameters()}
    assert sum(p.numel() for p in adopted.parameters()) == sum(p.numel() for p in net.parameters())
    check_equal(net, rs.clone(adopted))
    expected = {name: [] for name in cuts}
    reading = copy.deepcopy(net).eval()
    for name in cuts:
        reading.get_submodule(name).register_forward_hook(
            lambda _, __, found, name=name: expected[name].append(found.clone())
        )
    run(reading)
    with torch.no_grad():
        found = adopted.features(IMAGES, range(1, adopted.depth + 1))
        pooled = adopted.encode(IMAGES)
    for block, name in enumerate(cuts, start=1):
        torch.testing.assert_close(found[block], expected[name][0], atol=1e-5, rtol=0)
    assert pooled.ndim == 2


@pytest.mark.parametrize("case", CUTS)
def test_cut_networks_are_cloned_frozen_and_drawn_again(case):
    make, cuts = CUTS[case]
    adopted = rs.clone(rs.clone(rs.adopt(make(), cuts, IMAGES)))
    with torch.no_grad():
        for tensor in adopted.state_dict().values():
            tensor.fill_(7)
    rs.reinitialise(adopted)
    kept = [name for name, t in adopted.state_dict().items() if (t == 7).any()]
    assert [name for name in kept if not name.endswith("own_tensors.mean")] == []
    rs.freeze(adopted.upto(1))
    before = weights_digest(adopted.upto(1))
    adopted.train()(IMAGES).sum().backward()
    assert weights_digest(adopted.upto(1)) == before
    assert all(p.grad is None for p in adopted.upto(1).parameters())
    assert all(p.grad is not None for p in adopted.head.parameters())


def test_a_frozen_block_does_not_drop_out():
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.fc = nn.Linear(4, 50), nn.Linear(50, 50), nn.Linear(50, 2)

        def forward(self, x):
            return self.fc(self.two(F.dropout(self.one(x), training=self.training)))

    adopted = rs.adopt(Dropping(), ["one", "two"], torch.randn(4, 4))
    rs.freeze(adopted.blocks[1])
    x = torch.randn(4, 4)
    assert torch.equal(adopted.train()(x), adopted.eval()(x))
    rs.thaw(adopted)
    assert not torch.equal(adopted.train()(x), adopted.eval()(x))


def test_a_skip_across_the_cut_is_refused_with_what_would_work():
    with pytest.raises(
        rs.InputError,
        match=r"one cannot be a boundary because the output of stem is used after it .*; cut at stem, two, three$",
    ):
        rs.adopt(Skipping(), ["one", "two"], IMAGES)


class Twice(Chain):
    def forward(self, x):
        x = self.body["one"](self.body["one"](self.stem(x)))
        return self.fc(self.norm(self.body["two"](x)).mean((2, 3)))


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one, self.fc = layer(3, 4), Split(), nn.Linear(2, 5)

    def forward(self, x):
        a, b = self.one(self.stem(x))
        return self.fc((a * b).mean((2, 3)))


class Split(nn.Module):
    def forward(self, x):
        return x[:, :2], x[:, 2:]


class TwoPaths(Chain):
    def forward(self, x):
        x = self.body["one"](self.stem(x))
        if self.training:
            x = x + torch.randn_like(x)
        return self.fc(self.norm(self.body["two"](x)).mean((2, 3)))


class OtherRate(Chain):
    """The trace sees a number and cannot know that it comes from the mode; only the outputs tell."""

    def forward(self, x):
        x = F.dropout(self.stem(x), 0.5 if self.training else 0.0)
        return self.fc(self.norm(self.body["two"](x)).mean((2, 3)))


class DataDependent(Chain):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


class Tuple(Chain):
    def forward(self, x):
        return super().forward(x), x


class Masked(Chain):
    def forward(self, x, mask=None):
        return super().forward(x)


@pytest.mark.parametrize(
    ("make", "cuts", "sentence"),
    [
        (Chain, ["stem", "nothing"], "no submodule 'nothing' to cut at; choose among stem, norm"),
        (Chain, ["body.two", "stem"], "do not follow each other in the network; .* stem, norm"),
        (Chain, ["stem", "stem"], "do not follow each other"),
        (Chain, ["stem", ""], "no submodule '' to cut at"),
        (Chain, ["stem", "fc"], "after the cut fc"),
        (Chain, ["stem"], "after the cut stem weights come before .*: norm$"),
        (Chain, [], "expected a list of names"),
        (Chain, "stem", "expected a list of names"),
        (Chain, None, "Chain is not a supported architecture; .*for example --cuts stem,norm "),
        (Skipping, None, "for example --cuts stem,two,three "),
        (Twice, ["body.one", "body.two"], "body.one cannot be a boundary because it runs 2 times; cut at stem, "),
        (Pair, ["one"], "one cannot be a boundary because it does not return a single tensor; cut at stem"),
        (TwoPaths, ["stem", "norm"], "TwoPaths takes another path in train mode"),
        (OtherRate, ["stem", "norm"], "do not give its outputs in train mode"),
        (DataDependent, ["stem"], "the forward of DataDependent cannot be traced"),
        (Tuple, ["stem"], "returns a tuple, expected logits"),
        (lambda: nn.Identity(), None, "has no weights"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), None, "expected at least 2, a block and the head"),
        (lambda: nn.Linear(8, 5), None, "(takes|no network)|returns 4 dimensions"),
        (lambda: "net", None, "a str cannot be adopted"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_refused_in_one_sentence(make, cuts, sentence):
    with pytest.raises(rs.InputError, match=sentence):
        rs.adopt(make(), cuts, IMAGES)


def test_an_input_that_nobody_uses_is_no_obstacle():
    net = Masked()
    check_equal(net, rs.adopt(net, ["stem", "norm"], IMAGES))


SEQUENCES = {
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.PReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 5),
        ), 2, 6,
    ),
    "perceptron": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.ReLU(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 5)), 2, 7,
    ),
    "stages": (
        lambda: nn.Sequential(layer(3, 4), layer(4, 5), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(5, 5), nn.LogSoftmax(1)), 2, 5,
    ),
    "with a norm before the network": (
        lambda: nn.Sequential(nn.BatchNorm2d(3), layer(3, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)), 1, 4,
    ),
    "parallel": (
        lambda: nn.DataParallel(nn.Sequential(layer(3, 4), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 5))), 1, 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SEQUENCES)
def test_a_sequence_is_cut_at_its_weights(case):
    make, depth, width = SEQUENCES[case]
    with rs.seeded(0):
        net = make()
    adopted = rs.adopt(net, example=IMAGES)
    assert adopted.depth == depth
    assert adopted.encode(IMAGES).shape == (6, width)
    check_equal(net, rs.clone(adopted))
    rs.reinitialise(adopted)


class Held(nn.Module):
    """A network whose own part has the name that DataParallel gives to what it holds."""

    def __init__(self):
        super().__init__()
        self.module = nn.Sequential(layer(3, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def forward(self, x):
        return -self.module(x)


def test_what_was_put_around_a_network_is_taken_off_and_nothing_more(net):
    with rs.seeded(0):
        held = Held().eval()
    for wrapped in (
        held,
        torch.compile(held, backend="eager"),
        nn.DataParallel(torch.compile(held, backend="eager")),
        torch.compile(nn.DataParallel(held), backend="eager"),
    ):
        adopted = rs.adopt(wrapped, ["module.0"], IMAGES)
        with torch.no_grad():
            torch.testing.assert_close(adopted(IMAGES), held(IMAGES), atol=1e-5, rtol=0)
    for wrapped in (torch.compile(net, backend="eager"), nn.DataParallel(net)):
        assert rs.adopt(wrapped).architecture == net.architecture


def test_our_own_networks_are_copied(net):
    adopted = rs.adopt(net)
    assert weights_digest(adopted) == weights_digest(net)
    assert adopted.architecture == net.architecture
    next(adopted.parameters()).data.add_(1)
    assert weights_digest(adopted) != weights_digest(net)


def test_the_ruler_reads_an_adopted_network_as_it_reads_ours(net, task):
    """The same layers, once ours and once a third party's: the same information to the last bit."""
    theirs = nn.Sequential(*copy.deepcopy(net).blocks, copy.deepcopy(net.pool), copy.deepcopy(net.head))
    adopted = rs.adopt(theirs, example=torch.randn(4, 1, 8, 8))
    assert adopted.depth == net.depth
    read = rs.measure.InformationCurve(steps=5, rounds=1)
    assert read(adopted, task).information == read(net, task).information


def test_a_network_cut_by_name_is_read_too(task):
    class Small(Chain):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.fc = layer(1, 4), nn.Linear(8, 4)

    with rs.seeded(0):
        adopted = rs.adopt(Small(), ["stem", "norm"], torch.randn(4, 1, 8, 8))
    curve = rs.measure.InformationCurve(steps=5, rounds=1)(adopted, task)
    assert curve.blocks == [1, 2]
    assert all(-0.2 < value < curve.ceiling + 0.01 for value in curve.information.values())


def test_a_weight_that_nobody_can_draw_is_refused_and_named():
    class Prompt(Tokens):
        def __init__(self) -> None:
            super().__init__()
            self.prompt = nn.Parameter(torch.ones(1, 1, 8))

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2) + self.prompt
            for part in self.layers:
                x = part(x)
            return self.head(self.norm(x)[:, 0])

    adopted = rs.adopt(Prompt(), ["layers.0", "norm"], IMAGES)
    with pytest.raises(rs.InputError, match="would draw prompt again"):
        rs.reinitialise(adopted)


def test_probabilities_are_not_taken_for_logits():
    parts = [layer(3, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)]
    with pytest.raises(rs.InputError, match="returns probabilities, expected logits"):
        rs.adopt(nn.Sequential(*parts, nn.Softmax(1)), example=IMAGES)


def test_damaged_weights_are_told():
    net = Chain()
    net.fc.weight.data[0] = float("nan")
    with pytest.raises(rs.InputError, match="not finite numbers"):
        rs.adopt(net, ["stem", "norm"], IMAGES)


def test_an_example_that_does_not_fit_is_told():
    with pytest.raises(rs.InputError, match=r"does not take the example of shape \(2, 1, 8, 8\)"):
        rs.adopt(Chain(), ["stem", "norm"], torch.randn(2, 1, 8, 8))
    with pytest.raises(rs.InputError, match="at least two inputs"):
        rs.adopt(Chain(), ["stem", "norm"], torch.randn(1, 3, 8, 8))
    assert rs.adopt(Chain(), ["stem", "norm"]).architecture["channels"] == 3


class Staged(nn.Module):
    """Stages with activations and poolings of their own name between them."""

    def __init__(self):
        super().__init__()
        self.conv1, self.act1 = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()
        self.conv2, self.act2 = nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.ReLU()
        self.gap, self.flat, self.fc = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.flat(self.gap(self.act2(self.conv2(self.act1(self.conv1(x)))))))


def test_suggested_cuts_never_count_one_stage_twice():
    with pytest.raises(rs.InputError, match=r"for example --cuts act1,act2 "):
        rs.adopt(Staged())
    assert rs.adopt(Staged(), cuts=["act1", "act2"]).depth == 2


class Normed(nn.Module):
    """Norms of their own name behind each convolution."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.gap, self.flat, self.fc = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.flat(self.gap(self.norm2(self.conv2(self.norm1(self.conv1(x)))))))


def test_a_norm_ends_the_stage_that_it_follows():
    with pytest.raises(rs.InputError, match=r"for example --cuts norm1,norm2 "):
        rs.adopt(Normed())


def test_one_network_has_one_hash_however_it_is_cut():
    net = Normed()
    whole, once = rs.adopt(net, cuts=["norm1", "norm2"]), rs.adopt(net, cuts=["norm2"])
    assert weights_digest(whole) == weights_digest(once) == weights_digest(rs.clone(once))
    with torch.no_grad():
        next(whole.parameters()).add_(1)
    assert weights_digest(whole) != weights_digest(once)
    swapped = copy.deepcopy(net)
    swapped.norm1.weight.data, swapped.norm1.bias.data = net.norm1.bias.data, net.norm1.weight.data
    assert weights_digest(rs.adopt(swapped, cuts=["norm2"])) != weights_digest(once)


class _FabricModule(nn.Module):
    """Lightning Fabric's wrapper, by its name and the names of its parts."""

    def __init__(self, net):
        super().__init__()
        self._forward_module = self._original_module = net

    def forward(self, *given):
        return self._forward_module(*given)


class Around(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.inner = net

    def forward(self, x):
        return self.inner(x)


def test_wrappers_are_taken_off_or_named(net):
    assert rs.adopt(_FabricModule(net)).architecture == net.architecture
    with pytest.raises(rs.InputError, match=r"pass its \.inner"):
        rs.adopt(Around(Chain()))


def test_a_size_that_the_network_does_not_take_is_told_as_an_option():
    net = nn.Sequential(nn.Conv2d(1, 2, 32), nn.Flatten(), nn.Linear(2, 3), nn.Linear(3, 3))
    with pytest.raises(rs.InputError, match="--size 32"):
        rs.adopt(net, example=torch.randn(2, 1, 28, 28))
