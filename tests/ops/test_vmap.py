"""Every entry under vmap against a loop over the examples: batch dims in front, at the end,
and for some arguments only."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from derivatives import as_tensors
from refusals import REFUSING
from sampling import cases, mine

import weft
from weft.func import vmap
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.errors import StateError, WeftError

OF_MEMORY = {"aten::view_as_complex", "aten::view.dtype", "aten::view_bits"}
TESTED = [op for op in mine() if op.tensor_positions or op.tensor_list_positions]


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [x for v in value for x in leaves(v)]
    return [value] if isinstance(value, np.ndarray) else []


def replaced(value: Any, tensors: list[Any]) -> Any:
    """The arguments with tensors in place of their arrays, taken from the front of the list."""
    if isinstance(value, tuple):
        return tuple(replaced(v, tensors) for v in value)
    return tensors.pop(0) if isinstance(value, np.ndarray) else value


def examples(x: np.ndarray, count: int) -> list[np.ndarray]:
    """Arrays that are as valid as x where x is: floats scaled a little, the elements of the others moved round."""
    if x.dtype.kind in "fc":
        return [np.asarray(x * (1 + 0.04 * i)) for i in range(count)]
    return [np.roll(x, i, -1) if x.ndim else x.copy() for i in range(count)]


def results(value: Any) -> list[Any]:
    return [r for v in value for r in results(v)] if isinstance(value, (tuple, list)) else [value]


def outcome(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except (WeftError, RuntimeError, ValueError, IndexError) as error:
            return error


@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_vmap_is_a_loop_over_examples(op, rng):
    refused = False
    for args in cases(op, rng):
        arrays = leaves(args)
        if not arrays:
            continue
        refused = check(op, args, arrays, [0] * len(arrays), rng) or refused
        if "as_strided" in op.name or op.name in OF_MEMORY:
            continue  # it speaks of the memory of an example, which hangs on where the batch dim lies
        check(op, args, arrays, [-1] * len(arrays), rng)
        if len(arrays) > 1:
            mixed: list[Any] = [None if rng.integers(2) else int(rng.integers(2)) - 1 for _ in arrays]
            mixed[rng.integers(len(arrays))] = 0
            check(op, args, arrays, mixed, rng)
    assert refused == (op.name in REFUSING)


def check(op: Op, args: Any, arrays: list[np.ndarray], in_dims: list[Any], rng: np.random.Generator) -> bool:
    """Hold vmap against the loop. Whether it refuses the operator, for the reason that the table gives."""
    count = int(rng.integers(2, 4))
    batches = [[x] * count if d is None else examples(x, count) for x, d in zip(arrays, in_dims, strict=True)]
    expected = [
        outcome(lambda i=i: call(op, as_tensors(replaced(args, [b[i] for b in batches])))) for i in range(count)
    ]
    stacked = [
        weft.from_numpy(np.stack(b, d)) if d is not None else weft.from_numpy(b[0])
        for b, d in zip(batches, in_dims, strict=True)
    ]
    got = outcome(
        lambda: vmap(lambda *tensors: call(op, replaced(args, list(tensors))), in_dims=tuple(in_dims))(*stacked)
    )
    where = f"{op.name}, in_dims {in_dims}: {[x.shape for x in arrays]}"
    if isinstance(expected[0], Exception):  # the sample is none that the operator takes: neither does a batch of it
        assert isinstance(got, Exception) and all(isinstance(e, Exception) for e in expected), where
        return False
    if isinstance(got, Exception):
        if isinstance(got, StateError) and op.name in REFUSING and REFUSING[op.name] in str(got):
            return True
        raise AssertionError(where) from got
    for k, whole in enumerate(results(got)):
        parts = [results(e)[k] for e in expected]
        assert whole.dtype is parts[0].dtype, (op.name, in_dims, whole.dtype, parts[0].dtype)
        if op.base.startswith(("empty", "new_empty")):
            continue
        want = np.stack([p.detach().numpy() for p in parts])
        np.testing.assert_allclose(
            whole.numpy(), want, rtol=1e-9, atol=1e-9, err_msg=f"{op.name}, in_dims {in_dims}, result {k}"
        )
    return False
