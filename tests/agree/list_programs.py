"""Random functions with loops over lists of parameters: optimizers, penalties, clipping, operators on whole lists, in
place or not, over tensors of one type, of several in turn, or of several in any order.

A program is lines of Python, so that a failure can be read, made smaller, and kept as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

Rng = np.random.Generator
Shape = tuple[int, ...]

_SHAPES: tuple[Shape, ...] = ((3,), (2, 3), (), (4, 4), (5, 1), (17,))
_LOSSES = (
    "loss = sum((p * x.sum()).tanh().sum() for p in ps)",
    "loss = x.sum()\nfor p in ps: loss = loss + (p * p).sum()",
    "h = x\nfor p in ps: h = h * .9 + (p.mean() * h).sin()\nloss = h.sum()",
    "loss = sum((p.exp() * m).sum() for p, m in zip(ps, ms))",
    "loss = weft.stack([p.square().sum() for p in ps]).sqrt().sum()",
    "loss = weft.cat([p.reshape(-1) for p in ps]).square().mean()",
    "w = [p * 2 for p in ps]\nloss = sum((a * a).sum() for a in w)",
)  # fmt: skip
_UPDATES = (  # with no history
    "for p, m in zip(ps, ms): m.mul_(.9).add_(p.grad); p.sub_(.1 * m)",
    "for p, m, n in zip(ps, ms, ns): m.lerp_(p.grad, .1); n.mul_(.9).addcmul_(p.grad, p.grad, value=.1); "
    "p.addcdiv_(m, n.abs().sqrt() + .1, value=-.1)",
    "weft._foreach_mul_(ms, .9)",
    "weft._foreach_add_(ms, [p.grad for p in ps])\nweft._foreach_add_(ps, ms, alpha=-.1)",
    "for p in ps: p.sub_(p.grad * .1)",
    "for m, n in zip(ms, ns): m.copy_(n * .5 + m)",
    "for m, n in zip(ms, ns): k = m.clone(); m.copy_(n * 1.); n.copy_(k)",
    "for m, n in zip(ms[1:], ms): m.add_(n.sum() * .1)",
    "for m, n in zip(ms, reversed(ns)): m.add_(n.sum() * .1)",
    "for i, m in enumerate(ms): m.add_(.1 * i)",
    "for i, m in enumerate(ms): m.mul_(.9 + .01 * i).sub_(i)",
    "for m in ms: m.add_(weft.randn(m.shape, dtype=m.dtype) * .1)",
    "for m, n in zip(ms, ns): m.reshape(-1)[:1] += n.reshape(-1)[-1:]",
    "for i in range(len(flat) // 4): flat[4 * i:4 * i + 4] *= ms[i % len(ms)].sum()",
    "for part in flat.split(4): part.add_(part.sum() * .1)",
    "for p in ps: p.grad.mul_(.5)",
    "for p in ps: p.grad.zero_()",
    "weft.nn.utils.clip_grad_norm_(ps, .5)", "weft.nn.utils.clip_grad_value_(ps, .2)",
    "total = weft.stack([p.grad.norm() for p in ps]).norm()\nfor p in ps: p.grad.mul_(1 / (total + 1))",
    "for m, p in zip(ms, ps): m.copy_(p)",
    "ms[0].add_(1.)", "for m in ms[::2]: m.neg_()", "for m in ms: m.mul_(ms[0].sum() * .1)",
    "for m in list(ms): m.add_(m.max()); m.sub_(m.mean())",
)  # fmt: skip
_RETURNED = (
    "[]", "[m + 1 for m in ms]", "[p.sum() for p in ps]", "[p.grad * 2 for p in ps]", "ms", "[m * n for m, n in "
    "zip(ms, ns)]", "[weft.stack([m.sum() for m in ms])]", "[m.clone() for m in ms] + [weft.stack([n.sum() for n in "
    "ns])]", "[ms[1] * 2, ns[-1]]", "[m.reshape(-1)[:1] for m in ms]",
)  # fmt: skip
_OPTIMIZERS = (
    "SGD(ps, lr=.1)", "SGD(ps, lr=.1, momentum=.9, nesterov=True)", "Adam(ps, lr=.1)", "AdamW(ps, lr=.1, amsgrad=True)",
    "RMSprop(ps, lr=.01)", "Adagrad(ps, lr=.1)", "Adam(ps, lr=.1, maximize=True, weight_decay=.1)",
    "SGD([{'params': ps[::2]}, {'params': ps[1::2], 'lr': .2}], lr=.1, momentum=.5)",
)  # fmt: skip


@dataclass
class ListProgram:
    """A function step(x) over the lists ps (parameters), ms and ns (of the same shapes), a tensor `flat`, and an
    optimizer `opt` of ps. Its state lasts from call to call."""

    source: str
    shapes: tuple[Shape, ...]
    seed: int

    @property
    def is_double(self) -> bool:
        return self.seed % 4 < 2

    def function(self) -> tuple[Any, list[Any]]:
        """The function, new, and the tensors that it reads and writes beside its argument."""
        rng, dtype = np.random.default_rng(self.seed), np.float64 if self.is_double else np.float32
        ps, ms, ns = ([weft.tensor(rng.normal(size=s).astype(dtype)) for s in self.shapes] for _ in range(3))
        for p in ps:
            p.requires_grad_()
        flat = weft.tensor(rng.normal(size=4 * len(ps)).astype(dtype))
        names: dict[str, Any] = {"weft": weft, "ps": ps, "ms": ms, "ns": ns, "flat": flat}
        exec(compile(self.source, f"<lists {self.seed}>", "exec"), names)
        return names["step"], [*ps, *ms, *ns, flat]

    def argument(self, call: int) -> Any:
        """What a call is given."""
        values = np.random.default_rng([self.seed, call]).normal(size=3)
        return weft.tensor(values.astype(np.float64 if self.is_double else np.float32))


def draw_lists(seed: int) -> ListProgram:
    """The program of a seed."""
    rng = np.random.default_rng([seed, 1])

    def one_of(choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    count, order = int(rng.integers(4, 13)), rng.random()
    kinds = [one_of(_SHAPES) for _ in range(1 if order < .4 else int(rng.integers(2, 4)))]
    shapes = tuple([kinds[i % len(kinds)] if order < .7 else one_of(kinds) for i in range(count)])
    lines = [f"opt = weft.optim.{one_of(_OPTIMIZERS)}", "def step(x):"]
    body = [*one_of(_LOSSES).split("\n"), "for p in ps: p.grad = None", "loss.backward()", "with weft.no_grad():"]
    for _ in range(int(rng.integers(1, 5))):
        body += [f"    {line}" for line in one_of(_UPDATES).split("\n")]
    if rng.random() < .5:
        body.append("opt.step()")
    if rng.random() < .3:
        body += ["with weft.no_grad():", *[f"    {line}" for line in one_of(_UPDATES).split("\n")]]
    body.append(f"return [loss.detach(), *{one_of(_RETURNED)}]")
    return ListProgram("\n".join([*lines, *[f"    {line}" for line in body]]), shapes, seed)
