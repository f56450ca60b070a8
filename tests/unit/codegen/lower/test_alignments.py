"""ctc_loss in native code, forward and backward, is what NumPy computes: any lengths, labels, blanks, types, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.agree.width import times

Rng = np.random.Generator


def draw(rng: Rng, dtype: Any) -> tuple[Any, ...]:
    """log_probs, labels ([n, s] or one after another), lengths, blank."""
    steps, batch, classes = (int(n) for n in (rng.integers(1, 30), rng.integers(1, 6), rng.integers(1, 12)))
    blank, longest = int(rng.integers(classes)), int(rng.integers(0, 9))
    labels = rng.integers(0, 4, (batch, longest)) % classes
    inputs, told = rng.integers(0, steps + 1, batch), rng.integers(0, longest + 1, batch)
    scores = rng.normal(size=(steps, batch, classes)) * rng.choice([1, 8])
    scores[rng.random(scores.shape) < 0.05] = -np.inf if rng.random() < 0.3 else 0
    logs = F.log_softmax(weft.from_numpy(scores.astype(dtype)), -1).numpy()
    if rng.random() < 0.3:
        labels = np.concatenate([row[:n] for row, n in zip(labels, told, strict=True)])
    return logs, labels.astype(rng.choice(["int32", "int64"])), inputs, told, blank


def outcome(function: Any, logs: Any, *rest: Any) -> list[Any]:
    x = weft.from_numpy(logs).requires_grad_()
    loss = function(x, *rest)
    return [loss.detach().numpy(), weft.autograd.grad(loss.sum(), x)[0].numpy()]


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_lengths_and_labels(dtype: str, zero_infinity: bool, rng: Rng) -> None:
    for _ in range(times(24)):
        *drawn, blank = draw(rng, dtype)

        def loss(x: Any, labels: Any, inputs: Any, told: Any, blank: int = blank) -> Any:
            return F.ctc_loss(x, labels, inputs, told, blank, "none", zero_infinity)

        tensors = [weft.from_numpy(a) for a in drawn[1:]]
        compiled = weft.compile(loss)
        for a, b in zip(outcome(compiled, drawn[0], *tensors), outcome(loss, drawn[0], *tensors), strict=True):
            tolerance = 1e-5 if dtype == "float32" else 1e-11
            np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=f"{drawn[1:]} {blank}")
        assert "_ctc_loss" not in str(weft.explain(compiled)).partition("outside of native code")[2]


def test_sizes_that_change_are_one_program(rng: Rng) -> None:
    def loss(x: Any, labels: Any, inputs: Any, told: Any) -> Any:
        return F.ctc_loss(x, labels, inputs, told, 0, "none")

    compiled = weft.compile(loss)
    for steps, batch, longest in ((9, 3, 4), (14, 5, 6), (11, 4, 5), (20, 2, 9)):
        logs = F.log_softmax(weft.from_numpy(rng.normal(size=(steps, batch, 7))), -1).numpy()
        arrays = (rng.integers(1, 7, (batch, longest)), np.full(batch, steps), rng.integers(0, longest + 1, batch))
        tensors = [weft.from_numpy(a) for a in arrays]
        for a, b in zip(outcome(compiled, logs, *tensors), outcome(loss, logs, *tensors), strict=True):
            np.testing.assert_allclose(a, b, 1e-11, 1e-11)
    assert len(compiled.entries) <= 2


@pytest.mark.parametrize(("inputs", "told", "label", "text"), [
    ([4, 4], [2, 2], 9, "labels of 5 classes, but got 9"), ([4, 8], [2, 2], 1, "at most 6, but got value 8"),
    ([4, 4], [2, 4], 1, "target_lengths says"), ([-1, 4], [2, 2], 1, "at least 0, but got -1"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_as_in_eager_mode(inputs: Any, told: Any, label: int, text: str) -> None:
    def loss(x: Any, labels: Any, inputs: Any, told: Any) -> Any:
        return F.ctc_loss(x, labels, inputs, told)

    tensors = weft.tensor([[1, label, 2], [3, 1, 2]]), weft.tensor(inputs), weft.tensor(told)
    x = F.log_softmax(weft.zeros(6, 2, 5), -1)
    compiled = weft.compile(loss)
    compiled(x, weft.tensor([[1, 1, 2], [3, 1, 2]]), weft.tensor([6, 5]), weft.tensor([2, 3]))
    for function in (loss, compiled):
        with pytest.raises(weft.WeftError, match=text):
            function(x, *tensors)
