"""Random functions that compute numbers of sizes and use them: sizes that arguments have, and sizes that only the run
knows (of nonzero, masks, unique, repeat_interleave). Python's whole arithmetic of numbers, in every place of an
operator that takes one.

A program is lines of Python, so that a failure can be read, made smaller, and kept as it is.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import weft

Rng = np.random.Generator

BACKED = ("x.shape[0]", "x.size(-1)", "x.numel()", "len(m)", "x.shape[1]", "m.size()[0]")  # sizes of arguments
# tensors with sizes that only the run knows, by name, and what is read of them
UNBACKED = {
    "nonzero": "weft.nonzero(m)",
    "where": "weft.where(m)[0]",
    "masked": "x[m]",
    "unique": "weft.unique(i)",
    "selected": "weft.masked_select(x, x > 0)",
    "repeated": "weft.repeat_interleave(i, i)",
}
READ = ("{}.shape[0]", "len({})", "{}.size(0)", "{}.numel()", "{}.shape.numel()")

_INTS = ("{} + {}", "{} - {}", "{} * {}", "{} // {}", "{} % {}")
_OF_INT = ("-{}", "+{}", "abs({})", "int({})", "~{}", "round({})", "{} ** 2", "{} << 1", "{} >> 1", "{} & 3", "{} | 1",
           "{} ^ 2", "math.trunc({})", "math.isqrt(abs({}))", "operator.index({})", "{}.bit_length()",
           "{}.real")  # fmt: skip
_OF_INTS = ("max({}, {})", "min({}, {})", "divmod({}, {})[0]", "divmod({}, {})[1]", "math.gcd({}, {})", "sum([{}, {}])")
_TO_INT = ("int({})", "round({})", "math.floor({})", "math.ceil({})", "math.trunc({})")
# halves of whole numbers, on both sides of 0: where the ways to round differ
_HALVES = ("round({} / 2)", "round({} * 1.5)", "round(-{} / 2)", "round({} / 2 + 3)", "math.floor(-{} / 2)",
           "int(-{} / 2)", "math.ceil({} / 2)", "-{} // 2", "-{} % 3")  # fmt: skip
_FLOATS = ("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "max({}, {})", "min({}, {})",
           "divmod({}, {})[0]", "divmod({}, {})[1]", "math.fmod({}, {})", "math.atan2({}, {})", "math.hypot({}, {})",
           "math.copysign({}, {})", "math.remainder({}, abs({}) + .5)")  # fmt: skip
_OF_FLOAT = ("-{}", "+{}", "abs({})", "float({})", "round({}, 1)", "math.fabs({})", "math.sqrt(abs({}))",
             "math.log(abs({}) + 1)", "math.exp(-abs({}))", "math.sin({})", "math.tanh({})", "math.log2(abs({}) + 1)",
             "math.pow(abs({}) + .5, 0.5)", "math.log1p(abs({}))", "math.degrees({})", "(abs({}) + .5) ** 0.5",
             "1.1 ** min({}, 9)", "2.0 ** {}", "float({}).__floor__()", "np.sqrt(abs({}))", "np.float64({})",
             "math.log(abs({}) + 1, 3)", "math.erf({})", "math.cosh(min(abs({}), 3.0))")  # fmt: skip
_QUESTIONS = ("{} < {}", "{} >= {}", "{} == {}", "{} != {}", "{} > {}", "{} <= {}")
_OF_QUESTION = ("int({})", "float({})", "1.5 * ({})", "({}) + 1", "(2.0 if {} else 0.5)")

USES = (
    "x * ({})", "({}) + x", "({}) - x", "x / ({})", "({}) / (x.abs() + 1)", "x.abs() ** ({})",
    "weft.full((2, 3), {})",
    "x.masked_fill(x > 0, {})", "weft.add(x, x, alpha={})", "weft.lerp(x, x + 1, {})", "x.clamp(max={})",
    "weft.tensor({})", "weft.tensor([{}, 1.0])", "weft.full_like(x, {})", "weft.where(x > 0, x, {})",
    "weft.nn.functional.layer_norm(x, x.shape[-1:], eps=abs({}) + 1e-3)", "{}", "({}, [x.sum(), {}])",
    "x.new_full((2,), {})", "x.sub({}).mul({})", "x.clone().fill_({})", "weft.addcmul(x, x, x, value={})",
    "weft.nn.functional.leaky_relu(x, {})", "x.clone().mul_({})", "x % ({})", "x // ({})", "weft.ones(3) * ({}) > 1.5",
    "(x.double() * ({})).sum()", "x.fmod({})", "weft.pow({}, x.abs())", "weft.as_tensor({}) + x.sum()",
    "x.new_tensor({})",
    # filled in, within a kernel that computes something else too
    "(weft.full(x.shape, {}) * x.cos()).tanh()", "x.sin() + weft.tensor({}) * x", "(x.clone().fill_({}) - x).sum(0)",
    "weft.full((3,), {}).cumsum(0) + x.sum()", "(weft.zeros(2) + weft.tensor({})) * 0.5",
    "x.exp() * x.new_full((1,), {})",
    "weft.stack([weft.full((2,), {}), weft.ones(2)]).sum(0).sin()", "(x.double() + weft.full((), {})).sum()",
)  # fmt: skip
USES_OF_INT = (
    "weft.zeros(abs({}))", "weft.ones(min(abs({}), 20), 2) + 1", "weft.arange({})", "x[: {}]", "x[{} :]",
    "x.flatten()[{}]",
    "x.reshape(-1).narrow(0, 0, {})", "weft.nn.functional.pad(x, (0, {}))", "x.roll({}, 0)", "x.repeat({}, 1)",
    "x.expand({}, *x.shape).sum()", "x.sum(({}) % 2)", "weft.linspace(0, 1, {})", "weft.eye({})", "x[0, ({}) % 2]",
    "weft.arange({}, 2 * ({}))", "sum([x * j for j in range({})], x)", "x.view(-1)[: {}].sum()", "x[:: ({})]",
    "weft.full(({}, 2), 1.5).sum()", "x.unsqueeze(({}) % 2)", "x.tril({})", "x.diagonal({})",
    "weft.nn.functional.one_hot(i, 9) + ({})", "i * ({})", "i // ({})", "i % ({})",
    "weft.zeros(3, dtype=weft.int64) + ({})",
    "i.clamp(max={})", "weft.zeros({})", "x.new_zeros({}, 2)", "x.select(1, ({}) % 2)", "x.chunk({})[0]",
    "x[-abs({}) :]", "x[: -abs({})]", "x.flatten()[-(({}) % 2) - 1]",
    "weft.randperm(5)[: {}] * 0", "x.reshape({}, -1)", "x.index_select(0, weft.arange({}))",
    "weft.tensor_split(x, {})[0]", "weft.tile(x, ({}, 1))", "x.flatten()[: {}].median()", "x.split({})[-1]",
    "x * len(x.chunk({}))", "weft.bincount(i.flatten()[: {}])", "weft.histogram(x.flatten()[: {}], 3)[0]",
    "weft.cov(x.flatten()[: {}])",
)  # fmt: skip
STATEMENTS = ("r = x\nfor j in range({}):\n    r = r + j", "r = x if {} > 3 else -x", "r = x * 1\nr[: {}] = 0.5",
              "r = x\nwhile r.shape[0] < 0:\n    r = r[: {}]")  # fmt: skip


@dataclass(frozen=True)
class Program:
    """lines: what is computed before, one name each; results: expressions of numbers in their uses."""

    seed: int
    lines: tuple[str, ...]
    results: tuple[str, ...]

    def source(self) -> str:
        body, names = list(self.lines), []
        for n, result in enumerate(self.results):
            if "\n" in result or result.startswith("r = "):
                body += [*result.split("\n"), f"r{n} = r"]
            else:
                body.append(f"r{n} = {result}")
            names.append(f"r{n}")
        return (
            "def program(x, m, i):\n"
            + "".join(f"    {line}\n" for line in body)
            + f"    return ({', '.join(names)},)\n"
        )

    def function(self) -> Any:
        """The function. Its source can be read by tracebacks."""
        source = self.source()
        file = f"<numbers {self.seed} {len(self.results)} {hash(source)}>"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        names: dict[str, Any] = {"weft": weft, "math": math, "np": np, "operator": __import__("operator")}
        exec(compile(source, file, "exec"), names)
        return names["program"]

    def smaller(self) -> list[Program]:
        """The same with fewer results."""
        if len(self.results) == 1:
            return []
        return [replace(self, results=self.results[:n] + self.results[n + 1 :]) for n in range(len(self.results))]


class _Draw:
    def __init__(self, seed: int, odds: float) -> None:
        self.rng = np.random.default_rng([seed, 11])
        self.odds = odds  # of sizes that only the run knows
        self.lines: dict[str, str] = {}

    def pick(self, choices: Sequence[str]) -> str:
        return str(choices[int(self.rng.integers(len(choices)))])

    def size(self) -> str:
        if self.rng.random() > self.odds:
            return self.pick(BACKED)
        name = self.pick(tuple(UNBACKED))
        self.lines[name] = f"{name} = {UNBACKED[name]}"
        return self.pick(READ).format(name)

    def integer(self, depth: int) -> str:
        if depth <= 0:
            return self.size() if self.rng.random() < 0.6 else self.pick(_HALVES).format(self.size())
        kind = self.rng.random()
        if kind < 0.35:
            return self.either(_INTS, self.integer(depth - 1), self.plain_int(depth))
        if kind < 0.55:
            return self.pick(_OF_INT).format(_grouped(self.integer(depth - 1)))
        if kind < 0.7:
            return self.either(_OF_INTS, self.integer(depth - 1), self.plain_int(depth))
        if kind < 0.95:
            return self.pick(_TO_INT).format(_grouped(self.floating(depth - 1)))
        return self.pick(("int({})", "({}) + 1")).format(self.question(depth - 1))

    def plain_int(self, depth: int) -> str:
        return self.integer(depth - 1) if self.rng.random() < 0.3 else str(int(self.rng.choice([1, 2, 3, 5, -2, 0, 7])))

    def plain_float(self, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.3:
            return self.number(depth - 1)
        return str(
            self.rng.choice(
                ["0.5", "2.0", "7.5", "-1.5", "0.1", "3", "2", "9.0", "np.float64(1.5)", "np.int64(2)", "True", "0.0"]
            )
        )

    def floating(self, depth: int) -> str:
        if depth <= 0:
            return self.either(_FLOATS[:6], self.size(), self.plain_float(0))
        kind = self.rng.random()
        if kind < 0.5:
            return self.either(_FLOATS, self.number(depth - 1), self.plain_float(depth))
        if kind < 0.92:
            return self.pick(_OF_FLOAT).format(_grouped(self.number(depth - 1)))
        return self.pick(_OF_QUESTION).format(self.question(depth - 1))

    def question(self, depth: int) -> str:
        return self.either(_QUESTIONS, self.number(depth - 1), self.plain_float(depth))

    def number(self, depth: int) -> str:
        return self.integer(depth) if self.rng.random() < 0.5 else self.floating(depth)

    def either(self, forms: Sequence[str], a: str, b: str) -> str:
        a, b = _grouped(a), _grouped(b)
        return self.pick(forms).format(*((a, b) if self.rng.random() < 0.6 else (b, a)))


def _grouped(text: str) -> str:
    return text if text.replace("_", "a").replace(".", "a").isalnum() else f"({text})"


def draw(seed: int, results: int = 2, odds: float = 0.7) -> Program:
    """The program of a seed. odds: that a size is one which only the run knows."""
    drawing = _Draw(seed, odds)
    made = []
    for _ in range(results):
        depth = int(drawing.rng.integers(0, 3))
        kind = drawing.rng.random()
        if kind < 0.45:
            use, number = drawing.pick(USES), drawing.number(depth)
        elif kind < 0.93:
            use, number = drawing.pick(USES_OF_INT), drawing.integer(depth)
        else:
            use, number = drawing.pick(STATEMENTS), drawing.integer(depth)
        made.append(use.replace("{}", number))
    return Program(seed, tuple(drawing.lines.values()), tuple(made))


def draw_calls(program: Program, count: int = 4) -> list[tuple[np.ndarray[Any, Any], ...]]:
    """Arguments of several calls: other sizes, other masks of the same size, and the same ones again."""
    rng = np.random.default_rng([program.seed, 12])
    width, calls = int(rng.integers(2, 4)), []
    rows = [int(n) for n in rng.integers(2, 8, count)]
    if rng.random() < 0.5:
        rows[1] = rows[0]
    for n in rows:
        x = rng.integers(-8, 9, (n, width)).astype(np.float32) / 4
        m = rng.random(n) < rng.choice([0.2, 0.6, 0.9])
        calls.append((x, m, rng.integers(0, 4, n)))
    return calls
