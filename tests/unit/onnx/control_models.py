"""Scripted functions whose branches and loops hang on tensors: each is exported with If or Loop."""
# ruff: noqa: B007, SIM108  (branches and loops as people write them)

from __future__ import annotations

import weft
from weft import Tensor
from weft.nn import functional as F


def choice(x: Tensor):
    return x * 2 if bool(x.sum() > 0) else x - 1


def choice_of_pairs(x: Tensor):
    a, b = (x, x + 1) if bool(x[0, 0] > 0) else (-x, x * x)
    return a * b, b


def choice_of_dtypes(x: Tensor):
    if bool(x.max() > 1):
        mask, count = x > 0, (x > 0).sum()
    else:
        mask, count = x < 0, (x < 0).sum()
    return mask, count, x * mask


def three_ways(x: Tensor):
    total = x.sum()
    if bool(total > 2):
        y = x.relu()
    elif bool(total > 0):
        y = x.tanh()
    else:
        y = x.sigmoid()
    return y + 1


def nested_choice(x: Tensor):
    if bool(x.mean() > 0):
        if bool(x.max() > 1):
            y = x / x.max()
        else:
            y = x + 3
    else:
        y = x.abs()
    return y


def choice_without_else(x: Tensor):
    y = x.exp()
    if bool(x.min() < 0):
        y = y + x.min()
    return y


def choice_and(x: Tensor):
    if bool(x.max() > 1) and bool(x.min() < -1):
        x = x.clamp(-1, 1)
    return x


def choice_or(x: Tensor):
    if bool(x[0, 0] > 0) or not bool(x[0, 1] > 0):
        x = x.flip(0)
    return x


def choice_writes(x: Tensor):
    y = x.clone()
    if bool(x.sum() > 0):
        y[0] = 7.0
    else:
        y[:, 0] *= 2
    return y


def choice_of_sizes(x: Tensor):
    return x.sum(0) if bool(x.sum() > 0) else x.mean(0)


def choice_by_argmax(x: Tensor):
    if int(x.argmax()) % 2 == 0:
        return x.t()
    return x.t() * 2


def guarded_division(x: Tensor):
    norm = x.norm()
    if bool(norm == 0):
        return weft.zeros_like(x)
    return x / norm


def choice_of_numbers(x: Tensor):
    step = 0.5 if bool(x.var() > 1) else 2.0
    power = 2 if bool(x.sum() > 0) else 3
    return x * step + power


def choice_of_views(x: Tensor):
    y = x.clone()
    row = y[0] if bool(x.sum() > 0) else y[1]
    return row * 2, y


def choices_in_a_row(x: Tensor):
    if bool(x[0, 0] > 0):
        x = x + 1
    if bool(x[0, 1] > 0):
        x = x * 2
    if bool(x[1, 0] > 0):
        x = x - 3
    return x


def halve(x: Tensor):
    while bool(x.abs().max() > 0.1):
        x = x / 2
    return x


def halve_and_count(x: Tensor):
    count = 0
    while bool(x.norm() > 0.5):
        x = x * 0.5
        count += 1
    return x, count


def bounded_while(x: Tensor):
    steps = 0
    while bool(x.sum() < 100) and steps < 12:
        x = x.abs() * 1.5 + 0.1
        steps += 1
    return x, steps


def square_root(x: Tensor):
    target, guess = x.abs() + 1, x.abs() + 1
    while bool((guess * guess - target).abs().max() > 1e-3):
        guess = (guess + target / guess) / 2
    return guess


def power_iteration(x: Tensor):
    a = x @ x.t() + weft.eye(2)
    v = weft.ones(2)
    for i in range(int(x.abs().sum()) + 3):
        v = a @ v
        v = v / v.norm()
    return v


def fibonacci(x: Tensor):
    a, b = weft.zeros_like(x), weft.ones_like(x)
    for i in range(int(x.abs().sum() * 2)):
        a, b = b, a + b
    return a


def powers(x: Tensor):
    total, power = weft.ones_like(x), weft.ones_like(x)
    for i in range(int(x.abs().max() * 3)):
        power = power * x / (i + 1)
        total = total + power
    return total


def rows_by_index(x: Tensor):
    total = weft.zeros(3)
    for i in range(x.size(0)):
        total = total + x[i] * i
    return total


def running_maximum(x: Tensor):
    best = x[0]
    for i in range(x.size(0)):
        best = weft.maximum(best, x[i])
    return best


def alternating(x: Tensor):
    total = x[0] * 0
    for i in range(x.size(0)):
        if i % 2 == 0:
            total = total + x[i]
        else:
            total = total - x[i]
    return total


def stops_early(x: Tensor):
    total = x.sum() * 0
    for i in range(x.size(0)):
        if bool(x[i].sum() > 1):
            break
        total = total + x[i].sum()
    return total


def skips(x: Tensor):
    total = x.sum() * 0
    for i in range(x.size(0)):
        if bool(x[i, 0] < 0):
            continue
        total = total + x[i].sum()
    return total


def returns_from_a_loop(x: Tensor):
    for i in range(x.size(0)):
        if bool(x[i].max() > 1):
            return x[i] * 10
    return x[0] * 0


def bubble_pass(x: Tensor):
    y = x.sum(0)
    for i in range(2):
        if bool(y[i] > y[i + 1]):
            held = y[i].clone()
            y[i] = y[i + 1]
            y[i + 1] = held
    return y


def writes_rows(x: Tensor):
    y = weft.zeros_like(x)
    for i in range(x.size(0)):
        y[i] = x[i] * (i + 1)
    return y


def reversed_rows(x: Tensor):
    y = x.clone()
    n = x.size(0)
    for i in range(n):
        y[i] = x[n - 1 - i]
    return y


def nested_sums(x: Tensor):
    total = x.sum() * 0
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            total = total + x[i, j] * (i - j)
    return total


def loop_in_a_branch(x: Tensor):
    if bool(x.sum() > 0):
        while bool(x.sum() > 0.5):
            x = x * 0.5
    else:
        x = -x
    return x


def branch_in_a_while(x: Tensor):
    i = 0
    while i < 6:
        x = x * 0.5 if bool(x.abs().max() > 1) else x + 0.25
        i += 2
    return x


def collatz_of_a_sum(x: Tensor):
    n, steps = int(x.abs().sum()) + 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return x * steps, n


def greatest_common_divisor(x: Tensor):
    a, b = int(x.abs().sum() * 10) + 1, 12
    while b > 0:
        a, b = b, a % b
    return x * a


def bisection(x: Tensor):
    target = x.abs().mean()
    low, high = target * 0, target * 0 + 4
    while bool(high - low > 1e-2):
        middle = (low + high) / 2
        if bool(middle * middle < target):
            low = middle
        else:
            high = middle
    return low


def flags(x: Tensor):
    going, count = True, 0
    while going:
        x = x / 2
        count += 1
        going = bool(x.abs().sum() > 0.5) and count < 9
    return x, going


def two_carried_dtypes(x: Tensor):
    counts = weft.zeros(3, dtype=weft.int64)
    total = weft.zeros(3)
    for i in range(x.size(0)):
        counts = counts + (x[i] > 0).long()
        total = total + x[i]
    return counts, total


def recurrent_cell(x: Tensor):
    h = weft.zeros(3)
    for i in range(x.size(0)):
        h = weft.tanh(x[i] + h * 0.5)
    return h


def gated_cell(x: Tensor):
    h, c = weft.zeros(3), weft.zeros(3)
    for i in range(x.size(0)):
        gate = weft.sigmoid(x[i] + h)
        c = gate * c + (1 - gate) * weft.tanh(x[i])
        h = gate * weft.tanh(c)
    return h, c


def softmax_steps(x: Tensor):
    while bool(x.max() > 0.6):
        x = F.softmax(x, 1) * 0.9
    return x


def normalised(x: Tensor):
    for i in range(int(x.abs().max()) + 1):
        x = F.layer_norm(x, [3]) + x * 0.1
    return x


def matrix_power(x: Tensor):
    a, product = x.t() @ x * 0.1, weft.eye(3)
    n = int(x.abs().sum()) + 2
    while n > 0:
        if n % 2 == 1:
            product = product @ a
        a = a @ a
        n = n // 2
    return product


def slices_by_index(x: Tensor):
    total = x[:, :1] * 0
    for i in range(x.size(1)):
        total = total + x[:, i : i + 1]
    return total


def greedy(x: Tensor):
    place, total = 0, x.sum() * 0
    for i in range(x.size(0)):
        place = int(x[i].argmax())
        total = total + x[i, place]
    return total, place


def countdown(x: Tensor):
    for i in range(int(x.abs().sum()), 0, -1):
        x = x + i
    return x


def stepped(x: Tensor):
    for i in range(1, int(x.abs().sum()) + 2, 2):
        x = x * 0.5 + i
    return x


def raises_otherwise(x: Tensor):
    if bool(x.sum() > 1e6):
        raise ValueError("too large")
    while bool(x.max() > 1):
        x = x - 1
    return x


CONTROL = [f for n, f in list(globals().items()) if callable(f) and getattr(f, "__module__", "") == __name__]
