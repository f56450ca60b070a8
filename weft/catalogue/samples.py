"""Inputs that entries give to the generated tests:
`samples=draw(case(F(3, 4), 1), case(F(2, 3), -1, keepdim=True))`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Random = np.random.Generator
else:
    Random = Any  # numpy loads its random module when first asked, and `import weft` draws nothing

Case = tuple[tuple[Any, ...], dict[str, Any]]
Samples = Callable[[Random], list[Case]]


@dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """A tensor to be drawn: kind "float", "positive", "index" (below `high`), "bool", "complex", "definite"
    (a symmetric positive definite matrix)."""

    kind: str
    dims: tuple[int, ...]
    high: int = 0

    def draw(self, rng: Random) -> np.ndarray[Any, Any]:
        return _DRAW[self.kind](rng, self)


_DRAW: dict[str, Callable[[Random, Drawn], np.ndarray[Any, Any]]] = {
    "float": lambda rng, d: np.asarray(rng.uniform(-2, 2, d.dims)),
    "positive": lambda rng, d: np.asarray(rng.uniform(0.1, 0.9, d.dims)),
    "index": lambda rng, d: np.asarray(rng.integers(0, d.high, d.dims)),
    "bool": lambda rng, d: np.asarray(rng.uniform(-1, 1, d.dims) > 0),
    "complex": lambda rng, d: rng.uniform(-2, 2, d.dims) + 1j * rng.uniform(-2, 2, d.dims),
    "definite": lambda rng, d: _definite(rng, d.dims),
}


def _definite(rng: Random, dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    root = rng.uniform(-1, 1, dims)
    return np.asarray(root @ np.swapaxes(root, -2, -1) + 2 * np.eye(dims[-1]))


def F(*dims: int) -> Drawn:
    """Floats in [-2, 2]."""
    return Drawn("float", dims)


def P(*dims: int) -> Drawn:
    """Floats in [0.1, 0.9]."""
    return Drawn("positive", dims)


def I(*dims: int, high: int) -> Drawn:  # noqa: E743  the field's letter for an index
    """Integers in [0, high)."""
    return Drawn("index", dims, high)


def B(*dims: int) -> Drawn:
    """True or False."""
    return Drawn("bool", dims)


def D(*dims: int) -> Drawn:
    """Positive definite matrices."""
    return Drawn("definite", dims)


def case(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """One call: drawn tensors and plain values."""
    return args, kwargs


def draw(*cases: tuple[tuple[Any, ...], dict[str, Any]]) -> Samples:
    """The `samples` of an entry, from its cases."""

    def samples(rng: Random) -> list[Case]:
        return [(_drawn(args, rng), {k: _drawn_value(v, rng) for k, v in kwargs.items()}) for args, kwargs in cases]

    return samples


def _drawn(values: tuple[Any, ...], rng: Random) -> tuple[Any, ...]:
    return tuple(_drawn_value(v, rng) for v in values)


def _drawn_value(value: Any, rng: Random) -> Any:
    if isinstance(value, Drawn):
        return value.draw(rng)
    return _drawn(value, rng) if isinstance(value, tuple) else value
