"""Constructs within constructs: every mode gives what eager mode gives, over four calls, or says why it does not.

A run takes some pairs of the table and some deeper programs; `./dev sweep` takes every pair. A failure is shrunk.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import weft
from tests.agree.constructs import (
    CONSTRUCTS,
    LEAVES,
    MODES,
    Model,
    Outcome,
    Program,
    checkpointed,
    difference,
    draw,
    is_closed,
    run,
    smaller,
)
from tests.agree.width import TIMES, times

EVERY_PAIR = TIMES >= 20
DEEP = 4  # programs of three constructs in a run

# What a mode may refuse, by words of its error, and why it has to.
REFUSALS = {
    r"depends on u\d|known while the program runs": "Python asks a question about a size that only the run knows",
    r"inside of a transform \(grad, vmap, jvp\) that runs in a compiled function": "a block of a graph has no levels",
    r"return (it|the value) from the branch or body": "whether a block runs is known only when the program runs",
    r"the (body|step|branch) returns tensors of the classes": "what a block carries is of one class",
    r"(draws random numbers|draw different amounts)": "how often a block runs decides where the stream goes on",
    r"a tensor of a transform .* beyond its end": "what a level of a transform makes ends with it",
    r"classes are no part of a trace": "a program has tensors of one class",
    r"is no part of a trace, which knows plain tensors": "a program has tensors of one class",
    r"hooks on saved tensors are no part of a trace": "what a program saves, whoever runs it chooses",
    r"a hook of a node is no part of a trace|backward hooks assigned cannot be traced": "nodes are its caller's",
    r"asks a tensor .* for": "a value that only the run knows",
    r"a tensor seen as \w+ is no part of a trace": "its values are plain tensors",
    r"a tensor of jvp, which records no history": "gradients are asked for within jvp, which has none",
    r"a file holds graphs only": "a scripted function that calls Python is not saved",
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    weft.lazy.reset()


def has_a_meaning(program: Program) -> bool:
    """Whether eager mode has an answer that a mode can be held to: Python that a trace runs once does not run again,
    and a trace runs both branches; the second run of a checkpoint draws anew from a generator of the user's."""
    does = LEAVES[program.leaf].does
    if "checkpointed" in program.constructs and {"numbers", "state"} <= does:
        inside = program.constructs[program.constructs.index("checkpointed") :]
        if {"compiled", "split"} & set(inside):
            return False
    return not (program.is_traced and {"state", "asks", "lists", "misfit"} & does)


def problem(program: Program, mode: str, expected: Outcome) -> str | None:
    """What a mode does wrong with a program."""
    outcome = run(program, mode)
    if program.is_traced and "must override the setup_context" in str(expected.error):
        return None  # a traced Function is one that transforms take
    wrong = difference(outcome, expected, "cond" in program.constructs)
    if wrong is None or (expected.error is not None and isinstance(outcome.error, weft.WeftError)):
        return None
    if isinstance(outcome.error, weft.WeftError) and any(re.search(words, str(outcome.error)) for words in REFUSALS):
        return None
    return wrong


def check(program: Program, rng: np.random.Generator) -> None:
    """One program in every mode (by default two of them, drawn), fails with the smallest that is wrong in the same
    mode."""
    modes = MODES if TIMES > 1 else rng.choice(MODES, 2, replace=False).tolist()
    expected = run(program, "reference")
    assert expected.error is None or isinstance(expected.error, weft.WeftError)
    for mode in ("eager", *modes):
        wrong = problem(program, mode, expected)
        if wrong is None:
            continue
        candidates = [program]
        while candidates:
            program = candidates.pop(0)
            for candidate in filter(has_a_meaning, smaller(program)):
                shorter = problem(candidate, mode, run(candidate, "reference"))
                if shorter is not None:
                    candidates, wrong = [candidate], shorter
                    break
        raise AssertionError(f"{mode}: {program}\n{wrong}")


@pytest.mark.parametrize("outer", list(CONSTRUCTS))
def test_pairs(rng: np.random.Generator, outer: str) -> None:
    """One construct around another one."""
    names = list(CONSTRUCTS) if EVERY_PAIR else rng.choice(list(CONSTRUCTS), TIMES).tolist()
    for inner in names:
        drawn = draw(rng, 0)
        program = Program((outer, inner), drawn.leaf, drawn.calls, drawn.feeds_back)
        if has_a_meaning(program):
            check(program, rng)


@pytest.mark.parametrize("leaf", list(LEAVES))
def test_bodies(rng: np.random.Generator, leaf: str) -> None:
    """Each body within constructs that are drawn."""
    assert is_closed(leaf, rng)
    for _ in range(TIMES):
        drawn = draw(rng, 1)
        program = Program(drawn.constructs, leaf, drawn.calls, drawn.feeds_back)
        if has_a_meaning(program):
            check(program, rng)


@pytest.mark.parametrize("leaf", [name for name, leaf in LEAVES.items() if "state" not in leaf.does])
def test_checkpoints_change_nothing(rng: np.random.Generator, leaf: str) -> None:
    """Eager mode itself: a region runs twice, whatever it saves, and gives what it gave, also what it drew."""
    calls = draw(rng, 0).calls
    plain = run(Program((), leaf, calls), "reference")
    assert difference(run(Program(("checkpointed",), leaf, calls), "reference"), plain) is None
    m, runs = Model(), []
    m.change(0, calls[0][0])
    x = weft.linspace(-0.9, 1.1, calls[0][0], dtype=weft.float64, requires_grad=True)
    checkpointed(lambda v: [runs.append(1), LEAVES[leaf].body(v, m)][1], m)(x).sum().backward()
    assert len(runs) == 2


@pytest.mark.parametrize("mode", ["compile", "split", "lazy"])
def test_new_sizes_are_no_new_programs(rng: np.random.Generator, mode: str) -> None:
    """Once a step has met some sizes and numbers with each flag and name, others cost no program; nor do lists of
    lengths."""
    sizes = (*range(4, 13), *rng.integers(13, 40, 3).tolist())
    calls = tuple((n, 0.125 * (i + 1), i % 2 == 0) for i, n in enumerate(sizes))
    names = [n for n, leaf in LEAVES.items() if "guards" not in leaf.does]
    for leaf in rng.choice(names, min(TIMES + 1, len(names)), replace=False):
        weft.lazy.reset()  # (how soon a step is compiled goes by the steps before it)
        outcome = run(Program((), str(leaf), calls, feeds_back=False), mode)
        assert outcome.error is None, f"{leaf}: {outcome.error!r}"
        assert sum(outcome.programs[9:]) == 0, f"{leaf}: programs by call {outcome.programs}, sizes {calls}"


def test_deeper_programs(rng: np.random.Generator) -> None:
    """Three constructs."""
    for _ in range(times(DEEP)):
        program = draw(rng, 3)
        if has_a_meaning(program):
            check(program, rng)


def test_a_wrong_value_is_seen() -> None:
    """The comparison notices another number, another state, and another end."""
    program = Program(("loop",), "plain")
    expected = run(program, "reference")
    assert difference(run(program, "eager"), expected) is None
    for name, other in (("result", np.zeros(5)), ("count", 7), ("gradient", None), ("seen", [1])):
        outcome = run(program, "eager")
        outcome.calls[2][name] = other
        assert difference(outcome, expected) is not None
    outcome = run(program, "eager")
    outcome.error = weft.WeftError("ended")
    assert difference(outcome, expected) is not None
