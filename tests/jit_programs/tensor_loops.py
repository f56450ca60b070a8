# ruff: noqa: B007, SIM108, B905, UP006, UP035, UP045  (programs as people write them)
"""Programs whose branches and loops work on tensors, through which gradients of both orders flow."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import weft
import weft.nn.functional as F
from weft import Tensor


# ---- loops that carry tensors
def horner(x: Tensor, n: int) -> Tensor:
    total = weft.zeros_like(x)
    for i in range(n):
        total = total * x + (i - 2)
    return total


def newton_root(x: Tensor) -> Tensor:
    a = x * x + 1
    r = a
    for _ in range(5):
        r = 0.5 * (r + a / r)
    return r


def euler_steps(x: Tensor, v: Tensor, n: int):
    dt = 0.1
    for _ in range(n):
        v = v - dt * x.sin()
        x = x + dt * v
    return x, v


def runge_kutta(x: Tensor, n: int) -> Tensor:
    h = 0.05
    for i in range(n):
        k1 = x.sin()
        k2 = (x + h / 2 * k1).sin()
        k3 = (x + h / 2 * k2).sin()
        k4 = (x + h * k3).sin()
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def descent(x: Tensor, target: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = x - 0.1 * 2 * (x - target)
        if n > 5:
            x = x.clamp(-1, 1)
    return x


def power_iteration(x: Tensor, n: int) -> Tensor:
    a = x @ x.t() + weft.eye(2)
    v = weft.ones(2)
    for _ in range(max(n, 1)):
        v = a @ v
        v = v / v.norm()
    return v @ a @ v


def squared_power(x: Tensor, n: int) -> Tensor:
    base = x @ x.t() * 0.1
    result = weft.eye(2)
    n = abs(n)
    while n > 0:
        if n % 2 == 1:
            result = result @ base
        base = base @ base
        n //= 2
    return result


def gated_cell(x: Tensor, h: Tensor) -> Tensor:
    for t in range(x.size(0)):
        z = weft.sigmoid(x[t] + h)
        r = weft.sigmoid(x[t] - h)
        c = weft.tanh(x[t] + r * h)
        h = (1 - z) * h + z * c
    return h


def long_memory(x: Tensor, h: Tensor) -> Tuple[Tensor, Tensor]:
    c = weft.zeros_like(h)
    for row in x:
        i, f, o = row.sigmoid(), (row + h).sigmoid(), (row - h).sigmoid()
        c = f * c + i * h.tanh()
        h = o * c.tanh()
    return h, c


def two_directions(x: Tensor) -> Tensor:
    forward: List[Tensor] = []
    backward: List[Tensor] = []
    h = weft.zeros_like(x[0])
    for i in range(x.size(0)):
        h = (h + x[i]).tanh()
        forward.append(h)
    h = weft.zeros_like(x[0])
    for i in range(x.size(0) - 1, -1, -1):
        h = (h - x[i]).tanh()
        backward.insert(0, h)
    return weft.cat([weft.stack(forward), weft.stack(backward)], dim=1)


def running_means(x: Tensor) -> Tensor:
    means: List[Tensor] = []
    total = x[:, 0] * 0
    for j in range(x.size(1)):
        total = total + x[:, j]
        means.append(total / (j + 1))
    return weft.stack(means, dim=1)


def exponential_average(x: Tensor, decay: float) -> Tensor:
    d = 0.5 if decay < 0 or decay > 1 else decay
    average = x[0]
    for i in range(1, x.size(0)):
        average = d * average + (1 - d) * x[i]
    return average


def outer_sums(x: Tensor, y: Tensor) -> Tensor:
    total = weft.zeros(3)
    for a in x:
        for b in y:
            total = total + a * b.cos()
    return total


def pairwise(x: Tensor) -> Tensor:
    total = x.sum() * 0
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            if i == j:
                continue
            total = total + x[i, j] * (i - j)
    return total


def fibonacci_of_tensors(x: Tensor, y: Tensor, n: int) -> Tensor:
    for i in range(n):
        x, y = y, (x + y) * 0.5
    return y


def rotated(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = weft.cat([x[:, 1:], x[:, :1]], dim=1)
        if i % 2:
            x = -x
    return x


def growing(x: Tensor, n: int) -> Tensor:
    y = x
    for _ in range(min(abs(n), 3)):
        y = weft.cat([y, x * 2])
    return y


def shrinking(x: Tensor) -> Tensor:
    while x.size(1) > 1:
        x = x[:, 1:] - x[:, :-1]
    return x


def halves(x: Tensor) -> Tensor:
    total = x.sum() * 0
    y = x.reshape(-1)
    while y.numel() > 1:
        left, right = y[: y.numel() // 2], y[y.numel() // 2 :]
        total = total + left.sum() * right.sum()
        y = left
    return total


def chunks(x: Tensor, n: int) -> Tensor:
    total = weft.zeros(2, 1)
    for i, part in enumerate(x.chunk(3, 1)):
        if i == n:
            total = total - part
        else:
            total = total + part * i
    return total


def zipped_rows(x: Tensor, y: Tensor) -> Tensor:
    out: List[Tensor] = []
    for a, b in zip(x, y):
        out.append(a * b if len(out) == 0 else a - b)
    return weft.stack(out)


def unbound(x: Tensor) -> Tensor:
    total = weft.zeros(2)
    for column in x.unbind(1):
        total = total.exp() * 0.1 + column
    return total


def tower(x: Tensor, n: int) -> Tensor:
    layers: List[Tensor] = [x]
    for i in range(min(abs(n), 4)):
        layers.append((layers[-1] @ layers[0].t() @ layers[0]).tanh())
    return weft.stack(layers).sum(0)


def residual(x: Tensor, n: int) -> Tensor:
    for i in range(min(abs(n), 4)):
        y = F.layer_norm(x, [3])
        x = x + (F.relu(y) if i % 2 == 0 else F.gelu(y))
    return x


# ---- decided by values
def clipped(x: Tensor, most: float) -> Tensor:
    most = abs(most) + 0.1
    norm = (x * x).sum().sqrt()
    if norm > most:
        x = x * (most / norm)
    return x


def until_small(x: Tensor) -> Tensor:
    steps = 0
    while x.abs().max() > 0.3:
        x = x * 0.5
        steps += 1
        if steps > 20:
            break
    return x + steps


def sign_of_each(x: Tensor) -> Tensor:
    total = weft.zeros(())
    for row in x:
        for v in row:
            if v > 0:
                total = total + v
            elif v < -1:
                total = total - v * 2
            else:
                total = total * 0.5
    return total


def largest_row(x: Tensor) -> Tensor:
    best = x[0]
    for i in range(1, x.size(0)):
        if x[i].sum() > best.sum():
            best = x[i]
    return best * 2


def first_positive(x: Tensor) -> Tensor:
    for row in x:
        if bool((row > 0).all()):
            return row * 3
    return x.sum(0)


def line_search(x: Tensor) -> Tensor:
    step = 1.0
    best = (x * x).sum()
    for _ in range(6):
        y = x - step * 2 * x.sin()
        if (y * y).sum() < best:
            return y
        step = step / 2
    return x


def adaptive(x: Tensor, n: int) -> Tensor:
    h = 0.5
    t = 0.0
    steps = 0
    while t < 1.0 and steps < 12:
        change = x.cos() * h
        if float(change.abs().max()) > 0.3:
            h *= 0.5
        else:
            x = x + change
            t += h
            h *= 1.5
        steps += 1
    return x * steps


def nested_decisions(x: Tensor, y: Tensor) -> Tensor:
    if x.mean() > 0:
        if y.mean() > 0:
            z = x * y
        else:
            z = x - y
            if bool((z > 1).any()):
                z = z.clamp(max=1.0)
    elif x.sum() > y.sum():
        z = y.exp()
    else:
        z = x.tanh() + y
    return z


def early_result(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x * 1.2 + 0.1
        if x.abs().sum() > 12:
            return x / (i + 1)
        if i == 7:
            break
    else:
        return x - 1
    return x * 10


def masked(x: Tensor, n: int) -> Tensor:
    for i in range(n % 4):
        mask = x > i * 0.3
        x = weft.where(mask, x * 0.5, x + 0.1)
    return x


def escape(x: Tensor) -> Tensor:
    z = x * 0
    count = weft.zeros_like(x)
    for _ in range(6):
        z = z * z + x
        inside = z.abs() < 2
        count = count + inside
        z = weft.where(inside, z, weft.ones_like(z))
        if not bool(inside.any()):
            break
    return z + count


def counted_steps(x: Tensor, y: Tensor):
    n = int(x.abs().sum())
    for i in range(n):
        y = y + i
        if i > 4:
            break
    return y, n


def sums_to_numbers(x: Tensor) -> Tensor:
    found: List[float] = []
    for row in x:
        found.append(float(row.detach().sum()))
    if found[0] > found[1]:
        return x * max(found)
    return x + min(found)


def sorted_rows(x: Tensor) -> Tensor:
    values: List[Tensor] = []
    for row in x:
        ordered, places = row.sort()
        values.append(ordered if int(places[0]) != 0 else ordered.flip(0))
    return weft.stack(values)


def at_most(x: Tensor, n: int) -> Tensor:
    picked = weft.zeros(())
    left = x.reshape(-1)
    for _ in range(min(abs(n), 4)):
        at = int(left.argmax())
        picked = picked + left[at]
        left = weft.cat([left[:at], left[at + 1 :]])
    return picked


# ---- writes
def written_rows(x: Tensor, n: int) -> Tensor:
    y = x * 1
    for i in range(y.size(0)):
        if i == n % 2:
            y[i] = y[i] * 2
        else:
            y[i, 0] += 3
    return y


def written_diagonal(x: Tensor, n: int) -> Tensor:
    y = weft.zeros(3, 3)
    for i in range(3):
        for j in range(3):
            if i == j:
                y[i, j] = x[i % 2, j]
            elif i < j:
                y[i, j] = n
    return y @ x.t()


def accumulated(x: Tensor, n: int) -> Tensor:
    total = weft.zeros_like(x)
    for i in range(n):
        total.add_(x, alpha=i)
        if i == 4:
            total.mul_(0.5)
    return total * x


def through_a_view(x: Tensor, n: int) -> Tensor:
    y = x * 1
    row = y[n % 2]
    for i in range(3):
        if i != 1:
            row += i
    return y * row


def triangle(x: Tensor) -> Tensor:
    y = x.clone()
    for i in range(1, y.size(1)):
        y[:, i] = y[:, i] + y[:, i - 1] * 0.5
    return y


def filled_where(x: Tensor, v: float) -> Tensor:
    y = x * 2
    if v > 0:
        y[y < 0] = v
    else:
        y.masked_fill_(y > 1, v)
    return y


def cumulative(x: Tensor) -> Tensor:
    y = weft.empty(2, 3)
    for i in range(2):
        total = weft.zeros(())
        for j in range(3):
            total = total + x[i, j]
            y[i, j] = total
    return y


# ---- tensors in containers
def by_name(x: Tensor, n: int) -> Tensor:
    parts: Dict[str, Tensor] = {"a": x, "b": x * 2}
    for i in range(min(abs(n), 3)):
        key = "a" if i % 2 == 0 else "b"
        parts[key] = parts[key] + i
        if key not in parts:
            parts["c"] = x
    return parts["a"] * parts["b"]


def stack_machine(x: Tensor, n: int) -> Tensor:
    stack: List[Tensor] = [x, x + 1]
    for op in ["mul", "dup", "add", "dup", "sub"]:
        if op == "dup":
            stack.append(stack[-1])
        else:
            b, a = stack.pop(), stack.pop() if len(stack) > 0 else x
            if op == "mul":
                stack.append(a * b)
            elif op == "add":
                stack.append(a + b * n)
            else:
                stack.append(a - b * 2)
    return stack[-1]


def carried_pair(x: Tensor, n: int) -> Tensor:
    pair = (x, x * 0)
    for i in range(n):
        pair = (pair[1] + x, pair[0] * 0.5)
        if i > 3:
            break
    a, b = pair
    return a - b


def perhaps(x: Tensor, n: int) -> Tensor:
    kept: Optional[Tensor] = None
    for i in range(n):
        if kept is None:
            kept = x * i
        elif i % 3 == 0:
            kept = kept + x
    if kept is None:
        return x
    return kept * 2


def optional_weight(x: Tensor, w: Optional[Tensor] = None, k: int | None = None) -> Tensor:
    if w is not None and k is not None:
        return x * w * k
    if w is None:
        x = x + 1
    else:
        x = x - w
    return x if k is None else x * k


def windows(x: Tensor, n: int) -> Tensor:
    y = x.reshape(-1)
    width = n % 3 + 1
    best = y[:width].sum()
    for i in range(1, y.numel() - width + 1):
        window = y[i : i + width].sum()
        best = weft.maximum(best, window)
    return best


def matrix_by_hand(x: Tensor, y: Tensor) -> Tensor:
    rows: List[Tensor] = []
    for i in range(x.size(0)):
        row: List[Tensor] = []
        for j in range(y.size(0)):
            total = weft.zeros(())
            for k in range(x.size(1)):
                total = total + x[i, k] * y[j, k]
            row.append(total)
        rows.append(weft.stack(row))
    return weft.stack(rows)


def attention(x: Tensor, y: Tensor) -> Tensor:
    out: List[Tensor] = []
    for q in x:
        weights = F.softmax((y * q).sum(1), dim=0)
        mixed = weft.zeros_like(q)
        for i in range(y.size(0)):
            mixed = mixed + weights[i] * y[i]
        out.append(mixed)
    return weft.stack(out)


def helper(x: Tensor, n: int) -> Tensor:
    if n <= 0:
        return x
    return x.sin() * n


def through_calls(x: Tensor, n: int) -> Tensor:
    for i in range(min(abs(n), 4)):
        x = helper(x, i - 1) + helper(x, 2)
    return x


def without_gradients(x: Tensor, n: int) -> Tensor:
    total = x * 1
    for i in range(n):
        with weft.no_grad():
            scale = total.abs().mean()
        total = total * 0.9 + (x / (scale + 1) if i % 2 else x * 0.1)
    return total


def detached_teacher(x: Tensor, n: int) -> Tensor:
    teacher = x
    for i in range(n):
        teacher = (teacher * 0.5).detach() if i == 1 else teacher + x
    return teacher * x


def half_and_double(x: Tensor, flag: bool) -> Tensor:
    y = x.double() if flag else x
    for _ in range(2):
        if y.dtype == weft.float64:
            y = y * 2
        else:
            y = y / 2
    return y.to(weft.float32)


def polynomial(x: Tensor, ws: list[float]) -> Tensor:
    total = weft.zeros_like(x)
    power = weft.ones_like(x)
    for i, w in enumerate(ws):
        if w < 0 and i > 0:
            continue
        total = total + w * power
        power = power * x
    return total


def losses_by_name(x: Tensor, y: Tensor, name: str) -> Tensor:
    if len(name) == 0:
        loss = F.mse_loss(x, y)
    elif name[0] < "m":
        loss = F.smooth_l1_loss(x, y)
    else:
        loss = (x - y).abs().mean()
        for c in name:
            loss = loss + ord(c) * 0.001 * (x * y).mean()
    return loss


def dropped(x: Tensor, n: int) -> Tensor:
    kept = [i for i in range(3) if i != n % 3]
    total = x[:, kept[0]] * 0
    for i in kept:
        total = total + x[:, i] ** (i + 1)
    return total


def last_value_of_the_loop(x: Tensor, n: int) -> Tensor:
    y = x
    i = 0
    while i < 3:
        z = y * i
        i += 1
        if n > i:
            y = z + x
    return y * i


def never_entered(x: Tensor) -> Tensor:
    y = x * 2
    for row in x[:0]:
        y = y + row
    while y.numel() == 0:
        y = y * 2
    return y


def repeated_results(x: Tensor, flag: bool):
    y = x * 2
    if flag:
        z = y
    else:
        z = x
    return y, z, y, x


def log_sum(x: Tensor) -> Tensor:
    most = x[0]
    for row in x:
        most = weft.maximum(most, row)
    total = weft.zeros_like(most)
    for row in x:
        total = total + (row - most).exp()
    return most + total.log()
