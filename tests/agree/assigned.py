"""Random steps that assign to what existed before the call: attributes, items of dicts and lists, globals, flags,
words, None, windows; aliases among them."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

READ = ("h.a", "h.b", "d['x']", "d['y']", "rows[0]", "rows[1]", "h.pair[0]", "h.pair[1]", "kept", "x", "y",
        "getattr(h, 'newa', x)", "getattr(h, 'newb', y)")  # fmt: skip
WRITTEN = ("h.a", "h.b", "d['x']", "d['y']", "rows[0]", "rows[1]", "kept")


class Holder:
    """An object older than the calls."""


@dataclass
class Assigning:
    """The source of `step(x, y, at)`, whose state has the names in `fresh_state`."""

    lines: list[str]
    name: str

    def make(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """The step, and the names that it knows."""
        source = "\n".join([
            "def step(x, y, at):", "    global kept", *("    " + line for line in self.lines),
            f"    return {' + '.join(READ)} + h.n * 0.01", "",
        ])
        names = fresh_state()
        linecache.cache[self.name] = (len(source), None, source.splitlines(True), self.name)
        exec(compile(source, self.name, "exec"), names)
        return names["step"], names


def fresh_state() -> dict[str, Any]:
    """The state before the first call."""
    h, start = Holder(), [weft.arange(3.0) * i / 10 for i in range(7)]
    h.a, h.b, h.pair = start[0], start[1], (start[2], start[2])  # type: ignore[attr-defined]
    h.flag, h.mode, h.n, h.maybe = False, "a", 0, None  # type: ignore[attr-defined]
    return {
        "weft": weft, "h": h, "d": {"x": start[3], "y": start[4]}, "rows": [start[5], start[5]], "kept": start[6],
        "window": [], "log": [],
    }


def draw_assigning(rng: np.random.Generator, length: int) -> Assigning:
    """A step of about so many statements, one of which fails where `at` is out of bounds."""
    lines = [_statement(rng) for _ in range(length)]
    lines.insert(int(rng.integers(length + 1)), f"{rng.choice(WRITTEN)} = x[at] * 0.5")
    return Assigning([part for line in lines for part in line.split("; ")], f"<assigned {rng.integers(10**9)}>")


def _statement(rng: np.random.Generator, deep: bool = False) -> str:
    p, q, s = rng.choice(READ), rng.choice(READ), rng.choice(WRITTEN)
    forms = [
        *[f"{s} = ({p} + {q}) * 0.5"] * 4, *[f"{s} = {p}"] * 2, f"{s} = {p}[:]", f"{s} = {p}.detach()",
        f"{s} += {p} * 0.1", f"{p}.mul_(0.5)", f"h.pair = ({p}, {q} * 0.5)", "h.pair = h.pair[::-1]",
        "h.flag = not h.flag", "h.mode = 'b' if h.mode == 'a' else 'a'", "h.n += 1",
        f"h.maybe = {p} * 1 if h.maybe is None else None", f"d['new'] = {p}", "d.pop('new', None)",
        f"log.append({p} * 2)", "h.n = 0", f"h.last = {p}",
        f"setattr(h, 'new' + h.mode, {p} * 0.5)", f"setattr(h, 'newa', {p})",
    ]
    if not deep:
        inner = _statement(rng, True).replace("; ", "; ")
        forms += [
            f"if h.flag: {inner}", f"if h.mode == 'a': {inner}", f"if h.maybe is not None: {s} = (h.maybe + {p}) * 0.5",
            f"if 'new' in d: {inner}",
        ]
        forms += [f"window.append({p} * 1); window[:] = window[-2:]; {s} = sum(window) * 0.3"]
    return str(rng.choice(forms))


def structure(names: dict[str, Any], arguments: list[Any]) -> Any:
    """What a program may hang on besides values: flags, keys, lengths, and which tensors are one or share memory."""
    tensors: list[Any] = list(arguments)
    shape = _shape_of({k: v for k, v in names.items() if k in ("h", "d", "rows", "kept", "window")}, tensors)
    objects: dict[int, int] = {}
    memory: dict[int, int] = {}
    seen = [
        (objects.setdefault(id(t), i), memory.setdefault(t.storage().address, i), t.storage_offset(), tuple(t.stride()))
        for i, t in enumerate(tensors)
    ]
    return shape, tuple(seen)


def _shape_of(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, weft.Tensor):
        tensors.append(value)
        return "tensor"
    if isinstance(value, Holder):
        return _shape_of({k: v for k, v in vars(value).items() if k != "n"}, tensors)
    if isinstance(value, dict):
        return tuple([(k, _shape_of(v, tensors)) for k, v in value.items()])
    return tuple([_shape_of(v, tensors) for v in value]) if isinstance(value, (list, tuple)) else value


def values(names: dict[str, Any], arguments: list[Any]) -> Any:
    """All that can be seen of the state and the arguments, as numbers, and as identities of tensors."""
    tensors: list[Any] = list(arguments)
    shape = _shape_of({k: v for k, v in names.items() if k in ("h", "d", "rows", "kept", "window", "log")}, tensors)
    first: dict[int, int] = {}
    return (
        shape, names["h"].n, [first.setdefault(id(t), i) for i, t in enumerate(tensors)], [t.tolist() for t in tensors]
    )
