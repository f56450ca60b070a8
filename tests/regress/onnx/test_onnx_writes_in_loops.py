"""Exported models keep what a loop or branch writes into tensors around it; where it is only known when the model runs
which of two tensors was written, the other one is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
import weft.onnx
from weft import Tensor
from weft.support.errors import Unsupported

reference = pytest.importorskip("onnx.reference")
Found = tuple[Tensor, Tensor]


def summed(x: Tensor, n: Tensor) -> Found:
    total = weft.zeros(3)
    for i in range(int(n)):
        if i % 2 == 0:
            continue
        total += x * i
    return total, x


def in_a_branch(x: Tensor, n: Tensor) -> Found:
    y = x / 2
    if bool(y.sum() > 0):
        for _ in range(3):
            y *= 2
    return x, y


def twice_in_a_branch(x: Tensor, n: Tensor) -> Found:
    y = x * 1
    z = y.mul_(2) if bool(n > 2) else y * 3
    return y, z


def until(x: Tensor, n: Tensor) -> Found:
    y = x * 1
    for _ in range(int(n)):
        if bool(y.sum() > 4):
            break
        y += x
        y.mul_(2)
    return x, y


def handed_on(x: Tensor, n: Tensor) -> Found:
    y = x * 1
    for _ in range(int(n)):
        y = y.add_(1)
    return x, y


def held_by_a_list(x: Tensor, n: Tensor) -> Found:
    held, y = [x, x], x * 1
    for _ in range(int(n)):
        held[0] = y
        y += 1
    return held[0], y


def of_no_use(x: Tensor, n: Tensor) -> Found:
    if bool(n > 2):
        for _ in range(int(n) % 4):
            x * 2
    return x, x + 1


def left_early(x: Tensor, n: Tensor) -> Found:
    held, k = [x, x], int(n)
    for _ in range(3):
        if k < 0:
            held.insert(0, x * 2)
        if k < 2:
            return x, held[0]
    return held[1], x


def of_a_list_that_ends_by_a_value(x: Tensor, n: Tensor) -> Found:
    found, k, v = [5, 6], int(n), 1
    for _ in range(3):
        found += [v]
        if k != 3:
            continue
        v *= 4
    for one in found:
        return x, x + one
    return x, x * v


EXPORTED = [
    of_a_list_that_ends_by_a_value, summed, in_a_branch, twice_in_a_branch, until, handed_on, held_by_a_list,
    of_no_use, left_early,
]


@pytest.mark.parametrize("function", EXPORTED)
def test_writes_are_seen_behind(function: Callable[[Tensor, Tensor], Found], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    weft.onnx.export(weft.jit.script(function), (weft.arange(3.0), weft.tensor(1)), path, input_names=["x", "n"])
    session, loaded = reference.ReferenceEvaluator(str(path)), weft.onnx.load(path)
    names = session.input_names
    for start, n in ((0.5, 0), (-3.0, 1), (0.25, 3), (2.0, 6)):
        given = {"x": weft.arange(3.0) * start + 0.25, "n": weft.tensor(n)}
        wanted = function(given["x"].clone(), given["n"])
        found: Any = session.run(None, {k: given[k].numpy() for k in names})
        for one, other, own in zip(found, loaded(*[given[k] for k in names]), wanted, strict=True):
            np.testing.assert_allclose(one, own.numpy(), rtol=1e-6)
            assert other.tolist() == own.tolist()


def one_of_two(x: Tensor, n: Tensor) -> Found:
    y = x * 1
    z = x / 2 if bool(n > 1) else y
    y *= 2
    return y, z


def before_a_loop(x: Tensor, n: Tensor) -> Found:
    y = x * 1
    z = y
    for i in range(int(n)):
        if i == 1:
            y = y * 2
        y += 1
    return y, z


def through_a_view(x: Tensor, n: Tensor) -> Found:
    y = x * 1
    row = y[1:]
    if bool(n > 1):
        y = y * 3
    row *= 2
    return y, row


@pytest.mark.parametrize("function", [one_of_two, before_a_loop, through_a_view])
def test_one_of_two_is_refused(function: Callable[[Tensor, Tensor], Found], tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"written since; let the branch give a clone\(\) of it"):
        weft.onnx.export(weft.jit.script(function), (weft.arange(3.0), weft.tensor(1)), tmp_path / "model.onnx")
