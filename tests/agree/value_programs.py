"""Random steps that ask tensors for values: what Python does next hangs on them, and numbers made of them are kept on
the object, returned, and used by operators again. The source, and what can be seen of the object."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

PRELUDE = '''
import math, weft

class Model:
    def __init__(self, w):
        self.w, self.best, self.history, self.flags, self.count, self.scale = w, 1e9, [], [], 0, 1.0
        self.picked, self.text, self.table = 0, "", {}
'''
SCALARS = (
    "v.sum()", "v.mean()", "v.abs().max()", "v.min()", "(v * v).sum().sqrt()", "v.flatten()[0]", "v.norm()",
    "x.sum()", "self.w.sum()", "(v > 0).sum()", "v.argmax()",
)
ANSWERS = (
    "{t} > {c}", "{t} <= {c}", "{t}.item() > {c}", "(v > {c}).any()", "not (v > {c}).all()", "weft.isfinite({t})",
    "{t} > {c} and {u} < 1", "{t} > {u}", "{t}.item() < {u}.item()", "bool({t} < {c})", "{t}.item() > self.scale",
    "int(v.argmax()) == 1", "abs({t}.item()) > 0.5", "0 < {t}.item() < 2", "{t} != {t}", "v.numel() > 6 and {t} > 0",
    "int((v > 0).sum()) > 2", "math.sin({t}.item()) > 0", "round({t}.item(), 1) > {c}",
    "weft.rand((), dtype=v.dtype) < 0.5",
)
STATEMENTS = (
    "if {a}: v = v * 2", "if {a}:\n    v = v + 1\nelse:\n    v = v - x", "v = v if {a} else v.tanh()",
    "if {t}.item() < self.best:\n    self.best = {t}.item(); self.count += 1", "self.history.append({t}.item())",
    "self.scale = 0.5 * self.scale + 0.1 * {t}.item()", "self.scale = float({t})", "v = v * {t}.item()",
    "v = v / max(abs({t}.item()), 0.5)", "self.flags.append(bool({a}))", "self.count += int({a})",
    "k = 0\nwhile {t} > {c} and k < 3:\n    v = v * 0.5; k += 1\nself.count += k",
    "if weft.isnan({t}): raise ValueError('nan')", "if {a} and {u} > 3: raise KeyError('large')",
    "assert {t} < 1000", "self.picked = int(v.argmax())", "v = v + v.argmax().item()",
    "try:\n    if {a}: raise KeyError\n    v = v + 1\nexcept KeyError:\n    v = v - 1",
    "self.text = f'{{{t}.item():.3f}}'", "if {a}: return {t}", "if {a}: return {t}.item(), v",
    "self.table['last'] = {t}.item()", "self.best = min(self.best, {t}.item())",
    "for r in v:\n    if r.sum() > {c}: break\n    v = v * 0.9", "with weft.no_grad():\n    if {a}: self.w.mul_(0.5)",
    "v = v + (1 if {a} else 2) * x", "v = v[: 1 + int({a})]; x = x[: len(v)]",
    "n = int((v > 0).sum())\nv = v * n", "self.history.append(({t}.item(), {u}.item()))",
    "v = weft.where({t} > {c}, v, -v)", "if {t}:\n    v = v * 1.5", "v = v + math.exp(-abs({t}.item()))",
    "self.history[:] = self.history[-2:]", "v = v + self.scale",
    "if int(v.argmax()) * 4611686018427387904 > {c}: v = v * 3", "self.count = int(v.argmax()) * 1152921504606846976",
)
ENDINGS = (
    "return v.sum().item()", "return v", "return v.sum(), self.count",
    "loss = (v * v).mean(); loss.backward()\nwith weft.no_grad():\n    self.w -= 0.1 * self.w.grad\n"
    "self.w.grad = None\nreturn loss.item()",
    "loss = v.sum(); loss.backward()\nif self.w.grad.norm() > 1:\n    self.w.grad.mul_(0.5)\n"
    "with weft.no_grad():\n    self.w.add_(self.w.grad, alpha=-0.1)\nself.w.grad = None\nreturn loss.detach()",
    "if v.sum() > 0:\n    (g,) = weft.autograd.grad(v.sum(), self.w)\n    return g\nreturn None",
)


@dataclass(frozen=True)
class ValueProgram:
    """The source of a class, and the values of its parameter."""

    source: str
    start: Any

    def make(self) -> Any:
        """An object of the class."""
        file = f"<value program {abs(hash(self.source))}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)
        names: dict[str, Any] = {"__name__": "programs"}
        exec(compile(self.source, file, "exec"), names)
        return names["Model"](weft.tensor(self.start.copy(), requires_grad=True))


def state_of(model: Any) -> dict[str, Any]:
    """What can be seen of an object."""
    return {**{k: v for k, v in vars(model).items() if k != "w"}, "w": model.w.detach().numpy().copy()}


def draw(rng: np.random.Generator) -> ValueProgram:
    """One program."""

    def filled(text: str) -> str:
        for name in "tu":
            while f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", str(rng.choice(SCALARS)), 1)
        return text.replace("{c}", f"{rng.uniform(-1, 1.5):.3f}").replace("{{", "{").replace("}}", "}")

    lines = ["v = x * self.w"]
    for _ in range(int(rng.integers(1, 6))):
        text = str(rng.choice(STATEMENTS)).replace("{a}", str(rng.choice(ANSWERS)))
        lines += filled(text).split("\n")
    lines += str(rng.choice(ENDINGS)).split("\n")
    body = "\n".join(f"        {line}" for line in lines)
    return ValueProgram(f"{PRELUDE}\n    def step(self, x):\n{body}\n", rng.uniform(-1, 1, 3))
