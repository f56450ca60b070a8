"""Containers and objects that a step writes in one frame and reads in another: over four calls of changing sizes and
flags, with calls that fail in between, as in eager mode; and no symbol stays on anything."""

from __future__ import annotations

import copy
import gc
import weakref
import zlib
from collections import deque
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.containers import BETWEEN, GIVEN, Keeping, change_between, draw_keeping, state_of
from tests.agree.width import times
from tests.symbols_left import symbols_left
from weft.support.errors import CaptureError

SIZES = (2, 3, 3, 5)


def agree(program: Keeping, rng: np.random.Generator, of: str = "", **options: Any) -> int:
    """Compare four calls. How many were refused: those leave everything as it was, and are made in eager mode.
    of: how the object is given: "argument", another one at each call; "instance", of a class whose method is compiled,
    another one at most calls, none of which is left at the end; else a method of the one object is compiled ("within":
    and called by another compiled function)."""
    (eager, mine), (object_, theirs) = program.make(), program.make()
    is_one = of in ("", "within")
    if not is_one:
        called = weft.compile(type(object_).step, backend="interpret", **options)
        step: Any = lambda *args: called(object_, *args)  # noqa: E731
    else:
        step = weft.compile(object_.step, backend="interpret", **options)
    if of == "within":
        inner = step
        step = weft.compile(lambda *args: inner(*args), backend="interpret", **options)
    if of == "instance":
        theirs["plain"], type(object_).step = type(object_).step, called
        step = lambda *args: object_.step(*args)  # noqa: E731
    refused, pairs = 0, [(eager, object_)]
    between = np.random.default_rng(zlib.crc32(program.source.encode()))  # (leaves the stream of programs as it is)
    for call, size in enumerate(SIZES * 2 if of == "instance" else SIZES):
        if of == "argument" or (not is_one and rng.random() < 0.5):
            holds_others = bool(rng.random() < 0.5)
            eager, object_ = (_another(each, {} if holds_others else None) for each in (eager, object_))
            pairs.append((eager, object_))
        elif not is_one:
            eager, object_ = pairs[rng.integers(len(pairs))]
        for statement in between.choice(BETWEEN, size=between.integers(3)) if call and is_one else ():
            change_between(eager, mine, str(statement))
            change_between(object_, theirs, str(statement))
        given = f"return {between.choice(GIVEN) if is_one else '()'}"
        values, flag = rng.uniform(-1, 1, (size, 3)).astype(np.float32), bool(rng.random() < 0.7)
        if call in (1, 3):
            _fail(step, object_, theirs, weft.from_numpy(values.copy()), flag, "split" in options)
            if "split" in options:
                _raise(eager.step, weft.from_numpy(values.copy()), flag, ValueError)
        try:
            expected = eager.step(
                weft.from_numpy(values.copy()), flag, None, change_between(eager, mine, given)
            )
        except weft.WeftError:  # (eager mode refuses: so must we)
            with pytest.raises(weft.WeftError):
                step(weft.from_numpy(values.copy()), flag, None, change_between(object_, theirs, given))
            return refused
        before = state_of(object_, theirs)
        try:
            out = step(weft.from_numpy(values.copy()), flag, None, change_between(object_, theirs, given))
        except CaptureError as error:
            if "does not fit its own arguments" in str(error):
                raise  # what is read and what is written were taken for one another: no refusal that helps anybody
            refused += 1
            assert state_of(object_, theirs) == before, f"call {call}: a refused call has changed the object"
            plain = theirs.get("plain", type(object_).step)
            out = plain(
                object_, weft.from_numpy(values.copy()), flag, None, change_between(object_, theirs, given)
            )
        assert not (left := symbols_left(object_, theirs["Model"], theirs["kept"], out)), f"call {call}: {left}"
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), 1e-4, 1e-4, err_msg=f"call {call}")
        if program.wants_grad:
            np.testing.assert_allclose(object_.w.grad.numpy(), eager.w.grad.numpy(), 1e-4, 1e-4)
        _same(state_of(object_, theirs), state_of(eager, mine), f"call {call}")
        for one, other in () if is_one else pairs:
            _same(state_of(other, theirs), state_of(one, mine), f"another instance, call {call}")
    if of == "instance":
        instances = [weakref.ref(other) for _, other in pairs]
        del object_, out, pairs, other  # (a tensor's history keeps the program of its backward)
        theirs["kept"].clear()
        theirs["Model"].shared = []
        gc.collect()
        assert all(ref() is None for ref in instances), "a program keeps an instance alive"
    return refused


def _another(object_: Any, others: dict[int, Any] | None) -> Any:
    """Another object of the same class that holds the same. others: by ids, the containers and objects that stand for
    those that it holds, where it gets others of these too."""
    other = object.__new__(type(object_))
    vars(other).update(vars(object_))
    if others is not None:
        vars(other).update({name: _renewed(value, others) for name, value in vars(other).items()})
    elif "store" in vars(other):  # and so do objects that it holds
        other.store, other.stores = _another(object_.store, None), [_another(each, None) for each in object_.stores]
    return other


def _renewed(value: Any, others: dict[int, Any]) -> Any:
    """What holds the same: containers, and objects, are others."""
    if id(value) not in others:
        if type(value).__name__ in ("Store", "Record"):
            others[id(value)] = _another(value, others)
        elif isinstance(value, tuple) and value:
            parts = [_renewed(each, others) for each in value]
            others[id(value)] = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        elif isinstance(value, (list, dict, deque)):
            others[id(value)] = copy.copy(value)
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                others[id(value)][key] = _renewed(value[key], others)
    return others.get(id(value), value)


def _fail(step: Any, object_: Any, names: Any, x: Any, flag: bool, is_split: bool) -> None:
    """A call that the user's code ends: a compiled one is as if it had not been, a split one is as in eager mode."""
    before = state_of(object_, names)
    for error in (ValueError,) if is_split else (ValueError, KeyboardInterrupt):
        _raise(step, x, flag, error)
        assert not (left := symbols_left(object_, names["Model"], names["kept"])), f"behind a failed call: {left}"
        assert is_split or state_of(object_, names) == before, "a failed call has left something"


def _raise(step: Any, x: Any, flag: bool, error: type[BaseException]) -> None:
    try:
        step(x, flag, error)
    except (error, CaptureError):
        return
    except RuntimeError as other:
        assert "modified by an inplace" in str(other), other
        return
    raise AssertionError("the failure has been lost")


def _same(here: Any, there: Any, path: str) -> None:
    assert type(here) is type(there), (path, here, there)
    if isinstance(here, (list, tuple)):
        assert len(here) == len(there), (path, here, there)
        for i, (a, b) in enumerate(zip(here, there, strict=True)):
            _same(a, b, f"{path}, {a[0] if isinstance(a, tuple) and a and type(a[0]) is str else i}")
    elif isinstance(here, float):
        assert np.isclose(here, there, 1e-4, 1e-4), (path, here, there)
    else:
        assert here == there, (path, here, there)


@pytest.mark.parametrize(
    ("options", "count"), [
        ({}, 12), ({"split": True}, 8), ({"of": "argument"}, 8), ({"of": "argument", "split": True}, 8),
        ({"of": "instance"}, 8), ({"of": "instance", "split": True}, 8), ({"of": "within"}, 6),
        ({"of": "within", "split": True}, 6),
    ],
    ids=["compile", "split", "argument", "argument_split", "instance", "instance_split", "within", "within_split"],
)  # fmt: skip
def test_containers_agree(options: dict[str, Any], count: int, rng: np.random.Generator) -> None:
    refused = 0
    for _ in range(times(count)):
        program = draw_keeping(rng)
        try:
            refused += agree(program, rng, **options)
        except (Exception, AssertionError) as error:
            body = program.source.partition("class Model(Base):")[2]
            raise AssertionError(f"{type(error).__name__}: {error}\n{body}") from error
    assert refused < 2 * times(count), f"{refused} of {4 * times(count)} calls were refused"
