"""Sizes of 0, of 1 and of one more: a program captured at a valid size, then called with another (or captured there),
gives or refuses what eager does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sampling import Case, NoSample, cases

import weft
from weft.ops.op import OPS, Op
from weft.ops.packet import namespace_of
from weft.support.errors import CaptureError

ENTRIES = 30  # drawn anew for every run; all of them take three minutes
CHANGES = 12  # of one sample's sizes, drawn too
PUBLIC = sorted((op for op in OPS.values() if op.public and op.tensor_positions), key=lambda op: op.name)
Shapes = tuple[tuple[int, ...], ...]


def arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_in(item)


def with_arrays(value: Any, tensors: Iterator[Any]) -> Any:
    """The argument with tensors in place of its arrays, in order."""
    if isinstance(value, np.ndarray):
        return next(tensors)
    return tuple(with_arrays(v, tensors) for v in value) if isinstance(value, (tuple, list)) else value


def changed_shapes(arrays: list[np.ndarray[Any, Any]]) -> list[Shapes]:
    """Every size replaced wherever it occurs, and each size of each array alone."""
    found: dict[Shapes, None] = {}
    for n in sorted({n for x in arrays for n in x.shape}):
        for other in (0, 1, n + 1):
            found[tuple(tuple(other if d == n else d for d in x.shape) for x in arrays)] = None
    shapes = [x.shape for x in arrays]
    for i, shape in enumerate(shapes):
        for axis, n in enumerate(shape):
            for other in (0, 1, n + 1):
                changed = (*shape[:axis], other, *shape[axis + 1 :])
                found[(*shapes[:i], changed, *shapes[i + 1 :])] = None
    found.pop(tuple(shapes), None)
    return list(found)


def resized(x: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """x's values, repeated or cut off, in another shape."""
    return np.resize(x, shape) if x.size else np.zeros(shape, x.dtype)


def outcome(function: Callable[..., Any], arrays: list[np.ndarray[Any, Any]]) -> Any:
    """The value, or the exception."""
    weft.manual_seed(0)
    try:
        return function(*[weft.from_numpy(x.copy()) for x in arrays])
    except Exception as problem:
        return problem


def agree(eager: Any, compiled: Any) -> bool:
    """Whether both gave the same, or the program's error is caught wherever eager's is."""
    if isinstance(eager, Exception) or isinstance(compiled, Exception):
        if not (isinstance(eager, weft.WeftError) and isinstance(compiled, weft.WeftError)):
            return False
        builtins = {kind for kind in type(eager).__mro__ if kind in (RuntimeError, IndexError, ValueError, TypeError)}
        return all(isinstance(compiled, kind) for kind in builtins)
    if isinstance(eager, (tuple, list)):
        return len(eager) == len(compiled) and all(map(agree, eager, compiled))
    if not isinstance(eager, weft.Tensor):
        return bool(eager == compiled)
    a, b = eager.numpy(), compiled.numpy()
    return (
        a.dtype == b.dtype and a.shape == b.shape
        and np.allclose(a.astype(complex), b.astype(complex), 1e-6, 1e-7, equal_nan=True)
    )


def sample(op: Op, rng: np.random.Generator) -> Case | None:
    try:
        found = list(cases(op, rng))
    except NoSample:
        return None
    return found[rng.integers(len(found))] if found else None


@pytest.mark.filterwarnings("ignore")
def test_every_size_as_eager(rng: np.random.Generator) -> None:
    tried = 0
    for op in rng.permutation(np.array(PUBLIC, object))[:ENTRIES]:
        args = sample(op, rng)
        tried += 0 if args is None else check(op, args, rng)
    assert tried > ENTRIES


def check(op: Op, args: Case, rng: np.random.Generator) -> int:
    """Compare all outcomes of one entry; how many there were."""
    call = getattr(getattr(namespace_of(op.schema.namespace), op.base), op.schema.overload or "default")
    arrays = list(arrays_in(args))

    def function(*tensors: weft.Tensor) -> Any:
        return call(*with_arrays(args, iter(tensors)))

    kept = weft.compile(function)
    at_first = outcome(function, arrays)
    if isinstance(at_first, Exception) or isinstance(outcome(kept, arrays), CaptureError):  # (one that answers Python)
        return 0
    changes = changed_shapes(arrays)
    for i in rng.permutation(len(changes))[:CHANGES]:
        others = [resized(x, shape) for x, shape in zip(arrays, changes[i], strict=True)]
        expected = outcome(function, others)
        for when, run in (("captured before", kept), ("captured there", weft.compile(function))):
            found = outcome(run, others)
            assert agree(expected, found), (
                f"{op.name} of {changes[i]}, {when}: {found!r}, eager {expected!r}; other arguments {args}"
            )
    return 2 * min(CHANGES, len(changes))
