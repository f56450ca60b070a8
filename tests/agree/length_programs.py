"""Random functions with loops over a size: over rows, over `range` of a size or of a number that is an argument. Some
do what makes iterations differ by their number or by Python's state, or look at how many there were: those are loops of
one length each. Others are one program for every length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

Rng = np.random.Generator

_HEADS = (
    "for t in range(x.shape[0]):", "for t in range(len(x)):", "for t in range(x.size(0) - 1):",
    "for t in range(1, x.shape[0]):", "for t in range(steps):", "for row in x:", "for t, row in enumerate(x):",
    "for row, other in zip(x, x * 2):", "for t in range(0, x.shape[0]):",
    "for t in reversed(range(x.shape[0])):", "for t in range(n - 1, -1, -1):", "for t in range(n - 2, -1, -1):",
    "for t in reversed(range(1, len(x))):", "for t in reversed(range(steps)):",
)  # fmt: skip
_OPERATORS = (
    "{a} + {b}", "{a} * {b}", "weft.tanh({a})", "weft.sin({a} * 2)", "weft.where({a} > 0, {a}, {a} * .1)",
    "weft.maximum({a}, {b})", "-{a}", "({a}.reshape(1, {n}) @ w).reshape({n})", "twice({a})", "net({a})",
    "mixed({a}, {b})", "weft.nn.functional.softmax({a}, -1)", "{a} / ({b}.abs() + 1)", "{a} * scale",
    "{a}.detach() + {b}",
)  # fmt: skip
# lines by which iterations differ, or others see how many there were: in the body, and behind it
_DIFFERS = (
    "if s0.ndim and count[0] == 9: s0 = s0 * 2", "k = (k or 0) + 1", "u, v = v, u",
    "box.n += 1; s0 = s0 * (.5 if box.n < 12 else .2)",
    "s0 = s0 * next(numbers)", "count[0] = count[0] + 1", "seen.add(len(seen)); s0 = s0 + len(seen)", "k = not k",
    "if box.n < 12: box.n += 1", "if len(many) < 320: many.append(.5)", "own[0] = own[0] * .5; s0 = s0 * own[0]",
    "s0 = box.late(s0)", "if len(out) > 10: s0 = s0 * .5", "kept.append(s0)", "kept += [s0]", "k = (k or 0) + .5",
)  # fmt: skip
_DIFFERS_BY_INDEX = (
    "if t == 11: s0 = s0 * 2", "if t == 13: break", "s0 = s0 * many[t]", "s0 = late(s0, t)",
    "s0 = s0 + x[t - 1]", "s0 = s0 * many[last]; last = t", "s0 = s0 * (1 + t // 13)",
    "s0 = s0 if t % 2 else s0 * .5", "s0 = s0 * {0: 2.}.get(t, .5)", "if t > 17: continue",
)  # fmt: skip
# lines with branches and loops that are the same in every iteration
_SAME = (
    "if box.on: s0 = s0 * .5", "s0 = s0 * .5 if box.on else s0 * .3", "if not box.on: s0 = s0 * 3",
    "if nothing is None and box.on: s0 = s0 + p", "s0 = optional(s0)", "s0 = optional(s0, y)",
    "for layer in net: s0 = layer(s0)", "for i in range(3): s0 = s0 * .5 + y * i",
    "for i, layer in enumerate(net): pair[i] = layer(pair[i] + s0)\ns0 = pair[1] * .5",
    "new = []\nfor a, b in zip(both, (.5, .25)):\n    new.append(a * b + s0)\nboth = new; s0 = both[0]",
    "with weft.no_grad():\n    v = v * .9 + s0 * .1\ns0 = s0 + v",
    "stages = [s0]\nfor i in range(2): stages.append(weft.sin(stages[-1]))\ns0 = stages[0] * .5 + stages[2]",
)  # fmt: skip
# lines with numbers of the index that are the same computation in every iteration
_SAME_BY_INDEX = (
    "s0 = s0 + y * t * .01", "s0 = s0 * .97 ** t", "s0 = s0 / (t + 1)", "if t > 0: s0 = s0 * .5", "s0 = s0 * rate(t)",
    "loss = loss + s0.sum() * math.exp(-t / 9)", "later = t + 1; s0 = weft.add(s0, later * .1)",
    "s0 = s0 + y * (t * rates.dt) - rates.dt / (t + 1)", "s0 = s0 * .5 if t else s0 + p",
    "s0 = s0 - max(t, 4) * .01\nif t == 0: s0 = s0 * 2",
)  # fmt: skip
# lines with branches of the index of a loop that counts down
_SAME_GOING_DOWN = (
    "if t == n - 1: s0 = s0 * .5", "s0 = s0 + (y if t >= x.shape[0] - 1 else x[t] * .5)",
    "if t < n - 2: s0 = s0 * .9\nelse: s0 = s0 + y", "if t >= 0: s0 = s0 * .5",
)  # fmt: skip
_BEHIND = (
    "s0 = s0 * len(out)", "s0 = s0 + out[1]", "s0 = s0 + out[-1]", "s0 = sum(out) + s0", "s0 = s0 * len(x)",
    "out = out[::-1]", "s0 = s0 + x[x.shape[0] // 2]", "s0 = s0 * (2 if x.shape[0] > 14 else 1)",
)  # fmt: skip
# what is written in place: a tensor as a whole, and rows of another one
_WRITES = (
    "m0 += {v} * .1", "m0.mul_(.9).add_({v} * .1)", "m0.copy_({v} * .5)", "m0 -= m0.clone() * {v} * .1",
    "with weft.no_grad(): m1 += {v}.detach()", "m0 += weft.tanh(m0.clone() * p)", "m0 *= .9; m0 += {v}; m1.add_(.5)",
)  # fmt: skip
_WRITES_BY_INDEX = (
    "rec[t] = {v}", "rec[:, t] = {v}", "rec[n - 1 - t] = {v}", "rec[t].copy_({v})", "rec[t] = {v}; m0 += {v}",
    "rec[t + 1] = {v}", "rec[t] += {v}", "rec[0] = {v}", "rec[t] = rec[t - 1] + {v}", "rec[t] = m0",
    "rec[t // 2] = {v}", "m0 += y * t * .01", "rec[t] = {v} if t > 3 else y",
)  # fmt: skip
_JOINED = ("weft.stack(out)", "weft.cat(out)", "weft.stack(out, 1)", "weft.stack(out, dim=-1)",
           "weft.stack(out[1:])", "weft.cat(out[2:], 0)",
           "weft.stack(out[:-1])", "weft.cat(out[3:-2])",
           "weft.cumsum(weft.stack(out), 0)")  # fmt: skip
_PREAMBLE = """
class Box:
    def __init__(self):
        self.n = 0
        self.on = True
    def late(self, v):
        self.n = self.n + 1
        return v * (.9 if self.n < 15 else .3)
def twice(v):
    return v * 2 + v.sum()
def mixed(a, b):
    c = a * .5
    return weft.atan(c) + b
def optional(v, other=None):
    if other is None:
        return v * .5
    return v * .5 + other
def rate(t):
    return .9 ** t if t > 1 else .5
def late(v, t):
    return v * 2 if t > 12 else v
class Rates:
    dt = .01
rates = Rates()
net = weft.nn.Sequential(weft.nn.Linear(WIDTH, WIDTH), weft.nn.Tanh()).to(DTYPE)
""".strip()


@dataclass
class LengthProgram:
    """A function step(p, x, w, y, steps) of vectors of `width` elements. is_one: whether it is one program for all
    lengths but the shortest."""

    source: str
    width: int
    seed: int
    is_one: bool
    rates: Any = None  # an object of the latest function's that it reads a number of, another one in each call

    def function(self) -> Any:
        """The function, and what it has parameters in, new."""
        weft.manual_seed(self.seed)
        names: dict[str, Any] = {"weft": weft, "math": math, "WIDTH": self.width, "DTYPE": weft.float64}
        exec(compile(self.source, f"<lengths {self.seed}>", "exec"), names)
        self.rates = names["rates"]
        return names["step"], list(names["net"].parameters())

    def arguments(self, call: int, length: int) -> tuple[Any, ...]:
        """What a call is given."""
        rng = np.random.default_rng([self.seed, call])
        sizes = ((self.width,), (length, self.width), (self.width, self.width), (self.width,))
        wanted = (True, self.seed % 2 == 0, True, False)
        arrays = [rng.normal(size=s) * (.3 if i == 2 else 1.) for i, s in enumerate(sizes)]
        self.rates.dt = 0.01 * (1 + call % 3)
        steps = max(0, length - 2) if "range(steps)" in self.source else 3
        return (*[weft.tensor(a, requires_grad=w) for a, w in zip(arrays, wanted, strict=True)], steps)


def draw_lengths(seed: int) -> LengthProgram:
    """The program of a seed."""
    rng, memory = np.random.default_rng([seed, 26]), np.random.default_rng([seed, 27])

    def chance(share: float) -> bool:
        return bool(rng.random() < share)

    def one_of(choices: Any) -> str:
        return str(choices[int(rng.integers(len(choices)))])

    writes = memory.random() < .4
    width, states = int(rng.choice([1, 3, 5])), int(rng.integers(1, 4))
    has_list, differs, sees = chance(.6), chance(.35), chance(.25)
    begun = has_list and chance(.3)  # the list begins with a value, whose last item iterations read
    lines = ["out = [y]" if begun else "out = []", "xt = x.transpose(0, 1); xc = xt.contiguous()"]
    lines += ["kept, seen, count, box = [], set(), [0], Box()", "k = u = None; u, v = p, y; scale = .5"]
    lines += ["last = 0; nothing = None; own = [1.]; pair = [y * .5, y * .25]; both = [y, p]"]
    lines += ["n = x.shape[0]"]
    lines += ["numbers = iter([.5] * 12 + [.9] * 300); many = [.9] * 14 + [.4] * 300", "loss = 0."]
    lines += [f"s{i} = y * {one_of(('1.', '.5', 'p.sum()'))}" for i in range(states)]
    if writes:
        lines += ["m0, m1, rec = y * 1., weft.zeros_like(y), weft.zeros(n + 2, len(y), dtype=y.dtype)"]
    last, counts_down = one_of(("", "before = s0")), False
    lines += [last] if last else []
    for _ in range(1 + chance(.2)):
        head = one_of(_HEADS)
        has_index = head.startswith("for t")
        is_down = "reversed" in head or "-1)" in head
        rows = [one_of(("x[t]", "x[t]", "xt[:, t]", "xc[:, t]", "x[n - 1 - t]"))] if has_index else []
        rows += ["x[t + 1]"] if " - 1)" in head or "n - 2" in head or "steps" in head else []
        rows += ["row"] if "row" in head else []
        rows += ["other"] if "other" in head else []
        operands = [*[f"s{i}" for i in range(states)] * 2, *rows * 2, "p", *["before"] * bool(last)]
        operands += ["out[-1]"] * begun
        lines.append(head)
        body: list[str] = []
        values: list[str] = []
        for j in range(int(rng.integers(2, 6))):
            b = one_of(values) if values and chance(.6) else one_of(operands)
            body.append(f"v{j} = {one_of(_OPERATORS).format(a=one_of(operands), b=b, n=width)}")
            values.append(f"v{j}")
        body += ["before = s0"] if last else []
        body += [f"s{i} = s{i} * .9 + {one_of(values)} * .1" for i in range(states) if i == 0 or chance(.85)]
        body += [f"out.append({one_of(('s0', 'v0'))})"] if has_list else []
        body += [f"loss = loss + ({one_of(values)} ** 2).sum()"] if chance(.5) else []
        if chance(.5):
            by_index = _SAME_GOING_DOWN if is_down and chance(.8) else _SAME_BY_INDEX
            more = one_of((*_SAME, *by_index * has_index))
            counts_down |= is_down and more in _SAME_BY_INDEX
            body += more.split("\n")
        if writes:
            if memory.random() < .5:
                body.insert(len(values), f"s0 = s0 + {memory.choice(('m0.clone()', 'm0.sum()', 'm0[0]', 'm1'))} * .1")
            line = str(memory.choice([*_WRITES, *_WRITES_BY_INDEX * has_index]))
            line = line.replace("rec[:, t]", "rec.t()[:, t]").format(v=memory.choice(values))
            body.append(line)
        if differs:
            choices = (*_DIFFERS, *_DIFFERS_BY_INDEX * has_index)
            body.insert(int(rng.integers(len(values) + 1)), one_of(choices))
        lines += [f"    {line}" for line in body]
    if sees:
        lines.append(one_of([b for b in _BEHIND if has_list or "out" not in b]))
    if has_list:
        lines.append(f"loss = loss + ({one_of(_JOINED)}).square().mean()")
    if writes:
        lines.append("loss = loss + (m0.clone() ** 2).sum() + m1.sum() + (rec.clone() ** 2).sum()")
    lines += [f"loss = loss + {one_of(('s0', 'before' if last else 's0', f's{states - 1}'))}.sum()"]
    lines += ["loss.backward()"] * chance(.7)
    returned = [one_of(("s0", "s0 * 2", "k", "count[0]", "box.n", "len(kept)", "v is p"))]
    returned += [one_of(_JOINED)] if has_list and chance(.5) else []
    if writes:
        returned.append(str(memory.choice(("m0", "m1", "rec", "rec[2:]", "m0[0]"))))
    source = "\n".join([_PREAMBLE, "def step(p, x, w, y, steps):", *(f"    {line}" for line in lines),
                        f"    return [loss, {', '.join(returned)}]"])
    reads_earlier = any("before" in line for line in lines if line.startswith("    ") and "before = s0" not in line)
    both_ways = "n - 1 - t" in source and seed % 2 == 0  # gradients of a row arrive from both sides
    is_one = not (differs or sees or reads_earlier or counts_down or both_ways or writes)
    return LengthProgram(source, width, seed, is_one)
