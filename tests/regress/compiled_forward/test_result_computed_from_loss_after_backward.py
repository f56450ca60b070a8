"""A result made of a loss whose backward has run: the capture ended in "backward through the graph a second time";
eager mode returns it."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("result", ["loss * 1", "loss + 0.5 * p.sum()", "(loss, loss * 2)"])
def test_what_is_made_of_the_loss_is_returned(result: str, rng: np.random.Generator) -> None:
    values = rng.standard_normal(int(rng.integers(1, 6)))

    def losses(wrap: object) -> list[float]:
        scope = {"weft": weft, "p": weft.nn.Parameter(weft.from_numpy(values.copy()))}
        exec(
            (
                "def step(x):\n    p.grad = None\n    loss = (p * p * x).sum()\n    loss.backward()\n"
                f"    with weft.no_grad(): p.sub_(0.1 * p.grad)\n    return {result}"
            ),
            scope,
        )
        step = scope["step"] if wrap is None else weft.compile(scope["step"])  # type: ignore[arg-type]
        out = [step(weft.full((), v, dtype=weft.float64)) for v in (1.0, 2.0)]  # type: ignore[operator]
        return [float(t) for o in out for t in (o if isinstance(o, tuple) else (o,))]

    np.testing.assert_allclose(losses(weft.compile), losses(None), rtol=1e-12)


def test_what_was_written_through_a_view_is_returned() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        v = x.flip(0)
        v.view(-1)[:1].mul_(2)
        (v * v).sum().backward()
        return v

    for run in (step, weft.compile(step, backend="interpret")):
        x = weft.ones(3, requires_grad=True)
        assert run(x).tolist() == [2, 1, 1]
        assert x.grad is not None and x.grad.tolist() == [2, 2, 8]


def test_what_is_assigned_has_the_spent_history_of_what_it_was_made_of() -> None:
    class Holder:
        kept: weft.Tensor

    for wrap in (lambda f: f, lambda f: weft.compile(f, backend="interpret")):
        h = Holder()

        def step(x: weft.Tensor, h: Holder = h) -> None:
            y = (x * x).sin()
            y.sum().backward()
            h.kept = y.exp()

        compiled = wrap(step)
        for n in (2, 2, 3):
            compiled(weft.ones(n, requires_grad=True))
            assert h.kept.requires_grad and not h.kept.is_leaf
            with pytest.raises(RuntimeError, match="second time"):
                h.kept.sum().backward()
