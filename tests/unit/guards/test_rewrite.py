"""Functions whose bytecode loads other values for a while: they act alike, at the same lines, and nothing else is
touched."""

from __future__ import annotations

import dis
import math
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from math import cos
from typing import Any

import pytest

from weft.guards.rewrite import Substitutes, functions_running, functions_with, original, rewritten, with_substitutes

pytestmark = pytest.mark.usefixtures("functions_of_the_module_seen")


def count(x: Any) -> Any:
    return -1 if x is None else len(x)


class Maths:
    cos = staticmethod(lambda x: "cosine" if x is None else math.cos(x))

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)


OURS = Maths()
ALL = Substitutes({id(len): count, id(cos): OURS.cos}, {id(math): (OURS, frozenset(["cos"]))})


def calls(x: Any) -> Any:
    return len(x)


def passes(x: Any) -> Any:
    return list(map(len, x))


def attribute(x: Any) -> Any:
    return math.cos(x), math.pi


def imported(x: Any) -> Any:
    return cos(x)


def imports(x: Any) -> Any:
    import math as m
    from math import cos as c
    return m.cos(x), c(x), m.pi


def comprehends(x: Any) -> Any:
    return [len(v) for v in (x, x) if len(x)]


def encloses(x: Any) -> Any:
    def inner(v: Any = x) -> Any:
        return len(v)

    return inner, lambda: len(x)


def branches(x: Any) -> Any:
    total = 0
    for i in range(3):
        total += len(x) if i % 2 else len(x) * 2
    while total > 100:
        total -= len(x)
    try:
        return total + len([]) / len(())
    except ZeroDivisionError:
        return total + len(x)


def yields(x: Any) -> Iterator[Any]:
    for _ in range(2):
        yield len(x)


# a function with so many constants and names that loads need prefixes
_lines = [f"    y = x + {i}.5 if name_{i} else x" for i in range(300)]
_scope: dict[str, Any] = {"math": math, **{f"name_{i}": i % 2 for i in range(300)}}
exec("def crowded(v, x=0.0):\n" + "\n".join(_lines) + "\n    return y, len(v), math.cos(x)\n", _scope)
crowded = _scope["crowded"]


PROGRAMS: list[tuple[Callable[[Any], Any], Any, Any]] = [
    (calls, "ab", -1), (imported, 0.5, "cosine"), (attribute, 0.5, ("cosine", math.pi)),
    (imports, 0.5, ("cosine", "cosine", math.pi)), (lambda x: list(passes([x, "abc"])), "ab", [-1, 3]),
]


@pytest.mark.parametrize(("function", "plain", "symbolic"), PROGRAMS)
def test_substitutes_see_what_python_refuses(function: Any, plain: Any, symbolic: Any) -> None:
    expected = function(plain)
    every = functions_with([function.__code__, passes.__code__])
    assert function in every
    with with_substitutes(every, ALL):
        assert function(plain) == expected
        assert function(None) == symbolic
    assert original(function.__code__) is function.__code__
    with pytest.raises(TypeError):
        function(None)


@pytest.mark.parametrize("function", [comprehends, branches, lambda x: list(yields(x)), crowded])
def test_rewritten_code_acts_alike(function: Any) -> None:
    expected, written = function("abc"), function.__code__
    with with_substitutes([function, yields], ALL):
        assert function("abc") == expected
        assert (function.__code__ is not written) is (function.__name__ != "<lambda>")
        assert original(function.__code__) is written
        assert [i.positions for i in dis.get_instructions(function.__code__)][:2] == [
            i.positions for i in dis.get_instructions(written)
        ][:2] if sys.version_info >= (3, 11) else True
    assert function.__code__ is written


def test_functions_made_within_keep_what_they_load() -> None:
    with with_substitutes([encloses], ALL):
        inner, short = encloses(None)
        assert (inner(), short()) == (-1, -1)
    assert (inner(), inner("ab"), short()) == (-1, 2, -1)
    assert original(inner.__code__) in encloses.__code__.co_consts
    assert set(functions_with([original(inner.__code__)])) >= {inner, encloses}


def test_code_that_loads_none_is_the_same() -> None:
    def plain(x: Any) -> Any:
        return x + 1

    assert rewritten(plain.__code__, plain.__globals__, {}, ALL) is plain.__code__


def test_a_global_of_that_name_is_the_users_own() -> None:
    scope: dict[str, Any] = {"len": lambda x: 7}
    exec("def function(x): return len(x)", scope)
    with with_substitutes([scope["function"]], ALL):
        assert scope["function"]("ab") == 7


def test_lines_of_errors_and_of_tracers_stay() -> None:
    def refuses(x: Any) -> Any:
        first = len("ab")
        return first + len(x)

    def where() -> tuple[list[int], list[int]]:
        lines: list[int] = []

        def trace(frame: Any, event: str, _: Any) -> Any:
            if frame.f_code.co_name == "refuses" and event == "line":
                lines.append(frame.f_lineno)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            refuses(5)
        except TypeError as error:
            steps = traceback.extract_tb(error.__traceback__)
            return lines, [step.lineno or 0 for step in steps if step.name == "refuses"]
        finally:
            sys.settrace(before)
        return [], []

    expected = where()
    with with_substitutes([refuses], ALL):
        assert where() == expected
    assert expected[0]


def test_blocks_overlap() -> None:
    written, events = calls.__code__, [threading.Event() for _ in range(2)]

    def other() -> None:
        with with_substitutes([calls], ALL):
            events[0].set()
            events[1].wait(10)
            assert calls(None) == -1

    thread = threading.Thread(target=other)
    with with_substitutes([calls], ALL):
        thread.start()
        assert events[0].wait(10)
        assert functions_running(written) == [calls]
    assert calls(None) == -1
    events[1].set()
    thread.join()
    assert calls.__code__ is written
    assert functions_running(written) == [calls]


def test_what_the_user_puts_there_stays() -> None:
    def function(x: Any) -> Any:
        return len(x)

    with with_substitutes([function], ALL):
        function.__code__ = (lambda x: 11).__code__
    assert function("ab") == 11
