"""Loops over sizes that change from call to call: results, gradients and what Python sees are those of eager mode at
every length, those of the unrolled program to the last bit, and most functions without a difference between iterations
are one program."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.length_programs import LengthProgram, draw_lengths
from tests.agree.test_loops import differ
from tests.agree.width import times

SEED = int(os.environ.get("WEFT_TEST_SEED", "20261129"))
LONG = 12  # from this length on loops are recognised in every program
MANY = 16  # one of so many programs has a call of more than 200 iterations


def lengths_of(program: LengthProgram) -> list[int]:
    """Lengths of calls: short ones too, one of them again, the first two long enough for a loop, some very long."""
    rng = np.random.default_rng([program.seed, 1])
    short = [int(n) for n in rng.choice(9, 3, replace=False)]
    long = [int(n) for n in rng.integers(LONG, 22, 4)]
    many = [int(rng.integers(201, 240))] if program.seed % MANY == 0 else []
    return [*long[:2], *many, *map(int, rng.permutation([*short, *long[2:]])), long[0], short[0]]


def seen(program: LengthProgram, fold: str, lengths: list[int]) -> tuple[list[list[Any]], int]:
    """What each call gives, or its error; and how many programs there are. fold: `eager` compiles nothing."""
    function, parameters = program.function()
    calls: list[list[Any]] = []
    with weft.knobs(fold="on" if fold == "eager" else fold), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = function if fold == "eager" else weft.compile(function)
        for call, length in enumerate(lengths):
            arguments = program.arguments(call, length)
            for parameter in parameters:
                parameter.grad = None
            try:
                results = step(*arguments)
                loss = results[0]
                if isinstance(loss, weft.Tensor) and loss.requires_grad and "backward" not in program.source:
                    loss.backward()
            except Exception as error:
                calls.append([type(error)])
                continue
            values = [r.detach().numpy().copy() if isinstance(r, weft.Tensor) else r for r in results]
            values += [None if a.grad is None else a.grad.numpy().copy() for a in (*arguments[:4], *parameters)]
            calls.append(values)
        return calls, len(getattr(step, "entries", ()))


def check(program: LengthProgram) -> None:
    lengths = lengths_of(program)
    (folded, _), (unrolled, _), (eager, _) = (seen(program, fold, lengths) for fold in ("on", "off", "eager"))
    for length, a, b, c in zip(lengths, folded, unrolled, eager, strict=True):
        text = f"seed {program.seed}, length {length} of {lengths}\n{program.source}"
        assert len(a) == len(b), f"{text}\n{a[:2]} {b[:2]}"
        wrong = [i for i, pair in enumerate(zip(a, b, strict=True)) if differ(*pair)]
        assert not wrong, f"results {wrong} differ: {text}"
        if isinstance(a[0], type) and issubclass(a[0], weft.WeftError):
            continue
        assert len(a) == len(c), f"{text}\n{a[:2]} {c[:2]}"
        for x, y in zip(a, c, strict=True):
            if isinstance(x, np.ndarray):
                scale = 1 + float(np.abs(y).max(initial=0))
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-6 * scale, err_msg=text)
            else:
                assert x == y, text


@pytest.mark.parametrize("number", range(times(2)))
def test_every_length_is_as_in_eager_mode(number: int) -> None:
    for seed in range(SEED + 2 * number, SEED + 2 * number + 2):
        check(draw_lengths(seed))


def test_most_are_one_program() -> None:
    programs = [p for p in map(draw_lengths, range(SEED, SEED + 60)) if p.is_one][:6]
    counts = [seen(p, "on", [20, 23, 31, 19, 26])[1] for p in programs]
    assert sum(0 < count <= 3 for count in counts) * 2 > sum(count > 0 for count in counts), counts
