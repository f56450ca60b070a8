# ruff: noqa: F811  (overloads are definitions of one name)
"""Scripted Modules as Python sees them, and what programs ask of Modules: properties, containers, copies, hooks, walks,
futures and overloads.
"""

from __future__ import annotations

import copy
import warnings

import pytest

import weft
import weft.jit
from tests.unit.jit.test_files import again
from weft import Tensor, nn


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def note(self, n: int) -> int:
        self.seen.append(n)
        return len(self.seen)


class Scaled(Base):
    def __init__(self, k: float) -> None:
        super().__init__()
        self._k = k
        self.weight = nn.Parameter(weft.ones(2))

    @property
    def k(self) -> float:
        return self._k + 1

    @k.setter
    def k(self, value: float) -> None:
        self._k = value * 10

    def forward(self, x: Tensor) -> Tensor:
        return x * self.k * self.weight + self.note(3)


def test_properties_and_attributes_from_python() -> None:
    module = weft.jit.script(Scaled(2.0))
    assert module.k == 3.0 and module(weft.ones(2)).tolist() == [4.0, 4.0] and module.seen == [3]
    module.k = 0.5
    assert module.k == 6.0
    module._k = 7
    assert module.k == 8.0
    with pytest.raises(TypeError, match="attribute 'seen' of Scaled is of type List"):
        module.seen = "text"
    with pytest.raises(AttributeError, match="absent"):
        _ = module.absent


def test_copies_share_programs_and_nothing_else() -> None:
    module = weft.jit.script(nn.Sequential(Scaled(1.0), nn.ReLU()))
    for made in (copy.deepcopy(module), copy.deepcopy(again(module))):
        with weft.no_grad():
            made[0].weight.fill_(3.0)
        assert made(weft.ones(2)).tolist() == [7.0, 7.0] and module(weft.ones(2))[0] > 0
        assert module[0].weight.tolist() == [1.0, 1.0] and made[0].seen == [3] != module[0].seen * 2
        made(weft.ones(2)).sum().backward()
        assert made[0].weight.grad is not None and module[0].weight.grad is None


def test_containers_from_python() -> None:
    module = weft.jit.script(nn.Sequential(nn.Linear(1, 2), nn.Tanh(), nn.Linear(2, 1)))
    assert len(module) == 3 and [m.original_name for m in module] == ["Linear", "Tanh", "Linear"] and bool(module)
    assert module[-1].weight.shape == (1, 2) and len(module[1:]) == 2
    named = weft.jit.script(nn.ModuleDict({"a": nn.ReLU()}))
    assert "a" in named and named["a"].original_name == "ReLU"
    with pytest.raises(TypeError, match="is no container"):
        len(weft.jit.script(nn.ReLU()))


class Walking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.some = nn.ModuleList([nn.ReLU(), nn.Linear(1, 1), nn.Tanh()])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "bb": nn.Tanh()})
        self.scales = nn.ParameterList([weft.ones(1) * 2, weft.ones(1) * 3])

    def forward(self, x: Tensor) -> Tensor:
        for module in self.some[::2]:
            x = module(x)
        for module in self.some:
            if isinstance(module, nn.Linear):
                x = x + 5
        for name, _ in self.named.named_children():
            x = x + len(name)
        if "bb" in self.named and "c" not in self.named:
            x = self.named["bb"](x)
        for p in self.some[1].parameters():
            x = x + p.sum() * 0
        return x * self.scales[1] + self.scales[-2]


def test_programs_walk_over_modules() -> None:
    module = Walking()
    scripted = weft.jit.script(module)
    x = weft.tensor([0.25, -0.5])
    assert weft.allclose(scripted(x), module(x)) and weft.allclose(again(scripted)(x), module(x))


def doubled_input(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
    return (args[0] * 2,)


def shifted(module: nn.Module, args: tuple[Tensor], result: Tensor) -> Tensor:
    return result + args[0]


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Plain()
        self.inner.register_forward_pre_hook(doubled_input)
        self.inner.register_forward_hook(shifted)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * 10


def test_hooks_are_compiled_with_the_module() -> None:
    module = Outer()
    module.register_forward_hook(shifted)
    scripted = weft.jit.script(module)
    x = weft.tensor([1.0, 3.0])
    for made in (scripted, again(scripted)):
        assert weft.equal(made(x), module(x))


def scaled(x: Tensor, n: int = 2) -> Tensor:
    return x * n


def forked(x: Tensor, n: int) -> Tensor:
    later: list[weft.jit.Future[Tensor]] = []
    for i in range(n):
        later.append(weft.jit.fork(scaled, x, n=i))
    total = weft.jit.wait(weft.jit.fork(scaled, x))
    for f in later:
        total = total + f.wait()
    return total


def test_forked_calls() -> None:
    x = weft.ones(2)
    assert weft.equal(weft.jit.script(forked)(x, 4), forked(x, 4))
    assert weft.jit.wait(weft.jit.fork(int, "7")) == 7
    failed = weft.jit.fork(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        failed.wait()


@weft.jit._overload
def grown(x: int) -> int: ...


@weft.jit._overload  # type: ignore[no-redef]
def grown(x: Tensor, n: int = 2) -> Tensor: ...


def grown(x, n: int = 2):  # type: ignore[no-redef]
    return x + n


def growing(x: Tensor):
    return grown(x), grown(4), grown(x, 5)


def grown_wrongly(x: Tensor):
    return grown("text")


def test_overloads_are_chosen_by_types() -> None:
    a, b, c = weft.jit.script(growing)(weft.zeros(1))
    assert (a.item(), b, c.item()) == (2.0, 6, 5.0)
    with pytest.raises(weft.jit.CompileError, match="no overload of grown takes"):
        weft.jit.script(grown_wrongly)


def warning(n: int) -> int:
    if n > 2:
        warnings.warn(f"{n} is large", stacklevel=2)
    return n


def test_warnings_are_given_when_the_program_comes_there() -> None:
    scripted = weft.jit.script(warning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scripted(2) == 2
    with pytest.warns(UserWarning, match="5 is large"):
        scripted(5)


class Growing(nn.Module):
    @weft.jit._overload_method
    def grow(self, x: int) -> int: ...

    @weft.jit._overload_method
    def grow(self, x: Tensor, by: int = 3) -> Tensor: ...

    def grow(self, x, by: int = 3):
        return x + by

    def forward(self, x: Tensor) -> Tensor:
        return self.grow(x) * self.grow(1) + self.grow(x, by=1)


def test_overloaded_methods() -> None:
    for module in (scripted := weft.jit.script(Growing()), again(scripted)):
        assert module(weft.ones(2)).tolist() == [18.0, 18.0]


def typed(z: complex, kind: weft.dtype) -> complex:
    return z + float(weft.ones(1, dtype=kind).item())


def test_arguments_become_what_their_types_say() -> None:
    scripted = weft.jit.script(typed)
    assert scripted(2, weft.int64) == 3 + 0j and type(scripted(1.5, weft.float32)) is complex
    with pytest.raises(TypeError, match="expected a value of type DType"):
        scripted(1j, "int64")


def test_a_loaded_module_calls_its_own_functions() -> None:
    """Two files hold types of one name, and the types have other names once both are read."""
    modules = [Outer(), Outer()]
    modules[1].inner.register_forward_hook(shifted)
    scripted = [weft.jit.script(m) for m in modules]
    x = weft.tensor([1.0, 3.0])
    for made in ([again(s) for s in scripted], [again(again(s)) for s in scripted]):
        for module, loaded in zip(modules, made, strict=True):
            assert weft.equal(loaded(x), module(x))


def warned(n: int) -> int:
    for _ in range(n):
        warnings.warn("again", stacklevel=2)
    warnings.warn("again", stacklevel=2)
    return n


def test_warnings_are_of_their_lines() -> None:
    scripted = weft.jit.script(warned)
    first = warned.__code__.co_firstlineno
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert scripted(3) == 3
    assert [(w.filename, w.lineno - first) for w in caught] == [(__file__, 2), (__file__, 3)]
