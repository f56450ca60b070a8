"""weft.masked against NumPy's masked arrays and closed forms: values, gradients, in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

M = weft.masked
CASES: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "sum": (lambda x, m: M.sum(x, 1, mask=m), lambda a: a.sum(1).filled(0)),
    "prod": (lambda x, m: M.prod(x, (0, 1), mask=m), lambda a: a.prod()),
    "amax": (lambda x, m: M.amax(x, 0, mask=m), lambda a: a.max(0).filled(-np.inf)),
    "amin": (lambda x, m: M.amin(x, 1, keepdim=True, mask=m), lambda a: a.min(1, keepdims=True).filled(np.inf)),
    "argmax": (lambda x, m: M.argmax(x, 1, mask=m), lambda a: a.filled(-np.inf).argmax(1)),
    "argmin": (lambda x, m: M.argmin(x, mask=m), lambda a: a.filled(np.inf).argmin()),
    "cumsum": (lambda x, m: M.cumsum(x, 1, mask=m), lambda a: a.filled(0).cumsum(1)),
    "cumprod": (lambda x, m: M.cumprod(x, 0, mask=m), lambda a: a.filled(1).cumprod(0)),
    "mean": (lambda x, m: M.mean(x, 1, mask=m), lambda a: a.mean(1).filled(np.nan)),
    "mean of all": (lambda x, m: M.mean(x, mask=m), lambda a: a.mean()),
    "median": (lambda x, m: M.median(x, 1, mask=m), lambda a: _lower_median(a)),
    "logsumexp": (lambda x, m: M.logsumexp(x, 1, mask=m), lambda a: np.log(np.exp(a.filled(-np.inf)).sum(1))),
    "norm": (lambda x, m: M.norm(x, 3.0, 1, mask=m), lambda a: ((np.abs(a.filled(0)) ** 3).sum(1)) ** (1 / 3)),
    "norm of -inf": (lambda x, m: M.norm(x, float("-inf"), 1, mask=m), lambda a: np.abs(a).min(1).filled(np.inf)),
    "norm of -1": (lambda x, m: M.norm(x, -1.0, 1, mask=m), lambda a: 1 / (1 / np.abs(a.filled(np.inf))).sum(1)),
    "var": (lambda x, m: M.var(x, 1, False, mask=m), lambda a: a.var(1).filled(np.nan)),
    "std": (lambda x, m: M.std(x, 0, correction=1, mask=m), lambda a: _std(a)),
    "softmax": (lambda x, m: M.softmax(x, 1, mask=m), lambda a: _softmax(a.filled(-np.inf))),
    "log_softmax": (lambda x, m: M.log_softmax(x, 1, mask=m), lambda a: np.log(_softmax(a.filled(-np.inf)))),
    "softmin": (lambda x, m: M.softmin(x, 1, mask=m), lambda a: _softmax(-a.filled(np.inf))),
    "normalize": (lambda x, m: M.normalize(x, 2.0, 1, mask=m), lambda a: _normalized(a.filled(0))),
    "logaddexp": (
        lambda x, m: M.logaddexp(x, x * 2, input_mask=m, other_mask=~m),
        lambda a: np.where(a.mask, 2 * a.data, a.data),
    ),
}


def _lower_median(a: Any) -> Any:
    return [sorted(r.compressed())[(r.count() - 1) // 2] if r.count() else np.nan for r in a]


def _std(a: Any) -> Any:
    columns = [a[:, i].compressed() for i in range(a.shape[1])]
    return [np.std(c, ddof=1) if len(c) > 1 else np.nan for c in columns]


def _softmax(x: Any) -> Any:
    e = np.exp(x)
    return e / e.sum(1, keepdims=True)


def _normalized(x: Any) -> Any:
    return x / np.maximum(np.sqrt((x * x).sum(1, keepdims=True)), 1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_values_in_eager_and_compiled_calls(name: str, rng: np.random.Generator) -> None:
    run, expected = CASES[name]
    compiled = weft.compile(run)
    for rows, columns in rng.integers(2, 6, (3, 2)):
        x, mask = rng.normal(size=(rows, columns)), rng.random((rows, columns)) < 0.6
        mask[0, 0], mask[-1] = True, name.startswith(("arg", "std"))
        with np.errstate(all="ignore"):
            wanted = np.asarray(expected(np.ma.masked_array(x, ~mask)))
        for function in (run, compiled):
            out = function(weft.from_numpy(x), weft.from_numpy(mask))
            np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(("arg", "norm of", "median"))])
def test_gradients_reach_what_is_kept_alone(name: str, rng: np.random.Generator) -> None:
    run, _ = CASES[name]
    x = weft.from_numpy(rng.normal(size=(3, 4))).requires_grad_()
    mask = weft.tensor([[True, False, True, True], [True, True, False, True], [True, True, True, False]])
    assert weft.autograd.gradcheck(lambda x: weft.where(mask, run(x, mask), 0.0) if run(x, mask).shape == mask.shape
                                   else run(x, mask), (x,))  # fmt: skip
    if name != "logaddexp":
        (g,) = weft.autograd.grad(weft.nan_to_num(run(x, mask), 0.0, 0.0, 0.0).sum(), x)
        assert not g[~mask].any()


def test_which_results_stand_for_something() -> None:
    x, mask = weft.ones(2, 3), weft.tensor([[True, False, True], [False, False, False]])
    assert M._output_mask(M.sum, x, 1, mask=mask).tolist() == [True, False]
    assert M._output_mask(M.norm, x, 2.0, 0, keepdim=True, mask=mask).tolist() == [[True, False, True]]
    assert M._output_mask(M.amax, x, mask=mask).item() and M._output_mask(M.mean, x).item()
    assert weft.equal(M._output_mask(M.softmax, x, 1, mask=mask[:1]), mask[:1].expand(2, 3))
    assert M._output_mask(M.logaddexp, x, x, input_mask=mask, other_mask=~mask).all()


def test_masks_and_dtypes() -> None:
    x, mask = weft.tensor([[1, 2, 3], [4, 5, 6]], dtype=weft.int32), weft.tensor([[1, 0, 1]])
    assert M.sum(x, 1, mask=mask).tolist() == [4, 10] and M.sum(x, mask=mask).dtype is weft.int64
    assert M.amax(x, (), mask=mask).item() == 6 and M.amin(x, 0, mask=mask).tolist() == [1, 2**31 - 1, 3]
    assert M.mean(x, 1, dtype=weft.float64, mask=mask).tolist() == [2.0, 5.0] and M.median(x, 1).tolist() == [2, 5]
    assert M.sum(weft.ones(2, 3, dtype=weft.bool)).item() == 6
    for call, error, text in (
        (lambda: M.mean(x, 1), ValueError, "Could not infer"),
        (lambda: M.amax(x > 2, 1), NotImplementedError, "identity"),
        (lambda: M.sum(x, mask=weft.ones(1, 2, 3)), IndexError, "broadcastable mask"),
        (lambda: M.sum(x, 5), IndexError, "out of range"), (lambda: M.sum(x, (1, -1)), RuntimeError, "multiple times"),
        (lambda: M.median(x, 1, mask=mask), ValueError, "floating point"),
        (lambda: M.var(x, 1, True, correction=0), ValueError, "Only one"),
    ):
        with pytest.raises(error, match=text):
            call()
