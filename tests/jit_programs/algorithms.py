# ruff: noqa: B007, B905, UP006, UP035  (programs as people write them)
"""Programs on numbers, texts and containers as textbooks have them: searches, sieves, tables, parsers."""

from __future__ import annotations

from typing import Dict, List, Tuple


def greatest_divisor(a: int, b: int) -> int:
    a, b = abs(a), abs(b)
    while b != 0:
        a, b = b, a % b
    return a


def extended_divisor(a: int, b: int) -> Tuple[int, int, int]:
    x0, x1, y0, y1 = 1, 0, 0, 1
    while b != 0:
        q = a // b
        a, b = b, a - q * b
        x0, x1 = x1, x0 - q * x1
        y0, y1 = y1, y0 - q * y1
    return a, x0, y0


def sieve(n: int) -> List[int]:
    n = abs(n) * 3 + 2
    composite = [False] * (n + 1)
    primes: List[int] = []
    for i in range(2, n + 1):
        if composite[i]:
            continue
        primes.append(i)
        j = i * i
        while j <= n:
            composite[j] = True
            j += i
    return primes


def factors(n: int) -> List[int]:
    n = abs(n) * 7 + 2
    found: List[int] = []
    p = 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    if n > 1:
        found.append(n)
    return found


def modular_power(a: int, n: int) -> int:
    result = 1
    base = a % 97
    n = abs(n)
    while n:
        if n & 1:
            result = result * base % 97
        base = base * base % 97
        n >>= 1
    return result


def binary_search(items: List[int], n: int) -> int:
    items = sorted(items)
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < n:
            low = middle + 1
        else:
            high = middle
    return low


def bubble_sort(items: List[int]) -> List[int]:
    found = items.copy()
    for i in range(len(found)):
        swapped = False
        for j in range(len(found) - 1 - i):
            if found[j] > found[j + 1]:
                found[j], found[j + 1] = found[j + 1], found[j]
                swapped = True
        if not swapped:
            break
    return found


def insertion_sort(items: List[float]) -> List[float]:
    found: List[float] = []
    for v in items:
        at = len(found)
        while at > 0 and found[at - 1] > v:
            at -= 1
        found.insert(at, v)
    return found


def merged(a: List[int], b: List[int]) -> List[int]:
    a, b = sorted(a), sorted(b)
    i, j = 0, 0
    out: List[int] = []
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] <= b[j]):
            out.append(a[i])
            i += 1
        else:
            out.append(b[j])
            j += 1
    return out


def longest_increasing(items: List[int]) -> int:
    best: List[int] = []
    for i in range(len(items)):
        here = 1
        for j in range(i):
            if items[j] < items[i]:
                here = max(here, best[j] + 1)
        best.append(here)
    return max(best) if len(best) > 0 else 0


def largest_sum(items: List[int]) -> Tuple[int, int, int]:
    best, total, start = -1000, 0, 0
    left, right = 0, 0
    for i, v in enumerate(items):
        if total <= 0:
            total, start = v, i
        else:
            total += v
        if total > best:
            best, left, right = total, start, i
    return best, left, right


def knapsack(weights: List[int], n: int) -> int:
    room = abs(n) + 3
    best = [0] * (room + 1)
    for i, w in enumerate(weights):
        size = abs(w) + 1
        for space in range(room, size - 1, -1):
            best[space] = max(best[space], best[space - size] + i + 1)
    return best[room]


def distance(a: str, b: str) -> int:
    row = [j for j in range(len(b) + 1)]
    for i in range(len(a)):
        before = row[0]
        row[0] = i + 1
        for j in range(len(b)):
            cost = 0 if a[i] == b[j] else 1
            here = min(before + cost, row[j] + 1, row[j + 1] + 1)
            before = row[j + 1]
            row[j + 1] = here
    return row[-1]


def common_text(a: str, b: str) -> str:
    a, b = "x" + a + "yz", b + "xz"
    table = [[""] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                table[i + 1][j + 1] = table[i][j] + a[i]
            elif len(table[i][j + 1]) >= len(table[i + 1][j]):
                table[i + 1][j + 1] = table[i][j + 1]
            else:
                table[i + 1][j + 1] = table[i + 1][j]
    return table[-1][-1]


def brackets(n: int) -> bool:
    text = "[()]{}" if n > 2 else "[(])" if n > 0 else "(("
    pairs = {")": "(", "]": "[", "}": "{"}
    stack: List[str] = []
    for c in text:
        if c in pairs:
            if len(stack) == 0 or stack.pop() != pairs[c]:
                return False
        else:
            stack.append(c)
    return len(stack) == 0


def run_lengths(s: str) -> str:
    s = s + s[:1] + "aab"
    out = ""
    i = 0
    while i < len(s):
        j = i
        while j < len(s) and s[j] == s[i]:
            j += 1
        out += s[i] + (str(j - i) if j - i > 1 else "")
        i = j
    return out


def shifted_text(s: str, n: int) -> str:
    out: List[str] = []
    for c in s + "xyz, Q":
        if "a" <= c <= "z":
            out.append(chr((ord(c) - ord("a") + n) % 26 + ord("a")))
        elif c.isupper():
            out.append(c.lower())
        else:
            out.append(c)
    return "".join(out)


def roman(n: int) -> str:
    n = abs(n) * 37 + 4
    values = [100, 90, 50, 40, 10, 9, 5, 4, 1]
    names = ["C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"]
    text = ""
    for value, name in zip(values, names):
        while n >= value:
            text += name
            n -= value
    return text


def in_base(n: int, b: int) -> str:
    base = abs(b) % 15 + 2
    digits = "0123456789abcdefg"
    left = abs(n) * 1001
    if left == 0:
        return "0"
    text = ""
    while left > 0:
        left, digit = divmod(left, base)
        text = digits[digit] + text
    return "-" + text if n < 0 else text


def palindrome(s: str) -> bool:
    s = s + s[::-1] if len(s) % 2 else s + "ab"
    i, j = 0, len(s) - 1
    while i < j:
        if s[i] != s[j]:
            return False
        i += 1
        j -= 1
    return True


def word_counts(n: int) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for word in ("a b a c " * (abs(n) % 3 + 1)).split():
        if word == "c":
            continue
        counts[word] = counts.get(word, 0) + 1
    return counts


def two_that_sum(items: List[int], n: int) -> Tuple[int, int]:
    seen: Dict[int, int] = {}
    for i, v in enumerate(items):
        if n - v in seen:
            return seen[n - v], i
        seen[v] = i
    return -1, -1


def pascal(n: int) -> List[List[int]]:
    rows: List[List[int]] = [[1]]
    for i in range(n):
        last = rows[-1]
        row = [1]
        for j in range(len(last) - 1):
            row.append(last[j] + last[j + 1])
        row.append(1)
        rows.append(row)
    return rows


def spiral(n: int) -> List[int]:
    n = abs(n) % 4 + 1
    seen = [[False] * n for _ in range(n)]
    r, c, dr, dc = 0, 0, 0, 1
    out: List[int] = []
    while len(out) < n * n:
        out.append(r * n + c)
        seen[r][c] = True
        a, b = r + dr, c + dc
        if not (0 <= a < n and 0 <= b < n) or seen[a][b]:
            dr, dc = dc, -dr
        r, c = r + dr, c + dc
    return out


def reached(n: int) -> List[int]:
    edges = {0: [1, 2], 1: [3], 2: [3, 4], 3: [5], 4: [2], 5: [0], 6: [0]}
    start = abs(n) % 7
    queue = [start]
    far = {start: 0}
    while len(queue) > 0:
        here = queue.pop(0)
        for there in edges[here]:
            if there in far:
                continue
            far[there] = far[here] + 1
            queue.append(there)
    return [far.get(i, -1) for i in range(7)]


def queens(n: int) -> int:
    size = abs(n) % 4 + 2
    places: List[int] = [0]
    found = 0
    while len(places) > 0:
        row = len(places) - 1
        if places[row] == size:
            places.pop()
            if len(places) > 0:
                places[-1] += 1
            continue
        safe = True
        for r in range(row):
            if places[r] == places[row] or abs(places[r] - places[row]) == row - r:
                safe = False
                break
        if not safe:
            places[row] += 1
        elif row == size - 1:
            found += 1
            places[row] += 1
        else:
            places.append(0)
    return found


def next_order(items: List[int]) -> List[int]:
    a = items.copy()
    i = len(a) - 2
    while i >= 0 and a[i] >= a[i + 1]:
        i -= 1
    if i < 0:
        return sorted(a)
    j = len(a) - 1
    while a[j] <= a[i]:
        j -= 1
    a[i], a[j] = a[j], a[i]
    return a[: i + 1] + a[i + 1 :][::-1]


def life(n: int) -> List[str]:
    grid = [[(i * 3 + j * 5 + n) % 4 == 0 for j in range(4)] for i in range(4)]
    for _ in range(2):
        after: List[List[bool]] = []
        for i in range(4):
            row: List[bool] = []
            for j in range(4):
                count = 0
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        if (di != 0 or dj != 0) and grid[(i + di) % 4][(j + dj) % 4]:
                            count += 1
                row.append(count == 3 or (grid[i][j] and count == 2))
            after.append(row)
        grid = after
    return ["".join(["#" if c else "." for c in row]) for row in grid]


def calculator(a: int, b: int) -> int:
    text = f"{abs(a)} + {abs(b)} * 2 - 1"
    total, product, sign, times = 0, 1, 1, True
    for token in text.split(" "):
        if token.isdigit():
            product = product * int(token) if times else int(token)
        elif token == "*":
            times = True
            continue
        else:
            total += sign * product
            sign = 1 if token == "+" else -1
        times = False
    return total + sign * product


def bits_that_are_set(n: int) -> Tuple[int, int]:
    count, place = 0, -1
    n = n & 0xFFFF
    for i in range(16):
        if (n >> i) & 1 == 1:
            count += 1
            place = i
        elif count > 12:
            break
    return count, place


def digits_that_stay(n: int) -> int:
    n = abs(n) * 13 + 5
    steps = 0
    while n > 9:
        product = 1
        m = n
        while m > 0:
            product *= m % 10
            m //= 10
        n = product
        steps += 1
    return steps * 10 + n


def machine_code(n: int) -> List[int]:
    registers = [n, 0, 1]
    at = 0
    steps = 0
    program = [("add", 1, 2), ("dec", 0, 0), ("jump", 0, 0), ("add", 2, 1), ("halt", 0, 0)]
    while steps < 40:
        name, a, b = program[at]
        steps += 1
        if name == "add":
            registers[a] += registers[b]
        elif name == "dec":
            registers[a] -= 1
        elif name == "jump":
            if registers[a] > 0:
                at = b
                continue
        else:
            break
        at += 1
    return registers


def bisected(x: float) -> float:
    target = abs(x) + 1.0
    low, high = 0.0, target
    for _ in range(60):
        middle = (low + high) / 2
        if middle * middle > target:
            high = middle
        else:
            low = middle
        if high - low < 1e-12:
            break
    return low


def simpson(x: float, n: int) -> float:
    parts = 2 * (abs(n) + 1)
    h = x / parts
    total = 0.0
    for i in range(parts + 1):
        t = i * h
        weight = 1 if i == 0 or i == parts else 4 if i % 2 == 1 else 2
        total += weight * (t * t * t - 2 * t)
    return total * h / 3


def median(xs: List[float]) -> float:
    if len(xs) == 0:
        return 0.0
    ordered = sorted(xs)
    n = len(ordered)
    if n % 2 == 1:
        return ordered[n // 2]
    return (ordered[n // 2 - 1] + ordered[n // 2]) / 2


def interest(x: float, n: int) -> Tuple[float, int]:
    money = abs(x) + 1
    years = 0
    while money < 10 and years < 50:
        money *= 1.07
        if years % 5 == n % 5:
            money -= 0.2
        years += 1
    return money, years
