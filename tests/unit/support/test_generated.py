"""Generated functions: their text is where tracebacks and debuggers look for it."""

from __future__ import annotations

import inspect
import linecache
import re
import traceback
from pathlib import Path

import pytest

import weft
from weft.support import limits
from weft.support.generated import FunctionWriter, expression_function, function_factory

ROOT = Path(weft.__file__).parent


def test_a_generated_function_has_a_source() -> None:
    function = function_factory("sum", ("a",), "run(b)", ["c = a + b", "return c * c"])(2)
    assert function(3) == 25
    assert "c = a + b" in inspect.getsource(function)


def test_a_traceback_shows_the_generated_line() -> None:
    writer = FunctionWriter("division", "run(x)")
    writer.lines += ["y = x - x", "return x / y"]
    with pytest.raises(ZeroDivisionError) as caught:
        writer.function()(1.0)
    (last,) = traceback.extract_tb(caught.value.__traceback__)[-1:]
    assert last.filename.startswith("<weft division ") and last.line == "return x / y"


def test_functions_of_the_same_lines_share_their_code() -> None:
    def adding(number: int):
        writer = FunctionWriter("adding", "run(x)")
        writer.lines.append(f"return x + {writer.name(number)}")
        return writer.function()

    one, two = adding(1), adding(2)
    assert (one(10), two(10)) == (11, 12)
    assert one.__code__ is two.__code__


def test_expressions_have_names_from_a_scope() -> None:
    function = expression_function("scaled", ("x",), "factor * x", {"factor": 3})
    assert function(2) == 6
    assert linecache.getline(function.__code__.co_filename, 1).rstrip() == "lambda x: factor * x"


def test_the_oldest_text_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GENERATED_TEXTS", 0)
    first = expression_function("going", (), "1").__code__.co_filename
    assert not linecache.getline(first, 1)


def test_the_debug_knob_prints_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    with weft.knobs(debug="code"):
        expression_function("printed once", ("x",), "x + 12345")
        expression_function("printed once", ("x",), "x + 12345")
    assert capsys.readouterr().err.count("lambda x: x + 12345") == 1


def test_nothing_else_turns_text_into_code() -> None:
    """But scripts, whose text is the user's."""
    elsewhere = {"support/generated.py", "jit/script/frontend/types.py"}
    pattern = re.compile(r"(?<![\w.])(exec|eval)\(")
    users = {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")
        if any(pattern.search(line) and "def " not in line for line in path.read_text().splitlines())
    }
    assert users == elsewhere
