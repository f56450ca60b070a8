"""What leaves a captured function is real: containers of every kind, sizes, modes;
what cannot be is refused by line."""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest

import weft
from weft.support.errors import CaptureError


class Pair(tuple):
    pass


class Bag(dict):
    pass


class Box:
    def __init__(self, x: Any) -> None:
        self.x = x


@dataclasses.dataclass
class Config:
    x: weft.Tensor
    n: int = 1


def test_containers_of_every_kind(rng: Any) -> None:
    def build(x: weft.Tensor) -> Any:
        return [
            defaultdict(list, {"a": [x * 2]}), deque([x + 1], maxlen=3), OrderedDict(b=x), Bag(c=x * 3), Pair((x, 1)),
            Counter(a=2), {1, 2}, x.shape, x.expand(2, *x.shape).size(),
        ]

    step = weft.compile(build)
    for n in (3, 5):
        x = weft.ones(n)
        captured, eager = step(x), build(x)
        assert repr(captured) == repr(eager)
        assert [type(c) for c in captured] == [type(e) for e in eager]
    assert captured[0].default_factory is list
    assert captured[1].maxlen == 3


@pytest.mark.parametrize(
    "make",
    [lambda x: Box(x * 2), lambda x: (lambda: x * 2), lambda x: {"a": Box([x + 1])}, lambda x: {1: {Box(x * 2)}}],
)
def test_an_object_that_holds_a_tensor_is_refused(make: Any) -> None:
    with pytest.raises(CaptureError, match="that holds tensors made in this call; return them in a tuple, list, dict"):
        weft.compile(make)(weft.ones(2))


TABLE = weft.ones(1) * 3


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x * TABLE.item(), lambda x: x * float(TABLE), lambda x: x if TABLE.item() > 1 else -x,
        lambda x: x * TABLE.tolist()[0], lambda x: x * weft.from_numpy(TABLE.numpy() * 1), lambda x: (x, f"{TABLE}"),
        lambda x: (x, str(x.sum())), lambda x: x * weft.tensor(TABLE),
    ],
)
def test_the_value_of_state_is_not_known_either(read: Any) -> None:
    with pytest.raises(
        CaptureError, match=r"test_result_containers.py:\d+: a compiled function asks a tensor of type f32\[1?\] for"
    ):
        weft.compile(read)(weft.ones(2))


def test_a_bool_about_values_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"test_result_containers.py:\d+: allclose\(\) answers Python with bool"):
        weft.compile(lambda x: x * weft.allclose(x, x))(weft.ones(2))


@pytest.mark.parametrize(
    "argument", [lambda: Config(weft.ones(2)), lambda: {"x": weft.ones(2), "n": 1}], ids=["dataclass", "dict"]
)
def test_a_number_inside_of_an_argument_is_written(argument: Any) -> None:
    def step(config: Any) -> Any:
        if isinstance(config, dict):
            config["n"] += 1
        else:
            config.n += 1
        return weft.ones(2)

    compiled = weft.compile(step)
    for start in (1, 1, 5, 9):
        value = argument()
        if isinstance(value, dict):
            value["n"] = start
        else:
            value.n = start
        compiled(value)
        assert (value["n"] if isinstance(value, dict) else value.n) == start + 1
    assert len(compiled.entries) == 2


def test_modes_that_the_function_leaves_behind() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        weft.set_grad_enabled(False)
        weft.set_default_dtype(weft.float64)
        return x * 2

    run = weft.compile(step)
    try:
        for _ in range(2):
            weft.set_grad_enabled(True)
            weft.set_default_dtype(weft.float32)
            run(weft.ones(2))
            assert not weft.is_grad_enabled()
            assert weft.ones(1).dtype is weft.float64
    finally:
        weft.set_grad_enabled(True)
        weft.set_default_dtype(weft.float32)
    assert not run.entries and "the default dtype" in run.misses[-1]


@pytest.mark.parametrize(
    "make",
    [lambda x: (x * i for i in range(3)), lambda x: {"pairs": zip([x], [x], strict=True)}, lambda x: [iter([x])]],
)
def test_a_returned_iterator_is_refused(make: Any) -> None:
    """It would be used up by the time of the second call."""
    with pytest.raises(weft.WeftError, match="return a list of its items instead"):
        weft.compile(make)(weft.ones(2))
