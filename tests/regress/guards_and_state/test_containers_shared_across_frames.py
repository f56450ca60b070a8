"""A list, dict or attribute that a compiled call writes and another method, property or hook of the same call reads: as
in eager mode over several calls, and no symbol stays on the object."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.symbols_left import symbols_left

WAYS: dict[str, Callable[[Any], Any]] = {
    "compiled": weft.compile, "split": lambda step: weft.compile(step, split=True),
}


class Assigned:
    def __init__(self) -> None:
        self.features: list[Any] = []

    def step(self, x: Any) -> Any:
        self.features = [x * 2]
        return self.read()

    def read(self) -> Any:
        return self.features[0] + 1


class Appended(Assigned):
    def step(self, x: Any) -> Any:
        self.features.append(x.sum())
        return self.read() + len(self.features)

    def read(self) -> Any:
        return self.features[-1] * 2


class Nested(Assigned):
    def __init__(self) -> None:
        super().__init__()
        self.table: dict[str, Any] = {}

    def step(self, x: Any) -> Any:
        self.table = {"rows": [[x * 3]], "n": 1}
        self.count()
        return self.read()

    def count(self) -> None:
        self.table["n"] += 1
        self.table["rows"][0].append(self.table["rows"][0][0] * 2)

    def read(self) -> Any:
        return self.table["rows"][0][1] * self.table["n"]


class Added(Assigned):
    """Reading an item of a defaultdict adds it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, list[Any]] = collections.defaultdict(list)

    def step(self, x: Any) -> Any:
        self.groups["h"] = [x]
        return self.read() + x

    def read(self) -> Any:
        return len(self.groups["g"]) + self.groups["h"][0]


class Reversed(Assigned):
    """One item, counted from the end and from the start."""

    def __init__(self) -> None:
        super().__init__()
        self.features = [weft.ones(1), weft.ones(1) * 2]

    def step(self, x: Any) -> Any:
        self.features.reverse()
        out = self.read() + x
        self.features[:] = [f * 2 for f in self.features]
        return out

    def read(self) -> Any:
        return self.features[-1] if self.features else 0


class Property(Assigned):
    """Looking at the frames that run asks no property."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    @property
    def value(self) -> Any:
        self.asked += 1
        return self.features[0]

    @value.setter
    def value(self, v: Any) -> None:
        self.features = [v]

    def step(self, x: Any) -> Any:
        self.value = x * 2
        return self.value + 1


def plain(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Assigned, Appended, Nested, Added, Reversed, Property])
def test_calls_are_as_eager(kind: type[Assigned], way: str) -> None:
    eager, object_ = kind(), kind()
    step = WAYS[way](object_.step)
    for size in (2, 3, 3, 5):
        x = weft.linspace(1, 2, size)
        assert step(x).tolist() == eager.step(x).tolist()
        assert not symbols_left(object_)
        assert plain(vars(object_)) == plain(vars(eager))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_call_that_ends_in_between_leaves_nothing(error: type[BaseException]) -> None:
    class Stopping(Nested):
        def read(self) -> Any:
            raise error("stopped")

    object_ = Stopping()
    with pytest.raises(error):
        weft.compile(object_.step)(weft.ones(2))
    assert object_.table == {} and not symbols_left(object_)
