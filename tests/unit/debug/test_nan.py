"""WEFT_DEBUG=nan and anomaly mode: the operator that made the first NaN or infinity, in every kind of program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import NotFiniteError
from weft.support.observers import observers

FILE = Path(__file__).name


def line_of(function: Any, offset: int) -> str:
    """A line of a function, as messages have it."""
    return f"{FILE}:{function.__code__.co_firstlineno + offset}"


def overflows(x: Any) -> Any:
    y = (x * 1000).exp()
    return (y - y).sum()


@pytest.mark.parametrize("kind", ["compiled", "split", "lazy", "interpret"])
def test_a_forward_names_operator_line_and_cause(kind: str, rng: np.random.Generator) -> None:
    values = rng.uniform(1.0, 2.0, int(rng.integers(2, 9)))
    backend = "interpret" if kind == "interpret" else "llvm"
    with weft.knobs(debug="nan", backend=backend):
        x = weft.from_numpy(values)
        function = overflows if kind == "lazy" else weft.compile(overflows, split=kind == "split")
        x = x.to("lazy") if kind == "lazy" else x
        for _ in range(2):
            with pytest.raises(NotFiniteError) as told:
                float(function(x))
            text = str(told.value)
            assert text.startswith(f"{line_of(overflows, 2)}: aten::sub.Tensor gives NaN in {len(values)} of")
            assert f"infinite since {line_of(overflows, 1)}: aten::exp" in text and len(text.splitlines()) == 1


def test_a_step_writes_nothing_and_names_the_backward_and_its_forward(rng: np.random.Generator) -> None:
    w = weft.from_numpy(rng.uniform(0.5, 1.0, 4)).requires_grad_()
    opt = weft.optim.SGD([w], lr=0.1, momentum=0.9)

    @weft.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = ((w * x).sqrt() * 0).sum()
        loss.backward()
        opt.step()
        return loss

    with weft.knobs(debug="nan"):
        step(weft.ones(4, dtype=weft.float64))
        before = w.detach().numpy().copy()
        with pytest.raises(NotFiniteError) as told:
            step(weft.zeros(4, dtype=weft.float64))
        assert (w.detach().numpy() == before).all()
        step(weft.ones(4, dtype=weft.float64))
    forward, backward = line_of(step.function, 3), line_of(step.function, 4)
    assert str(told.value).startswith(f"{backward}: the backward of aten::sqrt ({forward}) gives NaN")


@pytest.mark.parametrize("kind", ["returned", "compiled autograd", "anomaly"])
@pytest.mark.filterwarnings("ignore:Anomaly")
def test_a_backward_of_a_forward_names_the_forwards_line(kind: str, rng: np.random.Generator) -> None:
    w = weft.from_numpy(rng.uniform(0.5, 1.0, 4)).requires_grad_()

    def forward(x: Any) -> Any:
        return ((w * x).sqrt() * 0).sum()

    x = weft.zeros(4, dtype=weft.float64)
    watched = weft.autograd.detect_anomaly() if kind == "anomaly" else weft.knobs(debug="nan")
    with watched, pytest.raises(NotFiniteError, match=f"^{line_of(forward, 1)}: aten::"):
        if kind == "compiled autograd":
            with weft.compiled_autograd.enable():
                weft.compile(forward)(x).backward()
        else:
            weft.compile(forward)(x).backward()
    assert w.grad is None
    assert observers.executables is None


def test_infinities_that_are_asked_for_and_values_that_nobody_reads_are_none(rng: np.random.Generator) -> None:
    n = int(rng.integers(3, 7))

    @weft.compile
    def attend(x: Any) -> Any:
        scores = (x @ x.T).masked_fill(weft.ones(n, n).triu(1).bool(), float("-inf"))
        unread = weft.where(x > 0, x, (x - 10).log())  # NaN, where x is not positive, which nobody picks
        return scores.softmax(-1), weft.where(x > 0, unread, 0.0), scores

    with weft.knobs(debug="nan"):
        probabilities, _, scores = attend(weft.from_numpy(rng.standard_normal((n, 4))))
    assert np.isfinite(probabilities.numpy()).all() and np.isinf(scores.numpy()).any()


def test_what_comes_in_is_warned_of(rng: np.random.Generator) -> None:
    double = weft.compile(lambda x: x * 2)
    with weft.knobs(debug="nan"), pytest.warns(UserWarning, match="NaN comes in with arg0"):
        assert np.isnan(double(weft.full((3,), float("nan"))).numpy()).all()


@pytest.mark.parametrize("steps", [1, 4])
def test_a_loop_names_the_line_in_its_body(steps: int) -> None:
    def body(carry: Any, x: Any) -> Any:
        carry = (carry - x).log()
        return carry, carry * 2

    @weft.compile
    def run(xs: Any) -> Any:
        return weft.scan(body, weft.ones(3), xs)[0]

    with weft.knobs(debug="nan"), pytest.raises(NotFiniteError, match=f"^{line_of(body, 1)}: aten::log gives NaN"):
        run(weft.full((steps, 3), 2.0))


def test_nothing_looks_when_nobody_asks() -> None:
    assert observers.executables is None
    with weft.knobs(debug="nan"), weft.knobs(debug="guards"):
        assert observers.executables is None
    assert observers.executables is None
