"""What trace is given and what it checks: inputs by name, several methods, scripted parts inside, state and choices."""

from __future__ import annotations

import warnings

import pytest

import weft
import weft.jit
from tests.unit.jit.test_files import again
from weft import Tensor, nn


def combined(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return x + y * 2 + z * 3


def test_example_inputs_by_name(rng) -> None:
    x, y, z = (weft.tensor(rng.standard_normal(3)) for _ in range(3))
    traced = weft.jit.trace(combined, example_kwarg_inputs={"z": z, "x": x, "y": y})
    assert weft.equal(traced(y=y + 1, x=x, z=z), combined(x, y + 1, z))
    assert weft.equal(traced(z, y, x), combined(z, y, x))
    with pytest.raises(TypeError, match="do not fit"):
        weft.jit.trace(combined, example_kwarg_inputs={"q": x})
    with pytest.raises(TypeError, match="give example_inputs"):
        weft.jit.trace(combined)


def test_the_same_tensor_twice_is_two_inputs() -> None:
    x = weft.ones(2)
    traced = weft.jit.trace(lambda a, b: (a - b, a, a), (x, x))
    assert [t.tolist() for t in traced(x, x * 3)] == [[-2.0] * 2, [1.0] * 2, [1.0] * 2]


class Sized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(weft.full((2,), 3.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight

    def total(self, y: Tensor) -> Tensor:
        return self.weight.sum() + y


def test_several_methods_of_a_module() -> None:
    module = Sized()
    traced = weft.jit.trace_module(module, {"forward": weft.ones(2), "total": weft.ones(1)})
    assert isinstance(traced, weft.jit.TopLevelTracedModule) and list(dict(traced.named_parameters())) == ["weight"]
    with weft.no_grad():
        module.weight.fill_(5.0)
    assert traced(weft.ones(4, 2)).tolist() == [[5.0, 5.0]] * 4 and traced.total(weft.zeros(1)).tolist() == [10.0]
    assert again(traced).total(weft.ones(1)).tolist() == [11.0]
    of_method = weft.jit.trace(module.forward, weft.ones(2))
    assert isinstance(of_method, weft.jit.TopLevelTracedModule)


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            return x
        return -x * 2


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = weft.jit.script(Branching())

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


def test_a_scripted_part_keeps_its_branches() -> None:
    traced = weft.jit.trace(Around(), weft.ones(2))
    assert traced(-weft.ones(3)).tolist() == [3.0] * 3 and traced(weft.ones(1)).tolist() == [2.0]
    assert again(traced)(-weft.ones(1)).tolist() == [3.0]


@weft.jit.script_if_tracing
def repeated(x: Tensor, n: Tensor) -> Tensor:
    for _ in range(int(n)):
        x = x + 1
    return x


def test_script_if_tracing_keeps_a_loop() -> None:
    traced = weft.jit.trace(lambda x, n: repeated(x, n) * 2, (weft.ones(1), weft.tensor(3)))
    assert traced(weft.ones(1), weft.tensor(5)).item() == 12.0 and repeated(weft.ones(1), weft.tensor(2)).item() == 3.0


def choosing(x: Tensor) -> Tensor:
    if x.sum() > 1:
        return x
    return x * 2


def test_another_graph_for_another_input_is_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weft.jit.trace(choosing, weft.ones(1))
        with pytest.raises(weft.jit.TracingCheckError, match="branches on values"):
            weft.jit.trace(choosing, weft.ones(1), check_inputs=[(weft.ones(1) * 5,)])
        seen = [0]

        def counting(x: Tensor) -> Tensor:
            seen[0] += 1
            return x + seen[0]

        with pytest.raises(weft.jit.TracingCheckError, match="keeps state"):
            weft.jit.trace(counting, weft.ones(1))
        assert weft.jit.trace(counting, weft.ones(1), check_trace=False)(weft.zeros(1)).item() == seen[0]


@pytest.mark.parametrize(
    "function",
    [lambda x: x * x[0].item(), lambda x: sum(a for a in x), lambda x: x + len(x), lambda x: x if x[0] > 0 else -x],
)
def test_values_that_become_python_s_are_warned_of(function) -> None:
    with pytest.warns(weft.jit.TracerWarning, match="constant"):
        weft.jit.trace(function, weft.ones(2), check_trace=False)
