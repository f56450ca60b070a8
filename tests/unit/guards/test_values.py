"""Strict comparison of guarded values."""

from __future__ import annotations

import enum

import numpy as np
import pytest

from weft.guards.values import number_kind, same

NAN = float("nan")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *((1, True), (0, False), (1, 1.0), (0.0, -0.0), (2.0, 2), ((1, 2.0), (1, 2)), ("1", b"1"), (1 + 0j, 1.0)),
        *((complex(0, -0.0), 0j), (frozenset({1}), frozenset({True})), (np.float32(1), np.float64(1))),
        *(((0.0,), (-0.0,)), ([1], [1]), (None, False)),
    ],
)
def test_different(old: object, new: object) -> None:
    assert not same(old, new)
    assert not same(new, old)


def test_equal_but_other_objects(rng: np.random.Generator) -> None:
    x, n = float(rng.normal()), int(rng.integers(10**6, 10**9))
    for make in (lambda: x * 3, lambda: n + 1, lambda: f"{n}", lambda: (n * 2, (x * 5, str(x))), lambda: float("nan")):
        assert same(make(), make())
    assert same(frozenset({n, str(n)}), frozenset({str(n), n}))
    assert same(np.float32(x), np.float32(x))
    assert same((NAN, complex(NAN, 1)), (float("nan"), complex(float("nan"), 1)))


def test_declared_classes_compare_by_equality() -> None:
    class Device:
        def __init__(self, name: str) -> None:
            self.name = name

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Device) and self.name == other.name

        __hash__ = None  # type: ignore[assignment]

    assert same(Device("cpu"), Device("cpu"), (Device,))
    assert not same(Device("cpu"), Device("meta"), (Device,))
    assert not same(Device("cpu"), Device("cpu"))


def test_number_kind() -> None:
    class Level(enum.IntEnum):
        LOW = 1

    assert [number_kind(v) for v in (3, 2.5, np.int32(1), np.float64(1.0))] == ["int", "float", "int", "float"]
    assert all(number_kind(v) is None for v in (True, None, "1", 1j, Level.LOW, np.bool_(True)))
