"""Random functions with Python loops: what they carry, read by the index, write by the index, put into lists, draw, and
on which iterations they do something else; with a backward of the first or second order, or none.

A program is lines of Python, so that a failure can be read, made smaller, and kept as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

Rng = np.random.Generator

# an iteration's operators: {a}, {b} are operands, {n} is the width
_OPERATORS = (
    "{a} + {b}", "{a} * {b}", "{a} - {b}", "weft.tanh({a})", "weft.sin({a} * 2)", "weft.where({a} > 0, {a}, {a} * .1)",
    "weft.maximum({a}, {b})", "{a} * ({a}).sum()", "-{a}", "{a}.clone()", "({a} + zeros).reshape({n}, 1).t()[0]",
    "(({a} + zeros).reshape(1, {n}) @ w).reshape({n})", "weft.softmax({a}, -1)", "weft.cumsum({a}, 0)",
    "{a} / ({b}.abs() + 1)", "gated({a}, {b})", "weft.max(weft.stack([{a}, {b}]), 0).values",
    "weft.sort({a} + zeros).values", "sum((({a} + zeros) * w).unbind(0)) + {b}",
    "weft.cat((({a} + zeros) * 2).split({n} // 2 + 1)[::-1])", "weft.var_mean(w * {a}, 0)[1]",
)  # fmt: skip
# a tensor that iterations write as a whole, and another one that they write row by row
_MEMORY = ("y.clone()", "y * p", "weft.zeros_like(y)", "weft.zeros_like(y) + x[0]", "y.detach() * 1")
_READS = ("m0.clone()", "m0", "m0.sum()", "m0[0]", "(m0 * 1.)", "m0.detach()", "m0.flip(0)")
_WRITES = (
    "m0 += value * .1", "m0.mul_(.9).add_(value * .1)", "m0.copy_(value)", "m0 -= m0.clone() * value", "m0.add_(.5)",
    "m0 *= .9; m0 += value", "trace[t] = value", "trace[t] = m0", "trace[t].copy_(value)", "m0.clamp_(-1, 1)",
    "trace[t] = value; m0 += value", "m0 += .1 * t", "m0[0] = value.sum()", "seen.append(m0[0]); m0 += value * .1",
    "m0 += weft.tanh(m0.clone())", "trace[t] = value * t", "m0 += x[t] * value", "seen.append(trace[t]); trace[t] = m0",
    "trace[t] = value; trace[t] *= .5", "m0 += trace[t]", "with weft.no_grad(): m0 += value * .1",
)  # fmt: skip
# what an iteration makes of {v} and writes itself, by places that are tensors, or through a view
_FRESH = (
    "f = {v}.clone(); f.index_put_((ix,), {v}, accumulate=True)", "f = {v} * 1; f[ix] = {v}",
    "f = {v} + 0; f[ix[:1]] = .5",
    "f = zeros.clone(); f.index_add_(0, ix, {v} + zeros)", "f = {v} * 2; f[f > {v}.detach()] = 0.",
    "f = zeros + {v}; f.masked_fill_({v}.detach() > 0, .1)",
    "f = zeros.clone(); f.scatter_add_(0, ix, {v} + zeros)",
    "f = w * 1; f[:, ix] = w * {v}; f = f[0]", "f = w + {v}; f[ix[0]] = {v}; f = f.sum(0)",
    "f = {v} + zeros; f[0] = 1.", "f = zeros.clone(); f.copy_({v} + zeros)",
)  # fmt: skip
_OF_MEMORY = ("(m0 * m0).sum()", "(trace * trace).sum()", "m0.sum() + trace.mean()", "(trace[1:] - m0).square().sum()")
# one result several times
_OF_ONE = ("weft.stack([out[1]] * len(out))", "weft.cat([out[-1], out[-1]])", "weft.stack([s0, s0], 1)")
_MEMORY_RETURNED = ("m0", "trace", "m0, trace", "trace[1:3]", "*seen", "weft.tensor(m0._version + trace._version)")
_PREAMBLE = """
def gated(a, b):
    i, f, g, o = weft.cat([a * 2 + b, b * 1., a - b, weft.tanh(b)]).chunk(4)
    return i.sigmoid() * g.tanh() + f * o
""".strip()
_INNER = ("s0 = s0 + .01 * weft.cos(s0)", "s0 = s0 * .9 + x[k] * .1", "s0 = weft.tanh(s0 @ w)")
_LISTS = (
    "weft.stack(out).sum()", "sum(o.sum() for o in out)", "out[1].sum() + out[-1].sum()", "weft.cat(out).mean()",
    "weft.stack(out, 1).std()", "(weft.stack(out[1:]) - weft.stack(out[:-1])).square().sum()",
)  # fmt: skip
# what is done with what iterations gave, behind the loop
_BEHIND = (
    "s0 = s0 + out[1] * out[-2]", "out[1].register_hook(lambda g: g * 2)", "out[1].retain_grad()",
    "g1, = weft.autograd.grad(out[-1].sum(), out[1], retain_graph=True, allow_unused=True); "
    "s0 = s0 if g1 is None else s0 + g1", "out[2] = out[2].detach().mul_(2.)", "s0 = s0 + out[2].detach()",
    "s0 = weft.cond(s0.sum() > 0, lambda: s0 * out[0], lambda: out[-1] * 2)", "out = out[::-1]",
)  # fmt: skip
_RETURNED = ("[s0]", "[]", "list(out)", "[rec]", "[s0, rec]", "[weft.stack(out)]")


@dataclass
class Program:
    """A function step(p, x, w, y) of vectors of `width` elements; x has a row more than there are steps. Every second
    one computes in float64: those are compared with eager mode, from which rounding leads others too far away."""

    source: str
    width: int
    steps: int
    seed: int

    def function(self) -> Any:
        """The function, new."""
        names: dict[str, Any] = {"weft": weft}
        exec(compile(self.source, f"<loop {self.seed}>", "exec"), names)
        return names["step"]

    @property
    def is_double(self) -> bool:
        return self.seed % 4 < 2

    def arguments(self, call: int) -> tuple[Any, ...]:
        """What a call is given: gradients are wanted of p and w, and of x in every second program."""
        rng = np.random.default_rng([self.seed, call])
        sizes = ((self.width,), (self.steps + 1, self.width), (self.width, self.width), (self.width,))
        arrays = [(rng.normal(size=s) * (.3 if i == 2 else 1.)) for i, s in enumerate(sizes)]
        wanted = (True, self.seed % 2 == 0, True, False)
        dtype = np.float64 if self.is_double else np.float32
        return tuple(weft.tensor(a.astype(dtype), requires_grad=w) for a, w in zip(arrays, wanted, strict=True))


def draw(seed: int) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    width, steps = int(rng.choice([1, 3, 4, 16, 17])), int(rng.integers(4, 11))
    lines = _Lines(rng, width, steps, *(np.random.default_rng([seed, k]) for k in (1, 2)))
    source = "\n".join([_PREAMBLE, "def step(p, x, w, y):", *(f"    {line}" for line in lines.drawn())])
    return Program(source, width, steps, seed)


class _Lines:
    """The lines of one function."""

    def __init__(self, rng: Rng, width: int, steps: int, memory: Rng, fresh: Rng) -> None:
        """memory: draws what is written in place as a whole. fresh: what iterations make and write themselves."""
        self.rng, self.width, self.steps, self.memory, self.fresh = rng, width, steps, memory, fresh
        self.states = int(rng.integers(1, 4))
        self.has_record, self.has_list, self.has_earlier = (self.chance(share) for share in (.4, .5, .3))
        self.has_memory = memory.random() < .5
        self.has_fresh = fresh.random() < .3

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one_of(self, choices: Any) -> str:
        return str(choices[int(self.rng.integers(len(choices)))])

    def drawn(self) -> list[str]:
        """All of them."""
        lines = [f"zeros = weft.zeros({self.width}, dtype=y.dtype)", "out, loss = [], 0."]
        lines += [f"s{i} = y * {self.one_of(('1.', '.5', 'p.sum()'))}" for i in range(self.states)]
        if self.has_fresh:
            lines.append(f"ix = weft.arange({self.width}).flip(0)")
        rows = self.steps + int(self.rng.integers(3))
        lines.append(f"rec = weft.zeros({rows}, {self.width}, dtype=y.dtype)")
        if self.has_earlier:
            lines.append("before = earlier = s0")
        if self.has_memory:
            lines += [f"m0 = {self.memory.choice(_MEMORY)}", f"trace = weft.zeros({rows}, {self.width}, dtype=y.dtype)"]
            lines.append("seen = []")
        lines.append(f"for t in range({self.steps}):")
        lines += [f"    {line}" for line in self._iteration()]
        if self.has_list and self.chance(.4):
            lines.append(self.one_of(_BEHIND))
        if self.has_record:
            lines.append("loss = loss + (rec * rec).sum()")
        if self.has_list:
            lines.append(f"loss = loss + {self.one_of(_LISTS)}")
        lines.append("loss = loss + s0.sum()")
        if self.has_memory:
            lines.append(f"loss = loss + {self.memory.choice(_OF_MEMORY)}")
        if self.has_memory and self.has_list and self.memory.random() < .5:
            lines += ["for o in out:", "    s0 = s0 * .9 + weft.sin(o * s0)"]
            lines.append(f"loss = loss + s0.sum() + ({self.memory.choice(_OF_ONE)} ** 2).sum()")
        order = self.rng.random()
        if order < .55:
            lines.append("loss.backward()")
        elif order < .75:
            lines += ["g, = weft.autograd.grad(loss, p, create_graph=True, allow_unused=True)"]
            lines += ["if g is not None: (g * g).sum().backward()"]
        returned = self.one_of([r for r in _RETURNED if self.has_list or "out" not in r])
        if self.has_memory:
            returned = f"{returned}, {self.memory.choice(_MEMORY_RETURNED)}"
        lines.append(f"return [loss, *{returned}]")
        return lines

    def _operand(self) -> str:
        choices = [f"s{int(self.rng.integers(self.states))}"] * 4 + ["p"] * 2 + ["x[t]"] * 2
        choices += [f"x[{self.steps - 1} - t]", "x[t + 1]", "p * (.1 * t)", "s0 * (t + 1)"]
        choices += ["before", "earlier"] * self.has_earlier
        return self.one_of(choices)

    def _iteration(self) -> list[str]:
        lines: list[str] = []
        values: list[str] = []
        for k in range(int(self.rng.integers(1, 6))):
            b = self.one_of(values) if values and self.chance(.6) else self._operand()
            text = self.one_of(_OPERATORS).format(a=self._operand(), b=b, n=self.width)
            lines.append(f"v{k} = {text}")
            values.append(f"v{k}")
        if self.has_earlier:
            lines.append("before, earlier = s0, before")
        lines += [
            f"s{i} = s{i} * .9 + {self.one_of(values)} * .1" for i in range(self.states) if self.chance(.85)
        ]
        if self.chance(.15):
            lines.append(f"s0 = s0 + weft.randn({self.width}) * .1")
        if self.chance(.1):
            lines.append("s0 = weft.nn.functional.dropout(s0, .3)")
        if self.chance(.15):
            lines.append(f"s0.{self.one_of(('mul_(.9)', 'add_(v0)', 'clamp_(-2, 2)'))}")
        if self.has_record:
            lines.append(self.one_of((
                "rec[t] = s0", "rec[t] = v0", "rec[t] = s0 + rec[t - 1]", "rec[t] += s0", "rec[t].copy_(s0)",
                "rec[t] = s0; s0 = rec[t] * 1.", f"rec[{self.steps - 1} - t] = s0",
                f"rec[t, {self.width // 2}:] = s0[0]",
            )))  # fmt: skip
        if self.has_list:
            lines.append(f"out.append({self.one_of(('s0', 'v0'))})")
        if self.chance(.3):
            lines.append(self.one_of((
                "if t % 3 == 2: s0 = s0 * .5", "if t > 2: s0 = s0 + v0 * .1", f"if t == {self.steps - 2}: break",
                "if t % 2: continue",
            )))  # fmt: skip
        if self.chance(.5):
            lines.append(f"loss = loss + (({self.one_of(values)}) ** 2).sum()")
        if self.chance(.2):
            lines += [f"for k in range({int(self.rng.integers(3, 7)) if self.chance(.7) else 't'}):"]
            lines += [f"    {self.one_of(_INNER)}"]
        if self.has_fresh:
            text = str(self.fresh.choice(_FRESH)).format(v=self.fresh.choice([*values, "s0"]))
            lines += [text, "s0 = s0 + f * .1"]
        if self.has_memory:
            lines += self._writes(int(self.memory.integers(len(values) + 1)), lines, values)
        return lines

    def _writes(self, at: int, lines: list[str], values: list[str]) -> list[str]:
        """Lines that read memory, put among the others, and lines that write it, as the last ones."""
        reads = [f"s0 = s0 + {self.memory.choice(_READS)} * .1" for _ in range(int(self.memory.integers(3)))]
        lines[at:at] = reads
        writes = [str(self.memory.choice(_WRITES)) for _ in range(int(self.memory.integers(1, 3)))]
        return [line.replace("value", str(self.memory.choice([*values, "s0"]))) for line in writes]
