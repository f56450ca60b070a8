"""Every pointwise operator that takes complex numbers does so in a program too: natively, or by NumPy where kernels
have no code for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.sampling import NoSample, cases, cast, mine
from tests.unit.codegen.guarded import results_of
from weft.ir.builder import Builder
from weft.ir.evaluate import interpret
from weft.ops.op import Op
from weft.programs.executable import make_executable
from weft.support.errors import WeftError
from weft.types import dtype as dt
from weft.types.tensor_type import tensor_type

POINTWISE = [op for op in mine() if op.scalar is not None and op.effect != "random"]


@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name)
def test_complex_numbers_in_programs(op: Op, rng: np.random.Generator) -> None:
    builder, inputs, symbols = Builder("f"), list[Any](), dict[str, int]()
    try:
        args = [cast(value, dt.complex64, rng) for value in next(iter(cases(op, rng)))]
        graph = builder.graph(results_of(builder, op, args, inputs, symbols, tensor_type))
        expected = interpret(graph, inputs, symbols)
    except (NoSample, WeftError, TypeError, ValueError, AttributeError, AssertionError):
        return  # it takes no complex numbers
    for result, wanted in zip(make_executable(graph, "llvm").run(inputs, symbols), expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), np.asarray(wanted), rtol=1e-3, atol=1e-4)
