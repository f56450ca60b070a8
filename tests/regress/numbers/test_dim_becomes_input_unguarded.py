"""Numbers that became inputs of a program though its kernels take them as they are: a dim that the type rule did not
look at was taken for the one in the example, and every later call got that one's answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops.packet import aten
from weft.passes.alias import ProvingEnv
from weft.support.errors import IndexBoundsError, UnknownSize
from weft.types import shape_env
from weft.types.shape_env import ShapeEnv

Rng = np.random.Generator

ALONG: dict[str, Callable[..., Any]] = {
    "cumprod": lambda x, y, dim: x.cumprod(dim),
    "exclusive": lambda x, y, dim: aten._exclusive_cumprod(x, dim),
    "shift": lambda x, y, dim: aten._shift(x, dim, -1),
    "scan": lambda x, y, dim: aten._linear_scan(x, y, dim, True),
    "logcumsumexp": lambda x, y, dim: x.logcumsumexp(dim),
}


@pytest.mark.parametrize("name", ALONG)
def test_one_dim_after_the_other(rng: Rng, name: str) -> None:
    size = int(rng.integers(3, 6))
    values, others, seeds = rng.standard_normal((3, size, size, size))

    def results(device: str, dim: int) -> tuple[Any, Any]:
        x, y, seed = (weft.from_numpy(v).to(device) for v in (values, others, seeds))
        x.requires_grad_()
        out = ALONG[name](x, y, dim)
        return out.detach().cpu().numpy(), weft.autograd.grad(out, x, seed)[0].cpu().numpy()

    for dim in (0, 1, 2, 0, 2, 1):
        for found, expected in zip(results("lazy", dim), results("cpu", dim), strict=True):
            np.testing.assert_allclose(found, expected, 1e-9, 1e-12)


def test_what_cannot_be_asked_any_more_is_not_taken_from_the_example() -> None:
    env = ShapeEnv()
    number = env.fresh("i", 1)
    with shape_env.using(ProvingEnv(env)), pytest.raises(UnknownSize):
        shape_env.decided(number)
    assert not env.guards
    with shape_env.using(env):
        assert shape_env.decided(number) == 1 and len(env.guards) == 1
    with shape_env.using(ProvingEnv(env)):
        assert shape_env.decided(number) == 1


@pytest.mark.parametrize("backend", ["llvm", "interpret", "numpy"])
def test_empty_vectors_among_matrices_whatever_their_size_is_called(rng: Rng, backend: str) -> None:
    """cat leaves out a vector without elements beside matrices; where its size is a symbol, that is asked."""
    with weft.knobs(backend=backend):
        joined = weft.compile(lambda e, x: weft.cat([e, x, e, 2 * x], 1).sin())
        for rows in rng.integers(2, 7, 3):
            x = weft.from_numpy(rng.standard_normal((rows, 3))).requires_grad_()
            e = weft.empty(0, dtype=weft.float64, requires_grad=True)
            for out in (joined(e, x), weft.cat([e.to("lazy"), x.to("lazy"), e.to("lazy"), 2 * x.to("lazy")], 1).sin()):
                plain = x.detach().numpy()
                both = np.concatenate([plain, 2 * plain], 1)
                np.testing.assert_allclose(out.detach().cpu().numpy(), np.sin(both), 1e-12)
                to_e, to_x = weft.autograd.grad(out.sum(), (e, x), retain_graph=True)
                assert tuple(to_e.shape) == (0,)
                np.testing.assert_allclose(to_x.numpy(), np.cos(plain) + 2 * np.cos(2 * plain), 1e-12)
        with pytest.raises(IndexBoundsError, match="Dimension out of range"):
            joined(weft.empty(1), x)
        ends = weft.compile(lambda a, b: weft.cat([a, b]))
        assert [tuple(ends(weft.ones(n), weft.ones(m)).shape) for n, m in ((0, 3), (4, 2), (2, 0), (0, 0))] == [
            (3,), (6,), (2,), (0,)
        ]
