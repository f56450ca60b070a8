"""One function called in other ways over calls: by position and by name, with other kinds of arguments, in other
containers, some of them the same objects as before. What comes back has the values of eager mode, and is the caller's
own object where it is there.
"""

from __future__ import annotations

import collections
import enum
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from tests.unit.subclasses.wrappers import Two
from weft.support.errors import WeftError

CALLS = 5


class Kind(enum.Enum):
    ONE, TWO = 1, 2


@dataclass
class Point:
    u: Any
    v: Any = 2.0


@dataclass(frozen=True)
class Frozen:
    u: Any
    v: Any = 2.0


Both = collections.namedtuple("Both", "u v")


class Kept(weft.Tensor):
    """A subclass that every operator keeps."""


class Held:
    """An object that is no container."""

    def __init__(self, u: Any) -> None:
        self.u = u


def tensor(seed: int, shape: tuple[int, ...]) -> weft.Tensor:
    return weft.tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


LEAVES = [
    "tensor($s, ($n,))", "tensor($s, ($n,))", "tensor($s, ($n,)).requires_grad_()", "tensor($s, ($n, 2)).t()[0]",
    "tensor($s, (6,))[::2]", "tensor($s, ($n,)).double()", "0", "1", "3", "1.5", "True", "None", "Kind.ONE", "Kind.TWO",
    "'a'", "slice(1, None)", "...", "weft.float64", "range(2)", "np.arange(3, dtype='float32')", "np.float32(1.5)",
    "np.bool_(True)", "shared", "shared[1:]", "shared.detach()", "tensor($s, ($n,)).as_subclass(Kept)",
    "Two(tensor($s, ($n,)), tensor(1, ($n,)))", "pair", "listed", "named", "tensor($s, ($n,)) > 0", "weft.arange($n)",
]  # fmt: skip
CONTAINERS = [
    "[]", "[$a]", "[$a, $b]", "($a, $b)", "()", "{'p': $a, 'q': $b}", "{'q': $a, 'p': $b}", "{1: $a}", "Point($a)",
    "Both($a, $b)", "Frozen($a)", "collections.OrderedDict(p=$a)", "collections.deque([$a])", "Held($a)",
]  # fmt: skip
TOTAL = """
def total(v, acc):
    if isinstance(v, Two): v = v.a * 1.5 + v.b
    if isinstance(v, weft.Tensor): return acc + (v.float() * 2).sum().double()
    if isinstance(v, np.ndarray): return acc + float(v.sum())
    if isinstance(v, (bool, int, float, np.generic)): return acc * 1.5 + v
    if isinstance(v, str): return acc + len(v)
    if v is None: return acc - 1
    if isinstance(v, Kind): return acc * v.value
    if isinstance(v, slice): return acc + weft.arange(5.0).double()[v].sum()
    if v is ...: return acc + 7
    if isinstance(v, weft.dtype): return acc + (1 if v is weft.float64 else 2)
    if isinstance(v, (Point, Frozen, Both)): return total(v.v, total(v.u, acc))
    if isinstance(v, Held): return total(v.u, acc)
    for e in (v.values() if isinstance(v, dict) else v): acc = total(e, acc * 0.9)
    return acc

zero = weft.zeros((), dtype=weft.float64)
"""
HEAD = "def f(a, b=1.0, *rest, c=None, **more):\n    acc = total([a, c, rest, more], zero)\n"
FUNCTIONS = [  # `kept` and `registry` are older than the calls
    "    return acc, (a, b), {'c': c}",
    "    return [a, b, [a, rest, c]], kept, acc, a is c, type(a).__name__, sorted(more)",
    "    before = registry.get('a')\n    registry['a'] = b\n    return acc, before, registry, kept[1]",
    "    kept[1] = [acc]\n    return kept, b, {'k': kept[1], 'a': a}",
    "    if isinstance(a, weft.Tensor) and type(a) is weft.Tensor and a.is_floating_point() and not a.requires_grad:\n"
    "        a.mul_(2)\n    return [acc, a is b, a is c, b is c, len(rest)], a",
    "    if acc.requires_grad:\n        acc.backward()\n    return acc.detach() * len(more), kept",
    "    registry['held'] = (c, a)\n    return acc, registry['held'], [a]",
    "    same = kept[0].to(weft.float32)\n"
    "    return acc, same, same.requires_grad, [t.contiguous().requires_grad for t in kept[:1]]",
    "    try:\n        kept[0].retain_grad() if len(more) > 1 else None\n"
    "        g = weft.autograd.grad(zero.clone().requires_grad_() * 3, kept[:1], allow_unused=True)[0]\n"
    "    except RuntimeError:\n        g = 'not asked for'\n    return acc, g",
]  # fmt: skip


@dataclass
class Program:
    """A function's lines, and the calls of it."""

    function: str
    calls: list[str]

    def __str__(self) -> str:
        return "\n".join([self.function, *self.calls])


def draw(rng: np.random.Generator) -> Program:
    calls: list[str] = []
    for _ in range(CALLS):
        calls.append(calls[-1] if calls and not rng.integers(3) else _call(rng))
    return Program(HEAD + FUNCTIONS[rng.integers(len(FUNCTIONS))], calls)


def _call(rng: np.random.Generator) -> str:
    positional = [_value(rng) for _ in range(rng.integers(1, 4))]
    named = {n: _value(rng) for n in ("c", "z", "w") if not rng.integers(3)}
    if len(positional) == 1 and rng.integers(2):
        named["b"] = _value(rng)
    items = [f"{name}={value}" for name, value in named.items()]
    return f"f({', '.join(positional + (items if rng.integers(2) else items[::-1]))})"


def _value(rng: np.random.Generator, depth: int = 0) -> str:
    pool = CONTAINERS if depth < 2 and not rng.integers(3) else LEAVES
    text = pool[rng.integers(len(pool))].replace("$s", str(rng.integers(1000))).replace("$n", str(rng.integers(1, 5)))
    for hole in ("$a", "$b"):
        text = text.replace(hole, _value(rng, depth + 1)) if hole in text else text
    return text


def run(program: Program, wrap: Callable[[Any], Any]) -> list[Any]:
    """For each call what can be seen of it; an error ends the program."""
    source = TOTAL + program.function
    name = f"<call forms {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = dict(globals())
    exec(compile(source, name, "exec"), scope)
    shared, pair = tensor(5, (4,)), Two(tensor(1, (3,)), tensor(2, (3,)))
    listed = [tensor(4, (3,)), pair]
    kept = tensor(9, (2,))
    older = {
        "shared": shared, "pair": pair, "listed": listed, "named": {"p": listed, "q": 1.5},
        "kept": [kept, [1.0]], "registry": dict[str, Any](),
    }
    scope.update(older)
    function, seen = wrap(scope["f"]), list[Any]()
    for number, call in enumerate(program.calls):
        kept.requires_grad_(number % 3 != 1)
        arguments: list[Any] = []

        def f(*args: Any, arguments: list[Any] = arguments, **kwargs: Any) -> Any:
            arguments += [args, kwargs]
            return function(*args, **kwargs)

        try:
            result = eval(call, {**scope, "f": f})
        except Exception as error:
            seen.append(error)
            return seen
        around = [arguments, *older.values()]
        seen.append([plain(result), plain(around), _identities(result, around)])
    return seen


def plain(value: Any) -> Any:
    """A value as one that is compared."""
    if isinstance(value, Two):
        return ["Two", plain(value.a), plain(value.b)]
    if isinstance(value, weft.Tensor):
        facts = type(value).__name__, str(value.dtype), tuple(value.shape), value.stride()
        data = value.detach().as_subclass(weft.Tensor).double().numpy().tolist()
        return [*facts, data, plain(value.grad)]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return [type(value).__name__, *[[k, plain(v)] for k, v in value.items()]]
    if isinstance(value, (list, tuple, collections.deque)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, (Point, Frozen)):
        return [type(value).__name__, plain(value.u), plain(value.v)]
    return plain(value.u) if isinstance(value, Held) else str(value)


def _identities(result: Any, around: Any) -> list[int | None]:
    """For each tensor and container of a result which one of the caller's it is. Of tuples it does not matter."""
    first = {id(value): number for number, value in reversed(list(enumerate(_within(around))))}
    return [first.get(id(v)) for v in _within(result) if isinstance(v, (weft.Tensor, list, dict, Point, Frozen, Held))]


def _within(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _within(part)


def difference(seen: list[Any], expected: list[Any]) -> str | None:
    """The first call that is not as in eager mode; a refusal, which says so, ends the comparison."""
    for number, (one, other) in enumerate(zip(seen, expected, strict=False)):
        if isinstance(one, WeftError) or (isinstance(one, Exception) and isinstance(other, Exception)):
            return None
        if isinstance(one, Exception) or isinstance(other, Exception) or not _alike(one, other):
            return f"call {number}: {one}\nshould be {other}"
    return None


def _alike(one: Any, other: Any) -> bool:
    """Whether two plain values are the same, but for the rounding of sums."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, 1e-4, 1e-4, equal_nan=True))
    return type(one) is type(other) and bool(one == other)
