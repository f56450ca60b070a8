"""Operators on Python values: the types they say are those of the values that Python gives,
and integers have 64 bits."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

import weft  # noqa: F401  (defines every entry)
from weft.catalogue.language.entries import SIGNATURES
from weft.ir.evaluate import interpret
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify
from weft.ops.op import OPS
from weft.support.errors import ArgumentError, VerifyError, WeftError
from weft.types.tensor_type import BOOL, COMPLEX, FLOAT, INT, STR, list_of

TYPES = {int: INT, float: FLOAT, bool: BOOL, complex: COMPLEX, str: STR}
BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "divmod": divmod,
}


def draw(kind, rng):
    if kind is bool:
        return bool(rng.integers(2))
    if kind is int:
        return int(rng.integers(-9, 10))
    return float(np.round(rng.uniform(-4, 4), 2)) if rng.random() < 0.9 else 0.0


def outcome(function, *args):
    try:
        return function(*args)
    except (ArithmeticError, ValueError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "kinds", list(itertools.product((int, float, bool), repeat=2)), ids=lambda k: "-".join(t.__name__ for t in k)
)
def test_numbers_follow_python(name, kinds):
    rng = np.random.default_rng(len(name))
    op = OPS[f"prim::{name}"]
    for _ in range(60):
        args = [draw(kind, rng) for kind in kinds]
        expected = outcome(BINARY[name], *args)
        if expected is TypeError:
            with pytest.raises(ArgumentError):
                op.type(*(TYPES[k] for k in kinds))
            return
        found = outcome(op.kernel, *args)
        assert found == expected and type(found) is type(expected), (name, args)
        declared = op.type(*(TYPES[k] for k in kinds))
        if not isinstance(expected, (type, tuple)):
            assert declared is TYPES[type(expected)], (name, args, declared)


@pytest.mark.parametrize(
    "name,args,expected",
    [
        ("add", ((1 << 63) - 1, 1), -(1 << 63)),
        ("sub", (-(1 << 63), 1), (1 << 63) - 1),
        ("mul", (1 << 62, 4), 0),
        ("neg", (-(1 << 63),), -(1 << 63)),
        ("lshift", (1, 63), -(1 << 63)),
        ("lshift", (1, 64), 0),
        ("int_pow", (3, 41), 3**41 - (1 << 64) * ((3**41 + (1 << 63)) >> 64)),
    ],
)
def test_integers_wrap_around(name, args, expected):
    assert OPS[f"prim::{name}"].kernel(*args) == expected
    assert np.array(expected, np.int64) == expected


def test_floats_that_no_integer_holds_are_refused():
    with pytest.raises(OverflowError, match="64 bits"):
        OPS["prim::int"].kernel(2.0**63)
    assert OPS["prim::int"].kernel(-(2.0**63)) == -(1 << 63)


def test_powers_of_integers_that_the_program_does_not_know_are_floats():
    assert (
        OPS["prim::pow"].type(INT, INT) is FLOAT
        and OPS["prim::pow"].kernel(2, -1) == 0.5
        and type(OPS["prim::pow"].kernel(2, 3)) is float
    )
    assert math.isnan(OPS["prim::pow"].kernel(-8.0, 0.5))


def test_containers_take_their_own_elements_only():
    append = OPS["prim::append"]
    assert append.type(list_of(INT), INT) == ()
    with pytest.raises(ArgumentError, match="no such operation"):
        append.type(list_of(INT), FLOAT)
    assert OPS["prim::getitem"].type(list_of(STR), INT) is STR


def test_every_entry_says_which_types_it_takes_or_has_a_rule():
    assert all(op.host and op.doc.endswith((".", ")")) for op in SIGNATURES)
    assert all(op.effect in ("pure", "raises", "io", "python") for op in SIGNATURES)


TEXT = """graph @f(%x: Tensor, %n: int) {
  %0: int = prim::add(%n, b=3)
  %l: int[] = prim::ListConstruct([%0, %n])
  prim::append(%l, %0)
  %k: int = prim::len(%l)
  %y: Tensor = aten::relu(%x)
  %s: int = aten::size.int(%y, dim=0)
  %a: int, %b: int, %c: int = prim::ListUnpack(%l, count=3)
  %d: Dict(str, int) = prim::DictConstruct(keys=["a", "b"], values=[%c, %s])
  %t: (Tensor, int) = prim::TupleConstruct([%y, %k])
  %e: int = prim::getitem(%d, index="b")
  return %t, %e, %b
}"""


def test_a_program_of_python_values_prints_verifies_and_runs():
    graph = parse_graph(TEXT)
    assert str(verify(graph)) == TEXT
    rng = np.random.default_rng(0)
    rows, n = int(rng.integers(1, 5)), int(rng.integers(10))
    x = rng.normal(size=(rows, 2))
    pair, e, b = interpret(graph, [x, n])
    assert np.array_equal(pair[0], np.maximum(x, 0)) and (pair[1], e, b) == (3, rows, n)


@pytest.mark.parametrize(
    "old,new,words",
    [
        ("%0: int = prim::add", "%0: float = prim::add", "its type rule gives int"),
        ("prim::append(%l, %0)", 'prim::append(%l, item="x")', "no such operation on"),
        ("%c: int = prim::ListUnpack(%l, count=3)", "%c: int = prim::ListUnpack(%l, count=2)", "3 results"),
        ("%y: Tensor = aten::relu(%x)", "%y: Tensor = aten::relu(%l)", "must be Tensor"),
    ],
)
def test_wrong_types_are_refused(old, new, words):
    with pytest.raises((VerifyError, WeftError), match=words):
        verify(parse_graph(TEXT.replace(old, new)))
