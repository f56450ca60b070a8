"""Scripted Modules: they compute what the Module computes, share its parameters, and train alike."""

from __future__ import annotations

import copy
import io
from typing import Dict, Final, List, Optional  # noqa: UP035

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn as nn
import weft.nn.functional as F
from weft import Tensor


class Net(nn.Module):
    """Parameters, buffers, constants, attributes, containers, methods."""

    __constants__ = ["scale"]  # noqa: RUF012
    width: Final[int]
    history: List[int]  # noqa: UP006
    cache: Dict[str, Tensor]  # noqa: UP006
    last: Optional[Tensor]  # noqa: UP045

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.scale, self.count, self.history, self.cache, self.last = width, 0.5, 0, [], {}, None
        self.first = nn.Linear(3, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        self.head = nn.Sequential(nn.LayerNorm(width), nn.GELU(), nn.Linear(width, 2))
        self.weight = nn.Parameter(weft.ones(width))
        self.register_buffer("shift", weft.zeros(width))
        self.nothing = None

    @property
    def doubled(self) -> float:
        return self.scale * 2

    def scaled(self, x: Tensor, by: float = 2.0) -> Tensor:
        return x * by * self.doubled

    @weft.jit.export
    def features(self, x: Tensor) -> Tensor:
        return self.first(x)

    @weft.jit.ignore
    def in_python(self, x: Tensor) -> Tensor:
        return x + len(type(self).__name__)

    def forward(self, x: Tensor, flag: bool = True):
        x = self.first(x)
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x)) + i
        for name, act in self.named.items():
            x = act(x) if name == "a" else act(x) * 2
        x = x * self.weight + self.shift
        self.count += 1
        self.shift = self.shift + 1
        self.history.append(self.count)
        if self.nothing is not None:
            x = self.nothing(x)
        last = self.last
        if last is not None:
            x = x + last.sum() * 0
        self.last = x.detach()
        if self.training:
            x = x + 1
        if flag:
            x = self.scaled(self.layers[-1](x), by=1.5)
        return self.head(self.in_python(x)), self.width, len(self.layers)


def pair() -> tuple[Net, Net]:
    weft.manual_seed(int(np.random.default_rng(1).integers(100)))
    net = Net(int(np.random.default_rng(2).integers(3, 6)))
    return net, copy.deepcopy(net)


def test_a_scripted_module_computes_what_the_module_does() -> None:
    net, twin = pair()
    scripted = weft.jit.script(twin)
    for training in (True, False):
        net.train(training), scripted.train(training)
        for flag in (True, False):
            x = weft.randn(4, 3)
            (a, *rest), (b, *others) = net(x, flag), scripted(x, flag)
            assert weft.allclose(a, b, atol=1e-4) and rest == others
    assert (scripted.count, scripted.history) == (net.count, net.history) and weft.equal(scripted.shift, net.shift)
    assert weft.allclose(scripted.features(x), net.first(x), atol=1e-6)
    scripted.graph.lint()
    scripted.inlined_graph.lint()
    assert not scripted.inlined_graph.findAllNodes("prim::CallMethod")


def test_parameters_are_shared_with_the_module() -> None:
    net, _ = pair()
    scripted = weft.jit.script(net)
    assert list(scripted.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(scripted.parameters(), net.parameters(), strict=True))
    x = weft.randn(2, 3)
    before = scripted(x)[0]
    with weft.no_grad():
        net.first.weight.mul_(2)
    assert not weft.equal(before, scripted(x)[0])


def test_a_script_module_trains_to_the_losses_of_eager_mode() -> None:
    def losses(model, x, y):
        opt = weft.optim.SGD(model.parameters(), lr=0.05)
        found = []
        for _ in range(5):
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            found.append(loss.item())
        return found

    weft.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    scripted = weft.jit.script(copy.deepcopy(model))
    x, y = weft.randn(8, 3), weft.randn(8, 1)
    assert losses(model, x, y) == losses(scripted, x, y)


class Shared(weft.jit.ScriptModule):
    """Methods by decorator and by text; one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.a = self.b = nn.Parameter(weft.ones(2, 2))
        self.inner = nn.Linear(2, 2)
        self.define("""
            def twice(self, x):
                return x * 2 + self.a
        """)

    @weft.jit.script_method
    def forward(self, x):
        return self.inner(self.twice(x)) * self.b


def test_methods_by_decorator_and_text() -> None:
    module = Shared()
    x = weft.randn(2, 2)
    expected = (x * 2 + module.a) @ module.inner.weight.t() + module.inner.bias
    assert weft.allclose(module(x), expected * module.b)
    assert len(list(module.parameters())) == 3 and [v.debugName() for v in module.graph.inputs()] == ["self", "x"]
    assert "twice" in module.code and module.twice.schema.startswith("twice(")


def test_what_a_parameter_slot_takes() -> None:
    module = Shared()
    with pytest.raises(TypeError, match="cannot assign 'int' object to parameter 'a'"):
        module.a = 3
    with weft.no_grad():
        module.a.data = weft.zeros(2, 2)
    assert weft.equal(module.twice(weft.ones(2, 2)), weft.full((2, 2), 2.0))


MODULES = [
    (lambda: nn.Conv2d(1, 2, 3), (1, 1, 5, 5)),
    (lambda: nn.BatchNorm1d(3), (4, 3)),
    (lambda: nn.LayerNorm(3), (2, 3)),
    (lambda: nn.GRUCell(3, 3), (2, 3)),
    (lambda: nn.LSTM(3, 4), (5, 2, 3)),
    (lambda: nn.MaxPool2d(2), (1, 1, 4, 4)),
    (lambda: nn.Flatten(), (2, 3, 4)),
    (lambda: nn.TransformerEncoderLayer(4, 2), (3, 2, 4)),
    (lambda: nn.GroupNorm(1, 3), (2, 3)),
    (lambda: nn.PReLU(), (2, 3)),
    (lambda: nn.ConvTranspose1d(1, 1, 2), (1, 1, 4)),
    (lambda: nn.InstanceNorm1d(3), (2, 3, 4)),
    (lambda: nn.Softmax(1), (2, 3)),
    (lambda: nn.Unflatten(1, (1, 3)), (2, 3)),
]


@pytest.mark.parametrize("make,sizes", MODULES, ids=lambda m: type(m()).__name__ if callable(m) else "")
@pytest.mark.parametrize("within", [False, True])
def test_modules_of_weft(make, sizes, within) -> None:
    module = make()
    scripted = weft.jit.script(nn.Sequential(module) if within else module)
    for training in (False, True):
        module.train(training), scripted.train(training)
        x = weft.randn(*sizes)
        state = copy.deepcopy(module.state_dict())
        weft.manual_seed(5)
        expected = module(x)
        module.load_state_dict(state)
        weft.manual_seed(5)
        found = scripted(x)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (expected, found)), strict=True):
            assert not isinstance(a, Tensor) or weft.allclose(a, b, atol=1e-5)


REFUSED = {
    "self.missing": "has no attribute 'missing'",
    "self.fresh": "has no attribute 'fresh'",
    "self.layers[n](x)": "must be written in the program",
    "self.thing": "it is a object, which a scripted program cannot hold",
    "self.forward(x, n)": "called recursively",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text) -> None:
    class Wrong(weft.jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(1, 1)])
            self.thing = object()

    module = Wrong()
    if "forward" in text:

        class Recursive(nn.Module):
            def forward(self, x, n: int):
                return self.forward(x, n)

        with pytest.raises(weft.jit.CompileError, match=REFUSED[text]):
            weft.jit.script(Recursive())
        return
    with pytest.raises(weft.jit.CompileError, match=REFUSED[text]):
        module.define(f"def forward(self, x, n: int):\n    return {text}")


def test_attributes_that_a_program_may_not_write() -> None:
    class Holder(weft.jit.ScriptModule):
        __constants__ = ["k"]  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__()
            self.k, self.n, self.w = 1, 2, nn.Parameter(weft.ones(1))

    for text, words in {
        "self.k = 2": "is a constant",
        "self.fresh = 2": "nonexistent attribute: fresh",
        "self.w = self.w + 1": "is a parameter",
        "self.n = 1.5": "not of type int",
    }.items():
        with pytest.raises(weft.jit.CompileError, match=words):
            Holder().define(f"def forward(self, x):\n    {text}\n    return x")


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(weft.ones(2))

    def twice(self, x):
        return x * self.w * 2

    def forward(self, x):
        return self.twice(x) + 1


class Over(Plain):
    def twice(self, x):
        return super().twice(x) + 1

    def forward(self, x):
        return super().forward(x) * 2 + super(Over, self).forward(x)  # noqa: UP008


class OverLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


class NoSuchMethod(Plain):
    def forward(self, x):
        return super().nothing(x)


@pytest.mark.parametrize("model", [Over(), OverLinear(2, 3)])
def test_methods_of_the_class_behind(model) -> None:
    x, program = weft.tensor([1.0, -3.0]), weft.jit.script(model)
    buffer = io.BytesIO()
    weft.jit.save(program, buffer)
    buffer.seek(0)
    assert weft.equal(program(x), model(x)) and weft.equal(weft.jit.load(buffer)(x), model(x))


def test_no_class_behind_has_the_method() -> None:
    with pytest.raises(weft.jit.CompileError, match="no class behind this one has a method 'nothing'"):
        weft.jit.script(NoSuchMethod())
