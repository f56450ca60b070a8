"""Dims: the algebra agrees with integers, normal forms are unique, text comes back;
and what a ShapeEnv proves is true."""

from __future__ import annotations

import pytest

from weft.support.errors import CaptureError, ParseError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.parse import parse_dim
from weft.types.shape_env import ShapeEnv, using
from weft.types.sym import SymInt

NAMES = ("s0", "s1", "s2")


def draw(rng, depth):
    """A dim as weft sees it and as a function of the symbols' values."""
    if depth == 0:
        if rng.random() < 0.4:
            n = int(rng.integers(-3, 6))
            return n, lambda v: n
        name = str(rng.choice(NAMES))
        return dm.symbol(name), lambda v: v[name]
    (a, f), (b, g) = draw(rng, depth - 1), draw(rng, depth - 1)
    kind = str(rng.choice(["+", "-", "*", "//", "%", "max", "min"]))
    divisor = int(rng.integers(1, 5))
    return {
        "+": lambda: (a + b, lambda v: f(v) + g(v)), "-": lambda: (a - b, lambda v: f(v) - g(v)),
        "*": lambda: (a * b, lambda v: f(v) * g(v)), "//": lambda: (dm.floordiv(a, divisor), lambda v: f(v) // divisor),
        "%": lambda: (dm.mod(a, divisor), lambda v: f(v) % divisor),
        "max": lambda: (dm.maximum(a, b), lambda v: max(f(v), g(v))),
        "min": lambda: (dm.minimum(a, b), lambda v: min(f(v), g(v))),
    }[kind]()


def test_expressions_have_the_values_of_integers_and_come_back_from_text(rng):
    for _ in range(300):
        d, f = draw(rng, int(rng.integers(1, 4)))
        assert parse_dim(str(d)) == d
        for _ in range(4):
            values = {n: int(rng.integers(0, 9)) for n in NAMES}
            assert dm.evaluate(d, values) == f(values), str(d)
            assert dm.evaluate(dm.substitute(d, {"s0": values["s0"]}), values) == f(values)


def test_equal_expressions_are_one():
    a, b = dm.symbol("s0"), dm.symbol("s1")
    assert (a + b) * (a - b) == a * a - b * b
    assert hash((a + b) * 2) == hash(b * 2 + a * 2)
    assert a - a == 0 and type(a - a) is int and a * 0 == 0
    assert dm.floordiv(a * b * 6, b * 2) == a * 3
    assert dm.floordiv(a * 4 + 7, 2) == a * 2 + 3
    assert dm.mod(a * b, b) == 0
    assert dm.maximum(a + 2, a) == a + 2 and dm.minimum(a, b) == dm.minimum(b, a)


def test_lower_bounds_are_bounds(rng):
    for _ in range(200):
        d, f = draw(rng, 2)
        low = dm.lower_bound(d, lambda name: 0)
        for _ in range(10):
            values = {n: int(rng.integers(0, 6)) for n in NAMES}
            assert low is None or low <= f(values), str(d)


@pytest.mark.parametrize("text", ["", "s0 +", "n", "i8", "max(s0)", "(s0", "s0 s1", "1.5"])
def test_text_that_is_no_dim(text):
    with pytest.raises(ParseError, match="line 1, column"):
        parse_dim(text)


# ---- ShapeEnv
def test_questions_are_answered_from_the_example_and_kept():
    env = ShapeEnv()
    a, b = env.fresh("s", 4), env.fresh("s", 4)
    assert env.equal(a, b) and env.less(a, 9) and not env.less(b, 2)
    texts = [str(g) for g in env.guards.values()]
    assert texts == ["s0 == s1", "s0 < 9", "s1 >= 2"]
    for guard in env.guards.values():
        assert guard.holds({"s0": 4, "s1": 4})
    assert not all(g.holds({"s0": 4, "s1": 5}) for g in env.guards.values())
    assert not all(g.holds({"s0": 9, "s1": 9}) for g in env.guards.values())


def test_what_is_certain_asks_nothing():
    env = ShapeEnv()
    a, b = env.fresh("s", 3), env.fresh("s", 3)
    assert (
        not env.equal(a + 1, 0) and not env.less(a, 0) and not env.less(a * b + 5, 2) and env.less(a, a + 1)
        and env.equal(a + b, b + a)
    )
    assert not env.guards
    assert not env.proves_equal(a, b)
    env.equal(a, b)
    assert env.proves_equal(a, b) and env.proves_equal(b, a)


def test_a_size_that_only_the_run_tells_cannot_be_asked():
    env = ShapeEnv()
    u = env.fresh("u")
    assert not env.less(u, 0)
    with pytest.raises(CaptureError, match="only known while the program runs"):
        env.equal(u, 3)


def test_symbols_never_look_like_dtypes():
    env = ShapeEnv()
    names = [str(env.fresh(kind, 1)) for kind in "siu" for _ in range(80)]
    assert len(set(names)) == len(names) and all(dt.by_short(n) is None for n in names)


def test_the_current_environment_is_per_block():
    env = ShapeEnv()
    a = env.fresh("s", 2)
    with using(env):
        assert shape_env.equal(a, 2)
    with pytest.raises(CaptureError):
        shape_env.equal(a, 3)
    assert len(env.guards) == 1


def test_symint_follows_integers(rng):
    env = ShapeEnv()
    values = {f"s{i}": int(rng.integers(1, 8)) for i in range(2)}
    x, y = (SymInt(env.fresh("s", n), env) for n in values.values())
    a, b = values.values()
    for symbolic, plain in (
        ((x + y * 2, a + b * 2), (7 - x, 7 - a), (x // 2, a // 2), (9 % y, 9 % b), (-x, -a), (x**2, a**2), (abs(-x), a))
    ):
        assert dm.evaluate(symbolic.expr if isinstance(symbolic, SymInt) else symbolic, values) == plain
    assert (x < y) is (a < b) and (x == y) is (a == b) and (x >= 1) is True and bool(x - y) is (a != b)
    assert list(range(x)) == list(range(a)) and f"{env.guards}" != "{}"
