"""What trace is given and what it checks: inputs by name, several methods, scripted parts inside, state and choices."""

from __future__ import annotations

import math
import warnings

import numpy as np
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
    [
        lambda x: x * x[0].item(), lambda x: sum(a for a in x), lambda x: x + x.__len__(),
        lambda x: x if x[0] > 0 else -x, lambda x: x if x.shape[0] > 1 else -x, lambda x: sum(range(x.shape[0]), x),
        lambda x: x * f"{x.shape[0]}".count("2"), lambda x: x * float(np.float64(2.0) * x.shape[0]),
    ],
)
def test_values_that_become_python_s_are_warned_of(function) -> None:
    with pytest.warns(weft.jit.TracerWarning, match="constant"):
        weft.jit.trace(function, weft.ones(2), check_trace=False)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(weft.full((2,), 5.0))

    @weft.jit.export
    def told(self) -> int:
        return 3

    def forward(self, y: Tensor) -> Tensor:
        return self.x - y


def test_an_example_may_be_the_module_s_own_parameter() -> None:
    module = Own()
    traced = weft.jit.trace(module, module.x)
    assert traced(weft.ones(2)).tolist() == [4.0, 4.0]
    assert traced.told() == 3 and again(traced).told() == 3


def test_what_another_trace_left_behind_is_a_constant() -> None:
    kept: list[Tensor] = []

    def remembered(x: Tensor) -> Tensor:
        kept.append(x.neg())
        return x + kept[0]

    with pytest.raises(weft.jit.TracingCheckError, match="Graphs differed"):
        weft.jit.trace(remembered, weft.ones(2))


class Taking(nn.Module):
    def forward(self, parts: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
        return parts["a"][1] + 1


class Giving(nn.Module):
    def forward(self, parts: dict[str, tuple[Tensor, Tensor]]) -> dict[str, tuple[Tensor, Tensor]]:
        first, second = parts["a"]
        return {"a": (first, second * first)}


class Through(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.giving, self.taking = weft.jit.script(Giving()), weft.jit.script(Taking())

    def forward(self, parts: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
        given = self.giving(parts)
        return self.taking(given) + self.taking({"a": (parts["a"][0], given["a"][1])})


def test_dicts_go_into_scripted_parts_and_come_out_as_values(rng) -> None:
    through = Through()
    traced = weft.jit.trace(through, {"a": (weft.ones(2), weft.ones(2))})
    for n in (0, 3):
        parts = {"a": (weft.from_numpy(rng.standard_normal(n)), weft.from_numpy(rng.standard_normal(n)))}
        assert weft.equal(traced(parts), through(parts))


@pytest.mark.parametrize("name", ["T", "mT", "H", "mH", "data", "real"])
def test_properties_of_tensors(name, rng) -> None:
    def read(x: Tensor) -> Tensor:
        return getattr(x, name) * 2

    x, y = (weft.from_numpy(rng.standard_normal(s) + 1j) for s in ((2, 3), (3, 4)))
    for made in (weft.jit.trace(read, x), weft.jit.CompilationUnit(f"def f(x):\n    return x.{name} * 2").f):
        assert weft.equal(made(y), read(y)) and weft.equal(again(made)(y), read(y))


def test_backward_hooks_are_refused() -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].register_full_backward_hook(lambda *parts: None)
    with pytest.raises(RuntimeError, match="backward hooks assigned cannot be traced; take those of 0"):
        weft.jit.trace(module, weft.ones(2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (0.5 * x.shape[0]), lambda x: x / (2.0 / x.shape[0]), lambda x: x - (10.0 - x.shape[0]),
        lambda x: x * 2.0 ** x.shape[0], lambda x: x * (9.5 // x.shape[0] + 9.5 % x.shape[0]),
        lambda x: x * -x.shape[0],
        lambda x: x * math.sqrt(x.shape[0]), lambda x: x * max(x.shape[0], 5), lambda x: x[: int(x.shape[0] * 0.6)],
        lambda x: x[round(x.shape[0] / 3) :], lambda x: weft.zeros(math.floor(x.numel() / 2)), lambda x: x + len(x),
        lambda x: x * divmod(x.shape[0], 3)[1], lambda x: x * abs(x.shape[0] - 7), lambda x: x * float(x.shape[0]),
        lambda x: x * (x.shape[0] >> 1), lambda x: x.masked_fill(x > 0, math.log(x.shape[0], 3)),
    ],
)
def test_numbers_of_sizes_stay_open(function, tmp_path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = weft.jit.trace(function, (weft.ones(4),))
    weft.jit.save(traced, tmp_path / "t")
    for program in (traced, weft.jit.load(tmp_path / "t"), weft.compile(traced)):
        for n in (4, 6, 3, 9):
            x = weft.linspace(-1, 1, n)
            np.testing.assert_allclose(program(x).numpy(), function(x).numpy(), 1e-6)


def test_an_operator_that_takes_a_tensor_goes_before_one_that_takes_its_number() -> None:
    def repeated(i: Tensor) -> Tensor:
        return weft.repeat_interleave(i, i)

    for program in (weft.jit.trace(repeated, (weft.tensor([1, 2, 0]),)), weft.jit.script(repeated)):
        assert program(weft.tensor([3, 0])).tolist() == [3, 3, 3]
