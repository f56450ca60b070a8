"""What a compiled function stores by other means than `object.name = value`, or on an object that it has not read, is
part of the program or refused: symbols stayed on frozen dataclasses, on tensors, in functions' defaults and behind
caches; an attribute of a result or of an argument was lost, and threading.local ended with TypeError."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import weft
from tests.symbols_left import symbols_left
from weft.guards import SideEffectError


@dataclass(frozen=True)
class Frozen:
    """An object that is written by object.__setattr__ alone."""

    value: Any


class Plain:
    """An object with attributes."""


def frozen() -> tuple[Any, Callable[[Any], None], Callable[[], Any]]:
    held = Frozen(weft.ones(()))
    return held, lambda v: object.__setattr__(held, "value", v), lambda: held.value


def tensor() -> tuple[Any, Callable[[Any], None], Callable[[], Any]]:
    held: Any = weft.ones(2)
    held.extra = weft.ones(())

    def put(v: Any) -> None:
        held.extra = v

    return held, put, lambda: held.extra


def local() -> tuple[Any, Callable[[Any], None], Callable[[], Any]]:
    held = threading.local()
    held.value = weft.ones(())

    def put(v: Any) -> None:
        held.value = v

    return held.__dict__, put, lambda: held.value


def whole_dict() -> tuple[Any, Callable[[Any], None], Callable[[], Any]]:
    held: Any = Plain()
    held.value = weft.ones(())

    def put(v: Any) -> None:
        held.__dict__ = {"value": v}

    return held, put, lambda: held.value


def defaults() -> tuple[Any, Callable[[Any], None], Callable[[], Any]]:
    def held(v: Any = weft.ones(())) -> Any:  # noqa: B008
        return v

    def put(v: Any) -> None:
        held.__defaults__ = (v,)

    return held, put, lambda: held()


def cache() -> tuple[Any, Callable[[Any], None], Callable[[], Any]]:
    store = [weft.ones(())]

    @functools.lru_cache
    def held(key: int) -> Any:
        return store[0]

    def put(v: Any) -> None:
        store[0] = v
        held.cache_clear()
        held(1)

    return (held, store), put, lambda: held(1)


PLACES = (frozen, tensor, local, whole_dict, defaults, cache)
REFUSED = (whole_dict, defaults, cache)


def written_first(put: Callable[[Any], None], get: Callable[[], Any], x: Any) -> Any:
    put((x * 2).sum())
    return x * get()


def read_first(put: Callable[[Any], None], get: Callable[[], Any], x: Any) -> Any:
    before = get()
    put((x * 2).sum() + before)
    return x * get()


@pytest.mark.parametrize("order", [written_first, read_first])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_what_is_stored(place: Callable[[], Any], order: Callable[..., Any]) -> None:
    (held, put, get), (_, plain_put, plain_get) = place(), place()
    step = weft.compile(lambda x: order(put, get, x))
    for n in (3, 3, 4, 5):
        x = weft.arange(float(n))
        expected = order(plain_put, plain_get, x)
        if place in REFUSED:
            with pytest.raises(SideEffectError):
                step(x)
            assert get().item() == 1.0
        else:
            assert step(x).tolist() == expected.tolist() and get().item() == plain_get().item()
        assert not symbols_left(held, get)


def test_another_class_is_refused() -> None:
    held: Any = Plain()
    other = type("Other", (), {})

    def step(x: weft.Tensor) -> weft.Tensor:
        held.__class__ = other
        return x * 2

    with pytest.raises(SideEffectError, match="__class__"):
        weft.compile(step)(weft.ones(2))
    assert type(held) is Plain


def test_attributes_of_results_and_arguments() -> None:
    def step(x: Any) -> Any:
        y = x * 2
        y.tag, x.seen = x + 1, True
        return y

    compiled = weft.compile(step)
    for n in (2, 2, 3):
        x: Any = weft.ones(n)
        y = compiled(x)
        assert y.tag.tolist() == [2.0] * n and x.seen
