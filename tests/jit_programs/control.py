# ruff: noqa: B007, SIM108  (programs as people write them)
"""Programs with branches and loops."""

from __future__ import annotations

import weft
from weft import Tensor


def absolute(x: int) -> int:
    if x < 0:
        return -x
    return x


def sign(x: float):
    if x > 0:
        result = 1
    elif x < 0:
        result = -1
    else:
        result = 0
    return result


def early_in_both(x: Tensor, n: int):
    if n > 3:
        if n > 6:
            return x * 2
        y = x + 1
    else:
        y = x - 1
    return y * n


def nested_returns(a: int, b: int, c: int) -> int:
    if a > 0:
        if b > 0:
            return 1
        elif c > 0:
            return 2
        a = a + b
    else:
        if b > 0:
            if c > 0:
                return 3
            b = b - c
    return a * 100 + b * 10 + c


def return_from_loop(x: Tensor, n: int):
    for i in range(n):
        x = x * 1.5
        if i == 2:
            return x - 100
    return x


def return_from_nested_loops(n: int, m: int) -> int:
    total = 0
    for i in range(n):
        for j in range(m):
            total += i * j
            if total > 7:
                return total * 1000 + i * 10 + j
        total += 1
    return total


def break_and_continue(n: int) -> int:
    total = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        if i > 7:
            break
        total += i
    return total


def continue_in_while(n: int) -> int:
    i = 0
    total = 0
    while i < n:
        i += 1
        if i % 2 == 0:
            continue
        if i == 7:
            total += 100
            continue
        total += i
    return total


def deep_break(n: int) -> int:
    total = 0
    for i in range(n):
        if i > 1:
            if i % 2 == 0:
                total += 10
                if i > 4:
                    break
            else:
                if i == 3:
                    continue
                total += 1
            total += 1000
        total += 100000
    return total


def while_true(n: int) -> int:
    count = 0
    while True:
        count += 2
        if count > n:
            break
    return count


def while_true_returns(n: int) -> int:
    count = 0
    while True:
        count += 3
        if count > n:
            return count


def no_steps(x: Tensor) -> Tensor:
    for _ in range(-3):
        x = x * 0
    while False:
        x = x * 0
    return x


def ranges(a: int, b: int, c: int) -> int:
    total = 0
    step = c if c != 0 else 1
    for i in range(a, b, step):
        total = total * 3 + i
    for i in range(b, a):
        total -= i
    return total


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def collatz(n: int) -> int:
    n = abs(n) + 1
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def ternary_chain(x: int) -> str:
    return "low" if x < -2 else "middle" if x < 3 else "high"


def short_circuit(n: int) -> int:
    items = [3, 1, 2]
    found = 0
    i = 0
    while i < len(items) and items[i] != n:
        i += 1
    if i < len(items) or n > 100:
        found = 1
    return found * 10 + i


def chained(a: int, b: int, c: int) -> int:
    n = 0
    if a < b < c:
        n += 1
    if a <= b > c:
        n += 10
    if a == b != c < 4:
        n += 100
    if not a < b <= c:
        n += 1000
    return n


def loop_over_tensor_rows(x: Tensor) -> Tensor:
    total = x[0] * 0
    for row in x:
        total = total * 0.5 + row
    return total


def condition_of_tensor(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x * 2
    else:
        y = x * 3
    while y.abs().sum() > 1:
        y = y / 2
    return y


def value_or_value(a: int, b: int) -> int:
    c = a or b
    d = a and b
    return c * 100 + d


def unrolled_tuple(x: Tensor) -> Tensor:
    for factor in (1.0, 2.0, 3.0):
        x = x * factor
        if factor == 2.0:
            continue
        x = x + 1
    return x


def unrolled_break(x: Tensor, n: int) -> Tensor:
    for k in (1, 2, 3, 4):
        if k == n:
            break
        x = x + k
    return x * 2


def unrolled_return(x: Tensor, n: int) -> Tensor:
    for k in (1, 2, 3, 4):
        if k == n:
            return x - k
        x = x + k
    return x * 2


def assertion(n: int) -> int:
    assert n < 100, "too large"
    return n + 1


def only_raises(n: int) -> int:
    if n > 50:
        raise ValueError("large")
    else:
        return n


def shadowed_by_loop(n: int) -> int:
    i = 5
    for i in range(n):
        pass
    return i


def nothing(x: Tensor):
    x.sum()


def swapped(a: int, b: int, n: int) -> int:
    for i in range(n):
        if i % 2 == 0:
            a, b = b, a + 1
        else:
            b, a = a * 2, b
    return a * 1000 + b


def loops_in_branches(x: Tensor, n: int) -> Tensor:
    if n > 2:
        for i in range(n):
            x = x + i
    else:
        k = 0
        while k < 3:
            k += 1
            x = x * k
    return x


def nested_function_of_weft(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i % 2 == 0:
            x = weft.sin(x)
        else:
            x = weft.cos(x) * x
    return x
