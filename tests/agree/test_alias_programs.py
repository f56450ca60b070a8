"""Random programs over aliases give what NumPy's views give: in eager mode, functionalized and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np
import pytest

import weft
import weft.lazy.inline.writer as writer
from tests.agree.alias_programs import NUMPY, Program, draw
from tests.agree.width import times
from weft.func import functionalize
from weft.support.knobs import knobs

IN_A_TEST = 25
MODES: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "functionalize": functionalize,
    "functionalize_views": lambda f: functionalize(f, remove="mutations_and_views"),
    "compile": lambda f: weft.compile(f, backend="interpret"),
    "native": weft.compile,
    "lazy": lambda f: f,
    "lazy_steps": lambda f: f,
    "lazy_native": lambda f: f,
    "split": lambda f: weft.compile(f, split=True),
    "split_cuts": lambda f: weft.compile(f, split=True),
    "split_native": lambda f: weft.compile(f, split=True),
}
ONCE = ("eager", "functionalize", "functionalize_views")  # keep nothing of a call
RARELY = ("native", "lazy_native", "lazy", "split", "split_cuts", "split_native")


class OnLazy:
    """weft, with factories that make lazy tensors."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(weft, name)
        return functools.partial(found, device="lazy") if name in ("tensor", "ones", "zeros", "full") else found


def _between(program: Program, mode: str) -> Callable[[int], str]:
    """What is done after a step: in lazy mode, steps end at random places; in split mode, values are read there."""
    if mode not in ("lazy_steps", "lazy_native", "split_cuts", "split_native"):
        return lambda step: ""
    ends = np.random.default_rng(program.seed).random(1000) < 0.3
    end = "weft.lazy.mark_step()" if mode.startswith("lazy") else "weft.ones(()).item()"
    return lambda step: end if ends[step] else ""


drawn = functools.lru_cache(maxsize=1000)(draw)  # every mode has the same programs


@functools.lru_cache(maxsize=1000)
def _code(source: str) -> CodeType:
    """A program's code, which most modes share."""
    return compile(source, "<alias program>", "exec")


def _numpy(program: Program) -> tuple[Any, dict[str, Any]]:
    """What NumPy gives, and its bases afterwards."""
    scope: dict[str, Any] = dict(NUMPY)
    exec(_code(program.source("numpy")), scope)
    bases, arguments = program.made()
    return scope["program"](*arguments), bases


def _difference(program: Program, mode: str) -> str | None:
    """What differs from NumPy, or None."""
    (aliases, seen), bases = _numpy(program)
    scope: dict[str, Any] = {"weft": OnLazy() if mode.startswith("lazy") else weft}
    exec(_code(program.source("weft", _between(program, mode))), scope)
    function = MODES[mode](scope["program"])
    if mode not in ONCE:  # what a call finds must not hang on what an earlier one was given
        others = {name: array + array.dtype.type(1) for name, array in program.made()[0].items()}
        function(*_arguments(program, mode, others)[1])
    given, arguments = _arguments(program, mode, program.made()[0])
    made, watched = function(*arguments)
    for name, base in bases.items():
        if not _same(given[name], base):
            return f"{name} is {given[name]}, should be {base}"
    for at, (row, wanted) in enumerate(zip(watched, seen, strict=True)):
        for i, (a, b) in enumerate(zip(row, wanted, strict=True)):
            if not _same(a, b):
                return f"after step {at}, {program.names()[i]} is {a}, should be {b}"
    for name, a, b in zip(program.names(), made, aliases, strict=True):
        if not _same(a, b):
            return f"at the end, {name} is {a}, should be {b}"
        strides = tuple(s // b.dtype.itemsize for s in b.strides)
        if (
            mode != "functionalize_views" and b.size > 1
            and any(d > 1 and s != t for d, s, t in zip(b.shape, a.stride(), strides, strict=True))
        ):
            return f"strides of {name} are {a.stride()}, should be {strides}"
    return _after(program, made, aliases)


def _arguments(program: Program, mode: str, arrays: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The bases as tensors, and what a call is given."""
    given = {name: weft.from_numpy(array) for name, array in arrays.items()}
    if mode.startswith("lazy"):
        given = {name: base.to("lazy") for name, base in given.items()}
    if mode.startswith("split"):  # memory that NumPy shares is written at once
        given = {name: base.clone() for name, base in given.items()}
    return given, [eval(text, dict(given)) for text, _ in program.arguments]


def _after(program: Program, made: list[Any], aliases: list[Any]) -> str | None:
    """Whether what came out still shares memory as NumPy's does."""
    for name, a, b in zip(program.names(), made, aliases, strict=True):
        a.fill_(1)
        b[...] = 1
        for other, c, d in zip(program.names(), made, aliases, strict=True):
            if not _same(c, d):
                return f"after a later write to {name}, {other} is {c}, should be {d}"
    return None


def _same(a: Any, b: Any) -> bool:
    found = a.numpy()
    if found.shape != b.shape or found.dtype != b.dtype:
        return False
    return bool((found == b).all() or np.allclose(found, b, rtol=1e-5, atol=1e-6, equal_nan=True))


def _outcome(program: Program, mode: str) -> str | None:
    try:
        return _difference(program, mode)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


def shrunk(program: Program, mode: str) -> tuple[Program, str]:
    """A program of fewer steps that differs too, and how."""
    text = _outcome(program, mode)
    assert text is not None
    at = len(program.steps) - 1
    while at >= 0:
        smaller = program.without(at)
        found = _outcome(smaller, mode) if _runs(smaller, mode) else None
        if found is not None:
            program, text = smaller, found
            at = min(at, len(program.steps))
        at -= 1
    return program, text


def _runs(program: Program, mode: str) -> bool:
    """Whether a program makes sense: a step may need what was taken away."""
    try:
        _numpy(program)
    except Exception:
        return False
    return mode == "eager" or _outcome(program, "eager") is None


@pytest.fixture
def backend(mode: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs of lazy tensors run node by node, but in the mode that says otherwise."""
    if mode in ("lazy", "lazy_steps", "split", "split_cuts"):
        monkeypatch.setattr(knobs, "backend", "interpret")
    monkeypatch.setattr(writer, "SEEN", 1)  # what a second run meets is an inline cache
    yield
    if mode.startswith("lazy"):
        weft.lazy.reset()


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", range(0, times(300), IN_A_TEST))
def test_all_aliases_hold_what_numpy_holds(mode: str, first: int) -> None:
    for seed in range(first, first + IN_A_TEST):
        if mode in RARELY and seed % 10:  # compiling takes long; steps that never end are among those that do
            continue
        program = drawn(seed)
        if _outcome(program, mode) is not None:
            smallest, text = shrunk(program, mode)
            pytest.fail(f"program {seed}: {text}\n{smallest.bases} {smallest.arguments}\n{smallest.source('weft')}")
