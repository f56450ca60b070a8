"""A method or property of a subclass, called within a function mode, asked the mode alone: what came back was plain."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.overrides import WeftFunctionMode, resolve_name


class Passing(WeftFunctionMode):
    """Notes what it is asked, and passes it on."""

    def __init__(self) -> None:
        self.names: list[str | None] = []

    def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(resolve_name(func))
        return func(*args, **(kwargs or {}))


class Plain(weft.Tensor):
    """Keeps its class on results."""


class Noting(weft.Tensor):
    names: list[str | None] = []  # noqa: RUF012

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.names.append(resolve_name(func))
        return super().__weft_function__(func, types, args, kwargs)


READS = {
    "detach": lambda x: x.detach(), "data": lambda x: x.data, "T": lambda x: x.T, "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "mH": lambda x: x.mH, "new": lambda x: x.new(2), "grad": lambda x: (x * x).sum().backward() or x.grad,
}  # fmt: skip


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", READS)
def test_results_keep_their_class(name: str, depth: int) -> None:
    x = weft.rand(2, 2).as_subclass(Plain).requires_grad_()
    expected = READS[name](x)
    x.grad = None
    modes = [Passing() for _ in range(depth)]
    for mode in modes:
        mode.__enter__()
    out = READS[name](x)
    for mode in reversed(modes):
        mode.__exit__()
    assert type(out) is type(expected)
    assert all(modes[0].names == mode.names != [] for mode in modes)


def test_class_is_asked_after_the_mode() -> None:
    x, mode = weft.rand(2, 3).as_subclass(Noting), Passing()
    with mode:
        Noting.names.clear()
        assert x.shape == (2, 3) and x.size(0) == 2 and x.tolist() == x.detach().tolist()
    assert mode.names == Noting.names
    assert "weft.Tensor.size" in mode.names and "weft.Tensor.detach" in mode.names


def test_what_a_mode_is_asked_is_found_in_tables() -> None:
    x = weft.rand(2, 3).as_subclass(Plain)

    class Table(WeftFunctionMode):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in {weft.Tensor.T.__get__: 0, weft.Tensor.size: 0}:
                return "of the table"
            return "detached" if func is weft.Tensor.detach else func(*args, **(kwargs or {}))

    with Table():
        assert x.T == x.size() == "of the table"
        assert x.detach() == "detached"


def test_a_compiled_step_asks_what_eager_mode_asks() -> None:
    for requires_grad in (False, True):
        x = weft.rand(3).as_subclass(Noting).requires_grad_(requires_grad)
        for step in (lambda y: (y * 2).detach(), weft.compile(lambda y: (y * 2).detach())):
            Noting.names.clear()
            step(x)
            assert Noting.names == ["weft.Tensor.mul", "weft.Tensor.detach"]
