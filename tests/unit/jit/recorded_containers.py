"""Programs with lists, dicts and effects in branches and loops that hang on values: written once, run by Python and by
weft."""

from __future__ import annotations

import weft
from weft import Tensor


def recurrent(x: Tensor, w: Tensor):
    h = weft.zeros(2, dtype=weft.float64)
    outs = [h]
    for t in range(x.size(0)):
        h = weft.tanh(x[t] + h @ w)
        outs.append(h)
    return weft.stack(outs) * len(outs), outs[-1]


def both_ways(x: Tensor, w: Tensor):
    forward: list[Tensor] = []
    back: list[Tensor] = []
    h = weft.zeros(2, dtype=weft.float64)
    for t in range(x.size(0)):
        h = weft.tanh(x[t] + h @ w)
        forward.append(h)
    for t in range(x.size(0)):
        h = weft.tanh(x[x.size(0) - 1 - t] - h @ w)
        back.append(h)
    back.reverse()
    both: list[Tensor] = []
    for i in range(len(forward)):
        both.append(weft.cat([forward[i], back[i]]))
    return weft.stack(both)


def twice_a_step(x: Tensor, w: Tensor):
    outs: list[Tensor] = []
    for t in range(x.size(0)):
        outs.append(x[t] @ w)
        outs.append(x[t] * t)
    outs.append(x[0])
    return weft.stack(outs, 1), weft.cat(outs, -1), outs[-2], outs[0]


def collected(x: Tensor, w: Tensor):
    x = x * x + 0.1
    seen: list[Tensor] = []
    sums: list[float] = []
    while x.sum() < 100:
        x = x * 1.5 + w.sum() * 0.01
        seen.append(x.sum(0))
        sums.append(float(x.sum()))
    return weft.stack(seen), len(seen), sums[0] if len(sums) > 0 else 0.0


def appended_in_both(x: Tensor, w: Tensor):
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    else:
        parts.append(x * x)
    parts[0] = parts[0] @ w
    return parts[0] * parts[1]


def within_a_block(x: Tensor, w: Tensor):
    if x.sum() > 0:
        parts = [x, x * 2]
        parts.append(x @ w)
        parts.reverse()
        x = weft.stack(parts).prod(0)
    return x


def elements_written(x: Tensor, w: Tensor):
    parts = [x, x * x, x - 1]
    count = [0, 0]
    i = 0
    while float(parts[0].abs().sum()) < 50 and i < 9:
        parts[i % 3] = parts[i % 3] * 1.5 + parts[(i + 1) % 3]
        count[i % 2] += i
        i += 1
    return parts[0], parts[1] + parts[2], count[0] * 10 + count[1]


def entries(x: Tensor, w: Tensor):
    found = {"a": x, "b": x @ w}
    for i in range(x.size(0)):
        if x[i].sum() > 0:
            found["a"] = found["a"] * 1.1 + i
        else:
            found["b"] = found["b"].sin()
    return found["a"] - found["b"]


def one_of_two(x: Tensor, w: Tensor):
    parts = [x, x * 3]
    if x.sum() > 0:
        parts = [x * 2, x @ w]
    found = {"p": parts[0]}
    if x[0].sum() > 0:
        found = {"p": parts[1]}
    return found["p"] * parts[1]


def pairs(x: Tensor, w: Tensor):
    last = [(x[0], 1.0)]
    for i in range(x.size(0)):
        a, b = last[0]
        last[0] = (a * 0.5 + x[i], b + 0.5 * i)
    return last[0][0] * last[0][1]


def outer_tensors(x: Tensor, w: Tensor):
    rows = [weft.zeros(2, dtype=weft.float64), weft.ones(2, dtype=weft.float64)]
    total = weft.zeros(2, dtype=weft.float64)
    for i in range(x.size(0)):
        if x[i].sum() > 0:
            rows[0].add_(x[i])
            total += rows[1]
        else:
            rows[1].mul_(x[i])
    return rows[0] * rows[1] + total


def helped(parts: list[Tensor], x: Tensor):
    parts[0] = parts[0] + x
    return parts[0].sum() * 0.1


def through_a_call(x: Tensor, w: Tensor):
    parts = [x[0] * 1.0]
    total = x.sum() * 0.0
    for i in range(x.size(0)):
        if x[i, 0] > 0:
            total = total + helped(parts, x[i] @ w)
    return parts[0] * total


def nested_loops(x: Tensor, w: Tensor):
    outs: list[Tensor] = []
    for i in range(x.size(0)):
        parts: list[Tensor] = []
        for j in range(x.size(0)):
            parts.append(x[i] * x[j] @ w)
        outs.append(weft.stack(parts).sum(0))
    return weft.stack(outs)


def checked(x: Tensor, w: Tensor):
    for i in range(x.size(0)):
        assert bool(x[i].abs().sum() < 1e6), "too large"
        if bool(x[i].sum() > 1e6):
            raise ValueError("much too large")
        x = x * 1.1 + w.sum()
    return x


PROGRAMS = (
    recurrent, both_ways, twice_a_step, collected, appended_in_both, within_a_block, elements_written, entries,
    one_of_two, pairs, outer_tensors, through_a_call, nested_loops, checked,
)
