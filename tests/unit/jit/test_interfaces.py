"""Interfaces: programs that call what they know by its methods' signatures only; attributes with types of their own."""

from __future__ import annotations

import pytest

import weft
import weft.jit
from tests.unit.jit.test_files import again
from weft import Tensor, nn


@weft.jit.interface
class Operation:
    def apply(self, x: Tensor, n: int) -> Tensor: ...


class Times:
    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, x: Tensor, n: int) -> Tensor:
        return x * self.k * n


class Plus:
    def apply(self, x: Tensor, n: int) -> Tensor:
        return x + n


class Other:
    def apply(self, x: Tensor) -> Tensor:
        return x


def used(op: Operation, x: Tensor) -> Tensor:
    return op.apply(x, 3)


def both(x: Tensor) -> Tensor:
    found: list[Operation] = [Times(2), Plus()]
    for op in found:
        x = op.apply(x, 2)
    return used(Times(5), x) + used(Plus(), x)


def misfit(x: Tensor) -> Tensor:
    return used(Other(), x)


def nothing(x: Tensor) -> Tensor:
    op: Operation = Plus()
    return op.missing(x)


def test_objects_behind_an_interface() -> None:
    scripted = weft.jit.script(both)
    x = weft.ones(2)
    assert weft.equal(scripted(x), both(x)) and weft.equal(again(scripted)(x), both(x))
    assert weft.jit.script(used)(Times(4), x).tolist() == [12.0, 12.0]
    with pytest.raises(TypeError, match="expected a value of type"):
        weft.jit.script(used)(3, x)
    with pytest.raises(weft.jit.CompileError, match="does not fit the interface 'Operation'"):
        weft.jit.script(misfit)
    with pytest.raises(weft.jit.CompileError, match="has no method 'missing'; it has apply"):
        weft.jit.script(nothing)


@weft.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor: ...


class Doubling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Shifting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(weft.ones(1) * 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


class Exchangeable(nn.Module):
    inner: Layer

    def __init__(self) -> None:
        super().__init__()
        self.inner = Doubling()
        self.names = weft.jit.Attribute([], list[str])

    def forward(self, x: Tensor, name: str) -> Tensor:
        self.names.append(name)
        return self.inner(x) + len(self.names)


def test_a_module_behind_an_interface_can_be_exchanged() -> None:
    module = weft.jit.script(Exchangeable())
    x = weft.ones(2)
    assert module(x, "a").tolist() == [3.0, 3.0] and again(module)(x, "b").tolist() == [4.0, 4.0]
    module.inner = weft.jit.script(Shifting())
    assert module(x, "c").tolist() == [6.0, 6.0] and module.names == ["a", "c"]
    module(x, "d").sum().backward()
    assert module.inner.by.grad.tolist() == [2.0]
