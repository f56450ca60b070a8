"""Forms kept per argument types bind as the full search does, also for later calls with other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import weft
from weft.ops import bind as binding
from weft.ops.call_signatures import Calls
from weft.ops.op import PACKETS
from weft.support.errors import ArgumentError

X = weft.ones(2, 3)
N = weft.tensor(1)
CALLS: list[tuple[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]] = [
    ("view", [
        ((X, 6), {}), ((X, 3, 2), {}), ((X, (6,)), {}), ((X, [3, 2]), {}), ((X, weft.float64), {}), ((X, -1), {})
    ]),
    ("sum", [
        ((X,), {}), ((X, 0), {}), ((X, 1), {}), ((X, (0, 1)), {"keepdim": True}), ((X, 1, True), {}),
        ((X,), {"dim": 0, "dtype": weft.float64}),
    ]),
    ("max", [
        ((X,), {}), ((X, 0), {}), ((X, X), {}), ((X, N), {}), ((X, weft.tensor(0)), {}), ((X,), {"dim": 1}),
        ((X,), {"other": X}),
    ]),
    ("add", [
        ((X, X), {}), ((X, 2.0), {}), ((X, X), {"alpha": 2}), ((X, 3), {"alpha": 0.5}), ((X, N), {}), ((X, True), {})
    ]),
    ("cat", [(([X, X],), {}), (((X,), 1), {}), (([X, X], -1), {}), (((X, X),), {"dim": 1})]),
    ("zeros", [((2, 3), {}), (((2, 3),), {}), ((4,), {}), (([2],), {"dtype": weft.int64}), ((0,), {})]),
    ("permute", [((X, 1, 0), {}), ((X, (1, 0)), {}), ((X, (0, 1)), {})]),
    ("clamp", [
        ((X, 0, 1), {}), ((X, 0.0), {}), ((X, None, 1), {}), ((X, X), {}), ((X,), {"max": 2}),
        ((X, weft.tensor(0.5)), {}),
    ]),
    ("var", [((X, 0), {}), ((X, True), {}), ((X, False), {}), ((X, [0]), {}), ((X, 1), {"unbiased": False})]),
    ("select", [((X, 0, 1), {}), ((X, 1, N), {})]),
    ("repeat", [((X, 2, 1), {}), ((X, (1, 1)), {}), ((X, 1, 2, 3), {})]),
]
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("sum", (X, "a"), {}), ("sum", (X, (0, "a")), {}), ("view", (X, 2.5), {}), ("add", (X,), {}),
    ("zeros", ((2, None),), {}),
    ("add", (X, X), {"beta": 1}), ("add", (X, X), {"other": X}), ("cat", ([X, 1],), {}), ("permute", (X, 1, 0.5), {}),
]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a is b or (type(a) is type(b) and not isinstance(a, weft.Tensor) and a == b)


def outcome(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], calls: Calls) -> Any:
    try:
        return calls.resolve(args, kwargs)
    except ArgumentError as error:
        return str(error)


def truth(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The overload by the full search: plain matches first, as calls without keywords prefer them."""
    overloads = PACKETS[f"aten::{name}"]
    for op in overloads if not kwargs else ():
        bound = binding.bind_plain(op, args)
        if bound is not None:
            return op, bound
    try:
        return binding.bind_any(name, overloads, args, kwargs)
    except ArgumentError as error:
        return str(error)


@pytest.mark.parametrize(("name", "given"), CALLS, ids=[n for n, _ in CALLS])
def test_forms_bind_as_the_full_search_does(name: str, given: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
    calls = Calls(name, PACKETS[f"aten::{name}"])
    for args, kwargs in [*given, *reversed(given), *given]:
        found, wanted = outcome(name, args, kwargs, calls), truth(name, args, kwargs)
        assert found[0] is wanted[0], (args, kwargs, found, wanted)
        assert same(found[1], wanted[1]), (args, kwargs, found, wanted)


@pytest.mark.parametrize(("name", "args", "kwargs"), WRONG)
def test_errors_are_those_of_the_full_search(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    calls = Calls(name, PACKETS[f"aten::{name}"])
    for good_args, good_kwargs in dict(CALLS)[name]:
        calls.resolve(good_args, good_kwargs)
    wanted = truth(name, args, kwargs)
    assert isinstance(wanted, str)
    assert outcome(name, args, kwargs, calls) == wanted


def test_values_that_decide_are_looked_at_every_time() -> None:
    flat = weft.tensor([1, 2])
    calls = Calls("max", PACKETS["aten::max"])
    for other in (weft.tensor(1), flat, weft.tensor(0), flat):
        op, bound, _ = calls.resolve((weft.ones(2, 2), other), {})
        assert (
            (op.schema.overload, bound[1]) == ("other", other) if other is flat
            else truth("max", (weft.ones(2, 2), other), {})[0] is op
        )


def test_a_form_is_found_again() -> None:
    calls = Calls("sum", PACKETS["aten::sum"])
    calls.resolve((X, 0), {"keepdim": True})
    assert len(calls.signatures) == 1
    calls.resolve((X, 1), {"keepdim": False})
    assert len(calls.signatures) == 1
