"""A storage of any kind answers as a plain one does, or with an error of weft's: lazy and functional ones had no length
and no elements; a compiled function took an element for a constant, wrote one at its first call alone, and said that
the storages of two arguments have one address."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import CaptureError, Unsupported

SIZE = 6


def _row(device: str = "cpu") -> weft.Tensor:
    return weft.arange(float(SIZE), device=device) * 1


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "length": lambda x: len(x.storage()),
    "size": lambda x: (x.storage().size(), x.untyped_storage().size(), x.storage().nbytes),
    "element": lambda x: (x.storage()[1], x.storage()[-1], x.untyped_storage()[7]),
    "elements": lambda x: (x.storage().tolist(), x.untyped_storage()[4:12].tolist(), list(x.storage())),
    "element size": lambda x: (x.storage().element_size(), x.untyped_storage().element_size()),
    "copy": lambda x: copy.deepcopy(x.storage()).tolist() + copy.deepcopy(x.untyped_storage()).tolist(),
    "pickle": lambda x: pickle.loads(pickle.dumps(x.untyped_storage())).tolist(),
    "same": lambda x: x.untyped_storage() == x[1:].untyped_storage() == x.data.untyped_storage(),
    "address": lambda x: x.untyped_storage().data_ptr() == x[1:].untyped_storage().data_ptr(),
}
BYTES = ("element", "elements", "copy", "pickle")  # what asks for values
KINDS: dict[str, Callable[[], Any]] = {
    "lazy": lambda: _row("lazy"),
    "part of a lazy one": lambda: _row("lazy")[2:],
    "data": lambda: _row("lazy").data,
    "lazy matrix": lambda: _row("lazy").reshape(2, 3).t().contiguous().t().reshape(2, 3).t().clone(),
    "picked": lambda: (lambda row: row[row > -1])(_row("lazy")),
}


def asked_within(wrap: Callable[..., Any], question: Callable[[Any], Any]) -> list[Any]:
    """What a function learns of a tensor that it is given and of one that it makes."""
    answers: list[Any] = []

    def function(x: weft.Tensor) -> weft.Tensor:
        answers.extend([question(x), question(x * 1)])
        return x

    wrap(function)(_row())
    return answers


@pytest.mark.parametrize("name", QUESTIONS)
def test_lazy_storages_answer(name: str) -> None:
    question = QUESTIONS[name]
    for kind, make in KINDS.items():
        plain = weft.arange(float(SIZE))
        if kind == "lazy matrix":
            plain = plain.reshape(2, 3).t().contiguous().t().reshape(2, 3).t().clone()
        assert question(make()) == question(plain), kind


@pytest.mark.parametrize("name", QUESTIONS)
def test_storages_within_functions_answer(name: str) -> None:
    question = QUESTIONS[name]
    for wrap in (lambda f: weft.compile(f, split=True), weft.func.functionalize):
        assert asked_within(wrap, question) == [question(_row())] * 2


@pytest.mark.parametrize("name", QUESTIONS)
def test_storages_without_bytes_answer_or_refuse(name: str) -> None:
    question = QUESTIONS[name]
    meta = _row("meta")
    if name in BYTES:
        with pytest.raises(Unsupported, match="no data"):
            question(meta)
        with pytest.raises(CaptureError, match="a storage"):
            asked_within(weft.compile, question)
    else:
        assert question(meta) == question(_row())
    assert meta.untyped_storage().resize_(4).nbytes() == 4


def test_elements_are_written(rng: np.random.Generator) -> None:
    values = rng.integers(1, 9, 2)
    for device in ("cpu", "lazy"):
        x = (weft.arange(6.0, device=device) * 1).reshape(2, 3).t()
        part, version = x[1:], x._version
        x.storage()[1] = values[0]
        x.untyped_storage()[8:12] = 0
        x.data.storage()[4] = values[1]
        assert x.storage().tolist() == [0, values[0], 0, 3, values[1], 5]
        assert part.tolist() == [[values[0], values[1]], [0, 5]] and x._version == version + 2


def test_a_compiled_function_refuses_elements_of_storages() -> None:
    c, u = weft.ones(4), weft.UntypedStorage([1, 2])
    for function in (lambda x: x * c.storage()[1], lambda x: x * u[1], lambda x: [c.storage().__setitem__(0, 1), x][1]):
        with pytest.raises(CaptureError, match="a storage"):
            weft.compile(function)(weft.ones(4))
    assert c.tolist() == [1] * 4


def test_a_write_to_a_storage_comes_after_what_waits() -> None:
    """Split: an operator before it has read what was there."""
    c = weft.zeros(4)

    def step(x: weft.Tensor) -> weft.Tensor:
        y = c * 1
        c.storage()[0] = 100
        return y + x

    split = weft.compile(step, split=True)
    for n in range(3):
        c.zero_()
        assert split(weft.ones(4) * n).tolist() == [n] * 4 and c.tolist() == [100, 0, 0, 0]


def test_addresses_in_a_compiled_function() -> None:
    """Of two arguments, of one that is given twice, of state that is an argument too; other questions are refused."""
    a, b = weft.arange(4.0), weft.arange(4.0)

    def same(x: Any, y: Any) -> Any:
        left, right = x.untyped_storage(), y.untyped_storage()
        state = a.untyped_storage()
        return x * 1, left.data_ptr() == right.data_ptr(), left == right, left.data_ptr() == state.data_ptr()

    compiled = weft.compile(same)
    for x, y in ((a, b), (b, b), (b, a), (a, a)):
        assert compiled(x, y)[1:] == same(x, y)[1:]
    with pytest.raises(CaptureError, match="address"):
        weft.compile(lambda x: x * (x.untyped_storage().data_ptr() % 64))(a)


SOURCES: dict[str, Callable[[Any], Any]] = {
    "storage": lambda y: y.storage(),
    "of data": lambda y: y.data.untyped_storage(),
    "typed, of data": lambda y: y.data.storage(),
    "part": lambda y: y.untyped_storage()[4:12],
}


@pytest.mark.parametrize("name", SOURCES)
def test_set_to_storages_of_every_kind(name: str) -> None:
    """Eager mode showed all of a storage for a part of it; lazy tensors and programs refused what `.data` has."""

    def program(t: Any) -> Any:
        x, y = weft.zeros(3, device=t.device), weft.arange(4.0, device=t.device) * t
        x.set_(SOURCES[name](y))
        y.add_(1)
        return x * 1

    expected = [2.0, 3.0] if name == "part" else [1.0, 2.0, 3.0, 4.0]
    ways: tuple[Callable[..., Any], ...] = (
        lambda f: f, lambda f: lambda t: f(t.to("lazy")), weft.compile, lambda f: weft.compile(f, split=True),
    )
    for way in ways:
        assert way(program)(weft.ones(())).tolist() == expected


def test_set_to_a_part_that_begins_within_an_element() -> None:
    with pytest.raises(weft.WeftError, match="begins at byte 2"):
        weft.zeros(3).set_(weft.arange(4.0).untyped_storage()[2:10])
