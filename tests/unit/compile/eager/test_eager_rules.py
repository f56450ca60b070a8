"""Rules on large arrays in eager mode: one native program for each rule, of every size,
with NumPy's values and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops import planned
from weft.programs.eager import rules
from weft.support import limits
from weft.support.counters import counters

F = weft.nn.functional
SIDE = 260  # 260 * 260 elements are large


def drawn(*dims: int, seed: int = 1) -> weft.Tensor:
    return weft.from_numpy(np.random.default_rng(seed).standard_normal(dims).astype("float32")).requires_grad_()


def by_numpy(function: Callable[..., Any], *args: Any) -> Any:
    with weft.knobs(backend="numpy"):
        return function(*args)


def with_gradients(function: Callable[..., weft.Tensor], *args: weft.Tensor) -> list[np.ndarray]:
    out = function(*args)
    weights = weft.from_numpy(np.random.default_rng(7).standard_normal(tuple(out.shape)).astype("float32"))
    grads = weft.autograd.grad((out * weights).sum(), [a for a in args if a.requires_grad])
    return [out.detach().numpy(), *(g.numpy() for g in grads)]


RULES: dict[str, tuple[Callable[..., weft.Tensor], tuple[tuple[int, ...], ...]]] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (SIDE,), w, b), ((SIDE, SIDE), (SIDE,), (SIDE,))),
    "softmax": (lambda x: F.softmax(x, -1), ((SIDE, SIDE),)),
    "log_softmax over columns": (lambda x: F.log_softmax(x, 0), ((SIDE, SIDE),)),
    "gelu": (lambda x: F.gelu(x), ((SIDE, SIDE),)),
    "gelu of a transposed tensor": (lambda x: F.gelu(x.t()), ((SIDE, SIDE + 1),)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), ((4, 3, 90, 80), (5, 3, 3, 3), (5,))),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), ((8, 3, 60, 60),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), ((4, 3, 90, 80),)),
    "linear of a transposed tensor": (lambda x, w: F.linear(x.t(), w), ((SIDE, SIDE), (SIDE, SIDE))),
    "a mean over a dim of size 1": (lambda x: x.mean(1), ((SIDE * SIDE, 1),)),
}


@pytest.mark.parametrize("name", RULES)
def test_values_and_gradients_are_numpy_s(name: str) -> None:
    function, dims = RULES[name]
    args = [drawn(*d, seed=i) for i, d in enumerate(dims)]
    for found, expected in zip(with_gradients(function, *args), by_numpy(with_gradients, function, *args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4 * max(1.0, float(np.abs(expected).max())))


def test_what_is_filled_with_a_number_is_not_compiled() -> None:
    compiled = counters.eager_programs
    x = weft.ones(512, 513)
    assert float(weft.zeros_like(x).sum() + weft.full_like(x, 2.0)[0, 0] + x.zero_()[1, 1]) == 2
    assert counters.eager_programs - compiled <= 1  # the sum


def test_one_program_serves_every_size() -> None:
    def step(rows: int) -> None:
        F.layer_norm(drawn(rows, 301), (301,)).sum()

    step(400)
    before, compiled = counters.eager_calls, counters.eager_programs
    for rows in (401, 555, 700):
        step(rows)
    assert counters.eager_calls > before and counters.eager_programs == compiled


def test_small_arrays_and_the_numpy_back_end_run_no_native_code() -> None:
    x, large = drawn(8, 8), drawn(SIDE, SIDE)
    before = counters.eager_calls
    F.softmax(x, -1)
    by_numpy(F.softmax, large, -1)
    assert counters.eager_calls == before
    F.softmax(large, -1)
    assert counters.eager_calls == before + 1


def test_results_are_memory_of_their_own() -> None:
    x = drawn(SIDE, SIDE).detach()
    kept = x.numpy().copy()
    out = F.softmax(x, -1)
    out.zero_()
    assert np.array_equal(x.numpy(), kept) and not np.may_share_memory(out.numpy(), x.numpy())
    again = F.softmax(x, -1)
    assert again.sum().item() == pytest.approx(SIDE, rel=1e-4) and out.sum().item() == 0


def test_a_program_that_refuses_says_what_eager_mode_says() -> None:
    index = weft.full((SIDE, SIDE), 9, dtype=weft.int64)
    words = []
    for call in (lambda: drawn(9, SIDE).gather(0, index), lambda: by_numpy(lambda: drawn(9, SIDE).gather(0, index))):
        with pytest.raises(IndexError) as caught:
            call()
        words.append(str(caught.value).split("\n")[0])
    assert words[0] == words[1]


def test_numbers_that_keep_changing_make_no_program_each() -> None:
    x = drawn(SIDE, SIDE).detach()
    before = counters.eager_programs
    for i in range(3 * limits.PROGRAMS_OF_AN_OPERATOR):
        np.testing.assert_allclose(
            F.leaky_relu(x, 0.001 * i).numpy(),
            np.where(x.numpy() > 0, x.numpy(), x.numpy() * np.float32(0.001 * i)),
            rtol=1e-6,
        )
    assert counters.eager_programs - before <= limits.PROGRAMS_OF_AN_OPERATOR


def test_what_stays_with_numpy() -> None:
    """Effects, views, results whose sizes only the run tells."""
    x = drawn(SIDE, SIDE).detach()
    weft.manual_seed(0)
    first = F.dropout(x, 0.5)
    weft.manual_seed(0)
    assert np.array_equal(first.numpy(), F.dropout(x, 0.5).numpy()) and not np.array_equal(
        first.numpy(), F.dropout(x, 0.5).numpy()
    )
    assert weft.nonzero(x > 0).shape[0] == int((x.numpy() > 0).sum())
    assert np.may_share_memory(x.reshape(-1).numpy(), x.numpy())


def test_a_warning_of_a_rule_is_given_for_large_arrays_too() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        F.mse_loss(weft.ones(SIDE, 1, SIDE), weft.ones(SIDE, SIDE))
    assert any("different to the input size" in str(w.message) for w in caught)


@pytest.mark.parametrize("large", [1, 1 << 30])
def test_the_limit_decides(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "LARGE", large)
    monkeypatch.setattr(rules, "_stores", {})  # (an operator has so many programs, and other tests have made some)
    planned.forget()
    before = counters.eager_calls
    weft.ones(5, 7).sum(0)
    planned.forget()
    assert (counters.eager_calls > before) == (large == 1)
