"""A function under a transform asks for the generator's state and goes back to it, in a compiled step too: the tensor
of the state belonged to the transform's level, and the capture refused to read it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft


def again(x: weft.Tensor) -> weft.Tensor:
    """Draws the same numbers twice, and others behind them."""
    before = weft.get_rng_state()
    first = weft.rand(3)
    weft.set_rng_state(before)
    assert first.shape == (3,)
    return ((weft.rand(3) - first).abs() + x * x + weft.rand(3) * x).sum()


TRANSFORMS = {
    "grad": lambda x: weft.func.grad(again)(x),
    "grad of grad": lambda x: weft.func.grad(lambda y: weft.func.grad(again)(y).sum())(x),
    "vjp": lambda x: weft.func.vjp(again, x)[1](weft.tensor(1.0))[0],
    "jvp": lambda x: weft.func.jvp(again, (x,), (x,))[1],
    "vmap": lambda x: weft.vmap(again, randomness="same")(x.reshape(3, 1)),
    "vmap of different ones": lambda x: weft.vmap(again, randomness="different")(x.reshape(3, 1)),
    "vmap of grad": lambda x: weft.vmap(weft.func.grad(again), randomness="different")(x.reshape(3, 1)),
    "jacrev": lambda x: weft.func.jacrev(lambda y: again(y) * y)(x),
    "jacrev in chunks": lambda x: weft.func.jacrev(lambda y: again(y) * y, chunk_size=2)(x),
    "jacfwd": lambda x: weft.func.jacfwd(lambda y: again(y) * y, randomness="same")(x),
    "jacfwd of different ones": lambda x: weft.func.jacfwd(lambda y: again(y) * y, randomness="different")(x),
    "hessian": lambda x: weft.func.jacfwd(weft.func.jacrev(again), randomness="same")(x),
    "jacrev of jacrev": lambda x: weft.func.jacrev(weft.func.jacrev(again))(x),
    "jacobian": lambda x: weft.autograd.functional.jacobian(lambda y: again(y) * y, x),
    "behind jacrev": lambda x: (weft.func.jacrev(again)(x), again(x))[1],
}


@pytest.mark.parametrize("transform", list(TRANSFORMS))
def test_draws_of_a_compiled_call_are_those_of_eager_mode(transform: str) -> None:
    function: Callable[[weft.Tensor], weft.Tensor] = TRANSFORMS[transform]
    compiled = weft.compile(function)
    for seed in range(3):
        x = weft.linspace(-1, 1 + seed, 3)
        weft.manual_seed(seed)
        expected, state = function(x), weft.get_rng_state()
        weft.manual_seed(seed)
        weft.testing.assert_close(compiled(x), expected)
        assert weft.equal(weft.get_rng_state(), state)
