"""T-UNDEF-*: gradients that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, gradcheck, gradgradcheck

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


def pair(materialize: bool, seen: list[Any]) -> type[Function]:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
            ctx.set_materialize_grads(materialize)
            return x * 2.0, x * 3.0

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a, b))
            return None if a is None else a * 2.0

    return Pair


def test_t_undef_1_materialising(rng: Rng) -> None:
    for materialize in (True, False):
        x, seen = leaf(rng, 2), []
        a, _b = pair(materialize, seen).apply(x)
        a.sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
        assert (seen[0][1].tolist() == [0.0, 0.0]) if materialize else seen[0][1] is None


@pytest.mark.parametrize("cut", ["chunk", "split", "unbind"])
def test_t_undef_2_some_outputs_used(rng: Rng, cut: str) -> None:
    parts = {"chunk": lambda t: t.chunk(3), "split": lambda t: t.split([1, 2, 3]), "unbind": lambda t: t.unbind(0)}[cut]
    used = int(rng.integers(3))

    def f(t: weft.Tensor) -> weft.Tensor:
        return parts(t)[used].sin()

    x = leaf(rng, 6, 2)
    assert gradcheck(f, (x,)) and gradgradcheck(f, (x,), fast_mode=True)


def test_t_undef_2_lstm_with_some_outputs_used(rng: Rng) -> None:
    lstm = weft.nn.LSTM(2, 3)
    _out, (_h, c) = lstm(weft.randn(4, 1, 2))
    c.sum().backward()
    for name, p in lstm.named_parameters():
        assert p.grad is not None and bool(weft.isfinite(p.grad).all()), name


def test_t_undef_3_unused_inputs(rng: Rng) -> None:
    x, y = leaf(rng, 2), leaf(rng, 3)
    z = (x * x).sum()
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        weft.autograd.grad(z, (x, y), retain_graph=True)
    gx, gy = weft.autograd.grad(z, (x, y), allow_unused=True, retain_graph=True)
    assert gy is None
    np.testing.assert_allclose(gx.numpy(), 2 * x.detach().numpy())
    _, gy = weft.autograd.grad(z, (x, y), materialize_grads=True)
    assert gy.tolist() == [0.0] * 3
    with pytest.raises(ValueError, match="allow_unused"):
        weft.autograd.grad(z, (x, y), materialize_grads=True, allow_unused=False)


def test_t_undef_3_results_without_gradients(rng: Rng) -> None:
    x = leaf(rng, 4)
    values, indices = x.sort()
    assert values.requires_grad and not indices.requires_grad
    values, indices = x.max(0)
    assert values.requires_grad and not indices.requires_grad
    for made in (x.argmax(), x.argsort(), x > 0, x == x, x.isnan(), x.to(weft.int64)):
        assert not made.requires_grad and made.grad_fn is None


def test_t_undef_4_nothing_flows_through_a_subgraph_without_gradients(rng: Rng) -> None:
    x, ran = leaf(rng, 2), []
    a = x.exp()
    a.grad_fn.register_hook(lambda i, o: ran.append((i, o)))

    class Stop(Function):
        @staticmethod
        def forward(ctx: Any, t: weft.Tensor) -> weft.Tensor:
            return t * 1.0

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> None:
            return None

    y = Stop.apply(a) + x * 2.0
    y.sum().backward()
    assert ran == [((None,), (None,))] and x.grad.tolist() == [2.0, 2.0]  # the hook hears that nothing came or went


def test_t_undef_4_sums_of_present_and_missing(rng: Rng) -> None:
    def blocked(present: bool) -> type[Function]:
        class Maybe(Function):
            @staticmethod
            def forward(ctx: Any, t: weft.Tensor) -> weft.Tensor:
                return t * 1.0

            @staticmethod
            def backward(ctx: Any, g: weft.Tensor) -> Any:
                return g if present else None

        return Maybe

    for left in (True, False):
        for right in (True, False):
            x = leaf(rng, 2)
            m = x * 1.0
            (blocked(left).apply(m) + blocked(right).apply(m)).sum().backward()
            expected = None if not (left or right) else [float(left + right)] * 2
            assert (None if x.grad is None else x.grad.tolist()) == expected


@pytest.mark.parametrize(("made", "text"), [
    (lambda g: (g, g, g), r"incorrect number of gradients \(expected 2, got 3\)"),
    (lambda g: g, r"incorrect number of gradients \(expected 2, got 1\)"),
    (lambda g: (g, g), "a gradient different than None at position 2"),
    (lambda g: (3.0, None), r"expected Variable or None \(got float\)"),
    (lambda g: ([g], None), r"expected Variable or None \(got list\)"),
    (
        lambda g: (weft.ones(3), None),
        r"invalid gradient at index 0 - got \[3\] but expected shape compatible with \[2\]",
    ),
])
def test_t_undef_5_what_backward_may_return(rng: Rng, made: Any, text: str) -> None:
    class Odd(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, k: float) -> weft.Tensor:
            return x * k

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            return made(g)

    x = leaf(rng, 2)
    with pytest.raises(RuntimeError, match=text):
        Odd.apply(x, 2.0).sum().backward()
    (x * 1.0).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_t_undef_5_surplus_nones_and_tuples_of_one(rng: Rng) -> None:
    for made in (lambda g: (g, None, None, None), lambda g: (g, None)):
        class Fine(Function):
            @staticmethod
            def forward(ctx: Any, x: weft.Tensor, k: float) -> weft.Tensor:
                return x * k

            @staticmethod
            def backward(ctx: Any, g: weft.Tensor, made: Any = made) -> Any:
                return made(g)

        x = leaf(rng, 2)
        Fine.apply(x, 2.0).sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]


def test_t_undef_6_none_is_not_zero(rng: Rng) -> None:
    x, y = leaf(rng, 2), leaf(rng, 2)
    (x * 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0] and y.grad is None


def test_s0_5_validate_outputs(rng: Rng) -> None:
    """Gradients are summed to the input's shape and cast to its dtype, or refused: the same in eager and captured."""
    def custom(shape: tuple[int, ...], dtype: Any) -> type[Function]:
        class Made(Function):
            @staticmethod
            def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
                return x * 1.0

            @staticmethod
            def backward(ctx: Any, g: weft.Tensor) -> Any:
                return weft.ones(shape, dtype=dtype)

        return Made

    for shape in ((2,), (4, 2), (1, 2), (5,), ()):
        for dtype in (weft.float32, weft.float64):
            outcomes = []
            for wrap in (lambda f: f, weft.compile):
                w = weft.ones(2, requires_grad=True)
                function = custom(shape, dtype)

                def step(x: weft.Tensor, w: weft.Tensor = w, function: Any = function) -> None:
                    function.apply(w * x).sum().backward()

                try:
                    wrap(step)(weft.ones(2))
                    outcomes.append((w.grad.tolist(), w.grad.dtype))
                except RuntimeError as error:
                    text = str(error)
                    outcomes.append((type(error), text[text.index("Function"):]))
            assert outcomes[0] == outcomes[1], (shape, dtype)
            if shape == (4, 2):
                assert outcomes[0] == ([4.0, 4.0], weft.float32)
            if shape in ((5,), ()):
                assert ("MadeBackward" in str(outcomes[0][1]) and "index 0" in str(outcomes[0][1])) or shape == ()
