"""Lists, written out, of numbers that only the run knows: what is asked of their elements is part of a compiled
program, and of an exported model; so are functions of such numbers in the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
import weft.onnx
from weft import Tensor

Found = tuple[Any, ...]


def totals(x: Tensor, n: Tensor) -> tuple[Tensor, int, float, int, float]:
    k, g = int(n), float(x.sum())
    found = [k, 2, 0]
    return x * sum(found), sum(found), sum([g, 0.5]), max(found), min([g, 0.5])


def questions(x: Tensor, n: Tensor) -> tuple[Tensor, bool, bool, int, bool, int]:
    k, g = int(n), float(x.sum())
    found = [k, 2, 0]
    return x * 1, any([k > 1, g > 5.0]), all([k > 1, True]), int(k in found[1:]), 3 not in found, found.count(0)


def comparisons(x: Tensor, n: Tensor) -> tuple[Tensor, bool, bool, bool, bool, bool, bool]:
    k = int(n)
    pairs = (k, 1) < (2, 0), (k, 1) >= (2, 1)
    return x * 1, [k, 2] == [2, 2], [k, 2] != [2, 2], [k, 1] == [k], [k, 2] < [2, 3], pairs[0], pairs[1]


def in_order(x: Tensor, n: Tensor) -> tuple[Tensor, int, int, int, int]:
    k = int(n)
    up, down = sorted([k, 2, 0]), sorted([3, k], reverse=True)
    turned = list(reversed([k, 1]))
    return x * up[0], up[1], up[2], down[0], turned[1]


LISTS = [totals, questions, comparisons, in_order]
GIVEN = [([0.5, 0.75], 2), ([-1.5, 0.25], 0), ([3.0, 2.5], 5), ([0.0, 0.5], -1)]


def close(found: Any, wanted: Any) -> None:
    for one, own in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(own, float), rtol=1e-6)


@pytest.mark.parametrize("function", LISTS)
def test_compiled(function: Callable[[Tensor, Tensor], Found]) -> None:
    compiled = weft.compile(weft.jit.script(function))
    for numbers, n in GIVEN:
        close(compiled(weft.tensor(numbers), weft.tensor(n)), function(weft.tensor(numbers), weft.tensor(n)))
    assert not compiled.misses


def bits(x: Tensor, n: Tensor) -> tuple[Tensor, int, int, int, int, int]:
    k = int(n)
    return x * 1, k & 3, k | 4, 3 ^ k, ~k, (k << 2) + (k >> 1)


def functions(x: Tensor, n: Tensor) -> tuple[Tensor, float, float, float, int, int, int, float]:
    k, g = int(n), float(x.sum())
    whole = math.floor(g), math.ceil(g), round(g)
    return x * 1, math.sin(k), math.sqrt(abs(g) + 1), math.log2(abs(g) + 1), whole[0], whole[1], whole[2], math.fabs(g)


def quotients(x: Tensor, n: Tensor) -> tuple[Tensor, int, int, bool, bool]:
    k, g = int(n), float(x.sum())
    q, r = divmod(k, 3)
    return x * 1, q, r, math.isnan(g), math.isinf(g)


@pytest.mark.parametrize("function", [*LISTS, bits, functions, quotients])
def test_exported(function: Callable[[Tensor, Tensor], Found], tmp_path: Path) -> None:
    reference = pytest.importorskip("onnx.reference")
    path = tmp_path / "model.onnx"
    example = weft.tensor(GIVEN[0][0]), weft.tensor(GIVEN[0][1])
    weft.onnx.export(weft.jit.script(function), example, path, input_names=["x", "n"])
    session, loaded = reference.ReferenceEvaluator(str(path)), weft.onnx.load(path)
    for numbers, n in GIVEN:
        given = {"x": weft.tensor(numbers), "n": weft.tensor(n)}
        wanted = function(given["x"], given["n"])
        names = session.input_names
        close(session.run(None, {k: given[k].numpy() for k in names}), wanted)
        close(loaded(*[given[k] for k in names]), wanted)
