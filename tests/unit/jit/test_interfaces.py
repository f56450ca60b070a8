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


@weft.jit.interface
class Wider:
    def apply(self, x: Tensor, n: int) -> Tensor: ...

    def more(self, x: Tensor) -> Tensor: ...


def test_an_interface_may_stand_for_one_with_fewer_methods() -> None:
    def narrowed(op: Wider, x: Tensor) -> Tensor:
        return used(op, x)

    def widened(op: Operation) -> Wider:
        return op

    class Both(Plus):
        def more(self, x: Tensor) -> Tensor:
            return x

    assert weft.jit.script(narrowed)(Both(), weft.ones(1)).item() == 4
    with pytest.raises(weft.jit.CompileError, match="has no method 'more'"):
        weft.jit.script(widened)


class Scaled(nn.Module):
    def __init__(self, k: float) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        return x * self.k


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = nn.ModuleList([Scaled(2.0), nn.ReLU(), Scaled(4.0)])
        self.named = nn.ModuleDict({"a": Scaled(3.0), "b": nn.ReLU()})

    def forward(self, x: Tensor, at: int, key: str) -> Tensor:
        first: Layer = self.items[at]
        second: Layer = self.named[key]
        return second.forward(first.forward(x))


def test_an_element_is_chosen_while_the_program_runs() -> None:
    plain = Chosen()
    for scripted in (weft.jit.script(plain), again(weft.jit.script(plain))):
        for at in range(-3, 3):
            for key in "ab":
                assert scripted(weft.ones(1), at, key).item() == plain(weft.ones(1), at, key).item()
        with pytest.raises(IndexError, match="3"):
            scripted(weft.ones(1), 3, "a")
        with pytest.raises(KeyError, match="c"):
            scripted(weft.ones(1), 0, "c")


class Held(nn.Module):
    inner: Layer

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.plain = Scaled(2.0), Scaled(3.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(self.inner.forward(x))


class Counted(nn.Module):
    def forward(self, n: int) -> int:
        return n + 1


def test_a_submodule_is_replaced_by_one_that_its_programs_can_call() -> None:
    held = weft.jit.script(Held())
    held.inner, held.plain = weft.jit.script(nn.ReLU()), weft.jit.script(Scaled(5.0))
    assert held(weft.ones(1)).item() == 5.0
    with pytest.raises(RuntimeError, match="does not fit the interface 'Layer'"):
        held.inner = weft.jit.script(Counted())
    with pytest.raises(RuntimeError, match="Expected a value of type 'Scaled' for field 'plain', but found 'ReLU'"):
        held.plain = weft.jit.script(nn.ReLU())
    with pytest.raises(weft.jit.CompileError, match="does not support inheritance"):
        weft.jit.interface(type("Derived", (nn.ReLU,), {}))
