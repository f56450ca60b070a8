"""A number that changes costs one more capture, wherever it is handed; numbers made of sizes cost none."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor, nn
from weft.nn import functional as F


class Settings:
    value = 0.5


S = Settings()


def _rows() -> Tensor:
    return weft.arange(12.0).reshape(3, 4) / 7 - 0.6


FUNCTIONS: dict[str, Callable[[], Tensor]] = {
    "leaky_relu": lambda: F.leaky_relu(_rows(), S.value),
    "elu": lambda: F.elu(_rows(), S.value),
    "hardtanh": lambda: F.hardtanh(_rows(), -S.value, S.value),
    "threshold": lambda: F.threshold(_rows(), S.value, -1),
    "huber": lambda: F.huber_loss(_rows(), weft.zeros(3, 4), delta=S.value),
    "smooth l1": lambda: F.smooth_l1_loss(_rows(), weft.zeros(3, 4), beta=S.value),
    "label smoothing": lambda: F.cross_entropy(_rows(), weft.tensor([0, 1, 3]), label_smoothing=S.value / 2),
    "layer norm": lambda: F.layer_norm(_rows(), (4,), eps=S.value),
    "batch norm": lambda: F.batch_norm(_rows(), None, None, training=True, eps=S.value),
    "normalize": lambda: F.normalize(_rows(), S.value + 1),
    "attention": lambda: F.scaled_dot_product_attention(_rows()[None], _rows()[None], _rows()[None], scale=S.value),
    "pad": lambda: F.pad(_rows(), (1, 1), value=S.value),
    "cdist": lambda: weft.cdist(_rows(), _rows(), p=S.value + 1),
    "nan_to_num": lambda: (_rows() * float("nan")).nan_to_num(S.value),
    "std": lambda: _rows().std(correction=S.value),
    "quantile": lambda: weft.quantile(_rows(), S.value / 2),
    "scatter": lambda: _rows().scatter(1, weft.tensor([[1], [0], [3]]), S.value),
    "index_fill": lambda: _rows().index_fill(1, weft.tensor([1]), S.value),
    "linspace": lambda: weft.linspace(S.value, 3, 5),
    "logspace": lambda: weft.logspace(0, S.value, 5),
    "tensor": lambda: weft.tensor(S.value) * 2,
    "rows of tensor": lambda: weft.tensor([[S.value, 1], [2, 3]]),
    "new_tensor": lambda: weft.ones(2, dtype=weft.float64).new_tensor([S.value]),
    "normal": lambda: weft.zeros(3).normal_(S.value, 0.0),
}


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_changed_number_costs_one_capture(name: str, backend: str) -> None:
    function = FUNCTIONS[name]
    compiled = weft.compile(function, backend=backend)
    for _ in range(4):
        S.value = random.uniform(0.2, 0.9)
        weft.testing.assert_close(compiled(), function())
    assert len(compiled.misses) == 1


def test_a_step_of_arange_is_asked_for() -> None:
    compiled = weft.compile(lambda: weft.arange(0, 2, S.value))
    for S.value in (0.5, 0.25, 0.4):
        weft.testing.assert_close(compiled(), weft.arange(0, 2, S.value))


OF_SIZES: dict[str, Callable[[Tensor], Any]] = {
    "reciprocal": lambda x: x.sum() * (1 / x.shape[0]),
    "length": lambda x: x.sum() / len(x) + 1 / len(x),
    "ratio": lambda x: x.sum() * (x.shape[0] / x.shape[1]),
    "root": lambda x: x.sum() / math.sqrt(x.shape[0]),
    "power": lambda x: x.sum() * x.shape[0] ** -0.5,
    "logarithm": lambda x: x + math.log(x.numel()),
    "half": lambda x: x.shape[0] * 0.5,
    "full": lambda x: weft.full((2,), 1 / x.shape[0]),
    "alpha": lambda x: weft.add(x, x, alpha=1 / x.shape[0]),
    "positions": lambda x: weft.arange(x.shape[0], dtype=weft.float64) / x.shape[0],
    "grid": lambda x: weft.linspace(0, x.shape[0] / 2, x.shape[0]),
    "tensor": lambda x: weft.tensor([x.shape[0], 2]) * x.mean(),
    "fraction": lambda x: weft.tensor(1 / x.shape[0]),
    "pairs": lambda x: (x @ x.T)[tuple(weft.tril_indices(len(x), len(x), -1))].sum() + nn.functional.pdist(x).sum(),
    "diagonal": lambda x: (x @ x[: x.shape[0] // 2].T).diagonal().sum(),
}


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("name", OF_SIZES)
def test_numbers_made_of_sizes_cost_none(name: str, backend: str) -> None:
    function = OF_SIZES[name]
    compiled = weft.compile(function, backend=backend)
    for size in (random.randrange(2, 9), 1, random.randrange(9, 20)):
        x = weft.randn(size, 3, dtype=weft.float64)
        found, expected = compiled(x), function(x)
        assert type(found) is type(expected)
        weft.testing.assert_close(found, expected)
    assert not compiled.misses


def test_a_question_about_a_fraction_of_sizes_is_guarded() -> None:
    def function(x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] / 2 > 2.5 else x[: int(x.shape[0] * 0.5)]

    compiled = weft.compile(function)
    for size in (8, 9, 4, 4, 5, 20):
        x = weft.randn(size, 2)
        weft.testing.assert_close(compiled(x), function(x))
    assert (
        len(compiled.misses) == 1 and all("test_changed_number_recapture_count.py" in miss for miss in compiled.misses)
    ), compiled.misses


def test_a_schedule_of_a_counter_costs_one_capture() -> None:
    """The warm-up of an average's decay: (1 + n) / (10 + n)."""
    state = {"n": 0}

    def step(average: Tensor, x: Tensor) -> None:
        state["n"] += 1
        average.lerp_(x, 1 - min(0.999, (1 + state["n"]) / (10 + state["n"])))

    compiled = weft.compile(step)
    mine, theirs, x = weft.zeros(3), weft.zeros(3), weft.randn(3)
    for call in range(4):
        state["n"] = call
        step(theirs, x)
        state["n"] = call
        compiled(mine, x)
        assert state["n"] == call + 1
        weft.testing.assert_close(mine, theirs)
    assert len(compiled.misses) <= 1


def test_numbers_that_change_together_cost_one_capture() -> None:
    def function(x: Tensor, a: float, n: int, flag: bool = False) -> Tensor:
        return x * a * S.value * OTHER["k"] + n + flag

    compiled = weft.compile(function)
    for call in range(4):
        S.value, OTHER["k"] = random.uniform(0.2, 0.9), random.uniform(0.2, 0.9)
        x, a, n = weft.randn(3), random.random(), call + 5
        weft.testing.assert_close(compiled(x, a, n), function(x, a, n))
    assert len(compiled.misses) <= 2, compiled.misses  # those of the arguments, and those of Python's state


OTHER = {"k": 1.0}
