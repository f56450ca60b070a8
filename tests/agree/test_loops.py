"""Python loops that become loops of a program, over steps and over lists: results, gradients and draws have the bits of
the unrolled program, and are those of eager mode to rounding, over several calls."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.list_programs import ListProgram, draw_lists
from tests.agree.loop_programs import Program, draw
from tests.agree.width import times

SEED = int(os.environ.get("WEFT_TEST_SEED", "20261129"))
IN_A_TEST = 3
CALLS = 2


def seen(program: Program, fold: str) -> list[Any]:
    """What the calls give: results, gradients, and where the generator stands; or the error. fold: `eager` compiles
    nothing."""
    function = program.function()
    with weft.knobs(fold="on" if fold == "eager" else fold), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = function if fold == "eager" else weft.compile(function)
        weft.manual_seed(program.seed)
        values: list[Any] = []
        for call in range(CALLS):
            arguments = program.arguments(call)
            try:
                results = step(*arguments)
                if results[0].requires_grad and "backward" not in program.source:
                    results[0].backward()
            except Exception as error:
                return [type(error)]
            values += [r.detach().numpy().copy() for r in results]
            values += [None if a.grad is None else a.grad.numpy().copy() for a in arguments]
        return [*values, weft.rand(1).numpy()]


def loops_in(program: Program) -> int:
    """How many loops the program of a function has when every loop is folded."""
    with weft.knobs(fold="all"):
        graph = weft.compile(program.function()).stages(*program.arguments(0))["optimized"]
    return sum(node.op.name == "prim::Loop" for node in graph.walk())


def differ(a: Any, b: Any) -> bool:
    """Whether two results differ in a bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes()
    return not (a is b or (not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray) and a == b))


@pytest.mark.parametrize("number", range(times(4)))
def test_folded_loops_have_the_bits_of_unrolled_ones(number: int) -> None:
    for seed in range(SEED + number * IN_A_TEST, SEED + (number + 1) * IN_A_TEST):
        program = draw(seed)
        unrolled, folded, eager = (seen(program, fold) for fold in ("off", "all", "eager"))
        assert len(folded) == len(unrolled), f"{program.source}\n{folded[:2]}\n{unrolled[:2]}"
        wrong = [i for i, (a, b) in enumerate(zip(folded, unrolled, strict=True)) if differ(a, b)]
        assert not wrong, f"seed {seed}: results {wrong} differ\n{program.source}"
        refused = isinstance(folded[0], type) and issubclass(folded[0], weft.WeftError)
        if refused or folded[0] is eager[0] or not program.is_double:  # (an error of weft's, or eager mode's own)
            continue
        for a, b in zip(folded, eager, strict=True):
            if isinstance(a, np.ndarray):
                scale = 1 + float(np.abs(b).max(initial=0))
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * scale, err_msg=f"seed {seed}\n{program.source}")


def test_most_of_them_have_loops() -> None:
    programs = [draw(seed) for seed in range(SEED, SEED + 6)]
    programs = [p for p in programs if not isinstance(seen(p, "off")[0], type)]
    assert sum(loops_in(p) > 0 for p in programs) * 3 > len(programs)


def seen_of_lists(program: ListProgram, fold: str) -> list[Any]:
    """What the calls of a function over lists give, and leave in them; or the error."""
    with weft.knobs(fold="on" if fold == "eager" else fold), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weft.manual_seed(program.seed)
        function, state = program.function()
        step = function if fold == "eager" else weft.compile(function)
        values: list[Any] = []
        for call in range(CALLS + 1):
            try:
                results = step(program.argument(call))
            except Exception as error:
                return [type(error)]
            values += [r.detach().numpy().copy() for r in (*results, *state)]
            values += [None if t.grad is None else t.grad.numpy().copy() for t in state]
        return [*values, weft.rand(1).numpy()]


@pytest.mark.parametrize("number", range(times(4)))
def test_loops_over_lists_have_the_bits_of_unrolled_ones(number: int) -> None:
    for seed in range(SEED + number * IN_A_TEST, SEED + (number + 1) * IN_A_TEST):
        program = draw_lists(seed)
        unrolled, folded, eager = (seen_of_lists(program, fold) for fold in ("off", "all", "eager"))
        assert len(folded) == len(unrolled) == len(eager), f"{program.source}\n{folded[:2]}\n{unrolled[:2]}"
        wrong = [i for i, (a, b) in enumerate(zip(folded, unrolled, strict=True)) if differ(a, b)]
        assert not wrong, f"seed {seed}: results {wrong} differ, {program.shapes}\n{program.source}"
        for a, b in zip(folded, eager, strict=True):
            if program.is_double and isinstance(a, np.ndarray) and np.isfinite(b).all():
                scale = 1 + float(np.abs(b).max(initial=0))
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * scale, err_msg=f"seed {seed}\n{program.source}")


def test_most_lists_are_gone_over_by_loops() -> None:
    with weft.knobs(fold="all"):
        graphs = []
        for seed in range(SEED, SEED + 6):
            program = draw_lists(seed)
            graphs.append(weft.compile(program.function()[0]).stages(program.argument(0))["optimized"])
    assert sum(any(node.op.name == "prim::table" for node in graph.walk()) for graph in graphs) >= 2
