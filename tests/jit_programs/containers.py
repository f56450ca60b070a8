# ruff: noqa: RUF005, RUF059, UP006, UP031, UP035, UP045, B905  (programs as people write them)
"""Programs with lists, tuples, dicts and texts."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

import weft
from weft import Tensor


class Point(NamedTuple):
    x: int
    y: float


def built(n: int) -> list[int]:
    out: list[int] = []
    for i in range(n):
        out.append(i * i)
    return out


def list_methods(n: int):
    a = [3, 1, 2]
    a.append(n)
    a.extend([5, 6])
    a.insert(1, 9)
    b = a.copy()
    b.sort()
    c = a.pop()
    d = a.pop(0)
    a.reverse()
    a.remove(9)
    return a, b, c, d, a.index(1), a.count(2), len(a), 5 in a, 17 not in a


def aliases(n: int):
    a = [1, 2]
    b = a
    b.append(n)
    a += [7]
    return a, b, len(b)


def slices(n: int):
    a = [0, 1, 2, 3, 4, 5]
    a[1:3] = [n]
    del a[0]
    return a, a[1:], a[:-1], a[::2], a[::-1], a[-1], a[1:3]


def list_arithmetic(n: int):
    return (
        [1, 2] + [n],
        [0] * 3,
        [n] * 2 + [1],
        [1, n] == [1, 2],
        [n] != [1],
        sorted([3, n, 1]),
        sorted([3, 1], reverse=True),
    )


def comprehensions(n: int):
    a = [i * 2 for i in range(abs(n))]
    b = [x + 1 for x in a if x % 4 == 0]
    c = [x * y for x in [1, 2] for y in [3, n]]
    return a, b, c, {str(i): i for i in range(3)}


def tuples(a: int, x: float):
    pair = (a, x)
    first, second = pair
    nested = (pair, (first, "text"))
    (p, q), (r, s) = nested
    head, *rest = (1, 2, 3)
    return pair, nested, p + r, q, s, head, rest[0], pair[0], pair[-1], len(nested)


def named(a: int, x: float):
    p = Point(a, x)
    q = Point(y=2.0, x=3)
    return p.x + q.x, p.y * q.y, p[0]


def dicts(n: int):
    d = {"a": 1, "b": n}
    d["c"] = 5
    e: Dict[str, int] = {}
    for key in d:
        e[key] = d[key] * 2
    for key, value in d.items():
        e[key + key] = value
    del d["a"]
    return d, e, "b" in d, "z" in d, len(e), d.get("b", 0), d.get("q", -1), list(d.values()), d.pop("c")


def dict_loop(n: int) -> int:
    counts: dict[int, int] = {}
    for i in range(abs(n) * 3):
        k = i % 4
        if k in counts:
            counts[k] += 1
        else:
            counts[k] = 1
    total = 0
    for k in counts:
        total = total * 10 + counts[k]
    return total


def texts(n: int):
    s = "Hello, World"
    t = s.lower().replace("o", "0").split(", ")
    return (
        s.upper(),
        t,
        s[0],
        s[-3:],
        s.find("World"),
        len(s),
        "lo" in s,
        s.startswith("He"),
        "-".join(["a", "b"]),
        s * 2,
        s + "!",
        f"{n} and {n + 0.5:.2f}",
        "{} {}".format(n, "x"),
        "%d items" % n,
        s.count("l"),
        " a ".strip(),
        s < "I",
        "x".zfill(3),
    )


def characters(s: str) -> int:
    total = 0
    for i, c in enumerate(s):
        total += ord(c) * (i + 1)
    return total


def zipped(n: int):
    out: list[int] = []
    for a, b in zip([1, 2, 3], [n, n + 1]):
        out.append(a * b)
    for i, (a, b) in enumerate(zip(range(3), [5, 6, 7]), 1):
        out.append(i * a + b)
    return out


def empty_elements(n: int):
    d: Dict[str, List[int]] = {"b": [n]}
    d["a"] = []
    d["a"].append(n)
    rows: List[List[int]] = [[1]]
    rows[0] = []
    rows.append([])
    return d, rows


def optional_argument(x: Tensor, y: Tensor | None = None) -> Tensor:
    if y is None:
        return x * 2
    return x + y


def optional_in_loop(n: int) -> int:
    best: Optional[int] = None
    for i in range(n):
        if best is None:
            best = i * 2
        elif best < 5:
            best = best + 3
    if best is not None:
        return best
    return -1


def optional_and(n: Optional[int]) -> int:
    if n is not None and n > 2:
        return n
    if n is None or n < 0:
        return 0
    return n * 10


def list_of_tensors(x: Tensor, n: int) -> Tensor:
    parts: List[Tensor] = []
    for i in range(abs(n) + 1):
        parts.append(x * i)
    return weft.stack(parts).sum(0) + weft.cat(parts)[0]


def lists_in_lists(n: int):
    rows: list[list[int]] = []
    for i in range(3):
        row: list[int] = []
        for j in range(i):
            row.append(i * j + n)
        rows.append(row)
    rows[1][0] = 42
    return rows, [len(r) for r in rows]


def tuple_results(x: Tensor) -> Tuple[Tensor, int]:
    return x * 2, x.dim()


def uses_tuple_results(x: Tensor):
    y, d = tuple_results(x)
    both = tuple_results(y)
    return both[0] + d


def written_argument(items: list[int]) -> int:
    items.append(3)
    items[0] = 7
    return len(items)


def sums(xs: list[float]) -> float:
    total = 0.0
    for x in xs:
        total += x
    if len(xs) > 0:
        total = total / len(xs) + max(xs) - min(xs)
    return total
