"""A number that changed and is read by code that takes no stand-in for it (most of what is written in C) is guarded
as it is, not refused."""

from __future__ import annotations

import copy
import decimal
import fractions
import functools
import io
import json
import operator
import pickle
import statistics
import string
import struct
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor

READERS: dict[str, Callable[[Any], Any]] = {
    "json": lambda k: json.loads(json.dumps({"k": k, "more": [k]}))["k"],
    "json with an indent": lambda k: json.loads(json.dumps({"k": k}, indent=1))["k"],
    "deepcopy": lambda k: copy.deepcopy([1, [k]])[1][0],
    "copy": lambda k: copy.copy(k),
    "pickle": lambda k: pickle.loads(pickle.dumps([k]))[0],
    "struct": lambda k: struct.unpack("d", struct.pack("d", k))[0],
    "repr": lambda k: float(repr(k)),
    "percent r": lambda k: float("%r" % (k,)),  # noqa: UP031
    "percent f": lambda k: float("%.3f" % k),  # noqa: UP031
    "str": lambda k: float(str(k)),
    "format": lambda k: float(f"{k:.4f}"),
    "format method": lambda k: float("{0}".format(k)),  # noqa: UP030, UP032
    "template": lambda k: float(string.Template("$k").substitute(k=k)),
    "write": lambda k: float(_written(k)),
    "decimal": lambda k: float(decimal.Decimal(k)),
    "fraction": lambda k: float(fractions.Fraction(k)),
    "median": lambda k: statistics.median([k, k, k]),
    "reduce": lambda k: functools.reduce(operator.mul, [k, 2.0]),
    "hex": lambda k: float.fromhex(k.hex()),
    "strict": lambda k: _strict(k),
}


def _written(k: float) -> str:
    out = io.StringIO()
    out.write(f"{k}")
    return out.getvalue()


def _strict(k: float) -> float:
    if type(k) is not float:
        raise TypeError("a float is wanted")
    return k


@pytest.mark.parametrize("name", READERS)
def test_a_changed_number_is_followed(name: str) -> None:
    state, read = {"k": 2.5}, READERS[name]
    compiled = weft.compile(lambda x: x * read(state["k"]), backend="interpret")
    x = weft.arange(1.0, 4.0)
    for value in (2.5, 3.5, 4.25, 2.5, 3.5):
        state["k"] = value
        assert weft.equal(compiled(x), x * read(value)), (name, value)
    before = weft.counters.captures
    assert weft.equal(compiled(x), x * read(3.5)) and weft.counters.captures == before


def test_the_other_numbers_stay_inputs() -> None:
    state = {"lr": 0.5, "tag": 1.0, "shift": 0.0}

    def step(x: Tensor) -> Tensor:
        return x * state["lr"] + json.loads(json.dumps(state["tag"])) + state["shift"]

    compiled = weft.compile(step, backend="interpret")
    x = weft.ones(3)
    for i in range(3):
        state.update(lr=0.5 + i, tag=1.0 + i, shift=2.0 * i)
        assert weft.equal(compiled(x), step(x))
    before = weft.counters.captures
    for i in range(5):
        state.update(lr=3.5 + i, shift=-1.0 * i)
        assert weft.equal(compiled(x), step(x))
    assert weft.counters.captures == before


def test_a_changed_argument_is_followed() -> None:
    compiled = weft.compile(lambda x, k: x * json.loads(json.dumps(k)), backend="interpret")
    for k in (2.0, 3.0, 4.0, 3.0):
        assert weft.equal(compiled(weft.ones(3), k), weft.ones(3) * k)


def test_an_error_that_numbers_have_no_part_in_is_raised() -> None:
    state: dict[str, Any] = {"k": 2.0, "bad": False}

    def step(x: Tensor) -> Tensor:
        if state["bad"]:
            raise ValueError("as it should")
        return x * state["k"]

    compiled = weft.compile(step, backend="interpret")
    compiled(weft.ones(3))
    state["k"] = 3.0
    compiled(weft.ones(3))
    state["bad"] = True
    with pytest.raises(ValueError, match="as it should"):
        compiled(weft.ones(3))
    state.update(bad=False, k=5.0)
    before = weft.counters.captures
    assert weft.equal(compiled(weft.ones(3)), weft.ones(3) * 5) and weft.counters.captures == before
