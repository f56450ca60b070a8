"""grouped_mm: groups of rows, of columns and of what is summed over, in every mode, over calls with other groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

RNG = np.random.Generator


def expected(a: np.ndarray, b: np.ndarray, ends: list[int]) -> np.ndarray:
    """Group by group, with zeros behind the last one."""
    groups = list(zip([0, *ends], ends, strict=False))
    if a.ndim == b.ndim == 2:
        return np.stack([a[:, s:e] @ b[s:e] for s, e in groups])
    if a.ndim == 2:
        out = np.zeros((a.shape[0], b.shape[2]), a.dtype)
        for g, (s, e) in enumerate(groups):
            out[s:e] = a[s:e] @ b[g]
        return out
    out = np.zeros((a.shape[1], b.shape[1]), a.dtype)
    for g, (s, e) in enumerate(groups):
        out[:, s:e] = a[g] @ b[:, s:e]
    return out


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile, lambda f: weft.compile(f, split=True)])
@pytest.mark.parametrize("form", ["rows", "columns", "summed"])
def test_each_group_is_multiplied_with_its_own_matrix(rng: RNG, wrap: Any, form: str) -> None:
    run = wrap(lambda a, b, offs: F.grouped_mm(a, b, offs=offs))
    for _ in range(3):
        m, k, n = (int(size) for size in rng.integers(2, 6, 3))
        long = int(rng.integers(5, 9))
        ends = sorted(int(e) for e in rng.integers(0, long + 1, 3))
        shapes = {"rows": ((long, k), (3, k, n)), "columns": ((3, m, k), (k, long)), "summed": ((m, long), (long, n))}
        a, b = (rng.normal(size=size) for size in shapes[form])
        grads = []
        for function in (run, lambda x, y, _, ends=ends: _by_parts(x, y, ends)):
            x, y = (weft.tensor(v, requires_grad=True) for v in (a, b))
            out = function(x, y, weft.tensor(ends, dtype=weft.int32))
            np.testing.assert_allclose(out.detach().numpy(), expected(a, b, ends), rtol=1e-9, atol=1e-9)
            (out**2).sum().backward()
            grads.append((x.grad.numpy(), y.grad.numpy()))
        for found, wanted in zip(*grads, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def _by_parts(a: weft.Tensor, b: weft.Tensor, ends: list[int]) -> weft.Tensor:
    groups = list(zip([0, *ends], ends, strict=False))
    if a.ndim == b.ndim == 2:
        return weft.stack([a[:, s:e] @ b[s:e] for s, e in groups])
    if a.ndim == 2:
        rest = weft.zeros(a.shape[0] - ends[-1], b.shape[2], dtype=a.dtype)
        return weft.cat([*(a[s:e] @ b[g] for g, (s, e) in enumerate(groups)), rest])
    rest = weft.zeros(a.shape[1], b.shape[1] - ends[-1], dtype=a.dtype)
    return weft.cat([*(a[g] @ b[:, s:e] for g, (s, e) in enumerate(groups)), rest], 1)


def test_what_is_not_grouped_is_refused() -> None:
    a, b = weft.ones(4, 3), weft.ones(2, 3, 5)
    assert F.grouped_mm(weft.ones(2, 4, 3), b).shape == (2, 4, 5)
    assert F.grouped_mm(a, b, offs=weft.tensor([1, 4]), out_dtype=weft.float64).dtype is weft.float64
    with pytest.raises(TypeError, match="offs is needed"):
        F.grouped_mm(a, b)
    with pytest.raises(NotImplementedError, match="bias"):
        F.grouped_mm(a, b, offs=weft.tensor([1, 4]), bias=weft.ones(5))
    with pytest.raises(RuntimeError, match="2 or 3 dims"):
        F.grouped_mm(weft.ones(3), b)


def test_whether_all_or_any_are_true() -> None:
    assert weft._is_all_true(weft.tensor([True, True])).item() and not weft._is_any_true(weft.tensor([False])).item()
    with pytest.raises(RuntimeError, match="expected a tensor of bool"):
        weft._is_all_true(weft.ones(2))
