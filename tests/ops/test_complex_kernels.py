"""Every pointwise operator that takes complex numbers does so in a program too: natively, or by NumPy where kernels
have no code for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.sampling import NoSample, cases, cast, mine
from weft.ir.builder import Builder
from weft.ir.evaluate import interpret
from weft.ops.op import Op
from weft.programs.executable import make_executable
from weft.support.errors import WeftError
from weft.types import dtype as dt
from weft.types.tensor_type import tensor_type

POINTWISE = [op for op in mine() if op.scalar is not None and op.effect != "random"]


def _graph(op: Op, args: Any) -> tuple[Any, list[Any]]:
    builder, inputs = Builder("f"), []

    def operand(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        inputs.append(value)
        return builder.handle(builder.param(tensor_type(dt.from_numpy(value.dtype), value.shape), f"x{len(inputs)}"))

    operands = tuple([operand(value) for value in args])
    with builder.active():
        results = builder.call(op, operands)
    return builder.graph([builder.operand(r) for r in (results if isinstance(results, tuple) else (results,))]), inputs


@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name)
def test_complex_numbers_in_programs(op: Op, rng: np.random.Generator) -> None:
    try:
        args = [cast(value, dt.complex64, rng) for value in next(iter(cases(op, rng)))]
        graph, inputs = _graph(op, args)
        expected = interpret(graph, inputs, {})
    except (NoSample, WeftError, TypeError, ValueError, AttributeError, AssertionError):
        return  # it takes no complex numbers
    for result, wanted in zip(make_executable(graph, "llvm").run(inputs, {}), expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), np.asarray(wanted), rtol=1e-3, atol=1e-4)
