"""Rules of tensor subclasses (`__weft_dispatch__`, `__weft_function__`) that are assigned after the class was made,
replaced or deleted: eager mode, compiled functions and split go by those that the class has at the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.ops.overrides import disabled_weft_function

MODES: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f, "compiled": weft.compile, "split": lambda f: weft.compile(f, split=True),
}
SIZES = (2, 2, 4)


@pytest.fixture(params=MODES)
def wrap(request: Any) -> Callable[[Any], Any]:
    return MODES[request.param]


def pair_class() -> Any:
    class Pair(weft.Tensor):
        @staticmethod
        def __new__(cls: Any, a: Any, b: Any) -> Any:
            return weft.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

        def __tensor_flatten__(self) -> Any:
            return ["a", "b"], None

        @classmethod
        def __tensor_unflatten__(cls, inner: Any, meta: Any, size: Any, stride: Any) -> Any:
            return cls(inner["a"], inner["b"])

    return Pair


def dispatch(factor: float) -> Any:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def part(x: Any, side: str) -> Any:
            if isinstance(x, cls):
                return getattr(x, side)
            return type(x)(part(i, side) for i in x) if isinstance(x, (list, tuple)) else x

        a, b = (func(*part(args, side), **(kwargs or {})) for side in "ab")
        if not isinstance(a, weft.Tensor):
            return a
        return cls(a, b * factor if func is weft.ops.aten.mul.Tensor else b)

    return classmethod(rule)


def gradients(kind: Any, step: Any, n: int) -> Any:
    x = kind(weft.ones(n), weft.full((n,), 3.0)).requires_grad_()
    step(x).sum().backward()
    return x.grad.a.tolist(), x.grad.b.tolist()


def square(x: Any) -> Any:
    return x * x + 1


def test_dispatch_assigned_late(wrap: Any) -> None:
    kind = pair_class()
    kind.__weft_dispatch__ = dispatch(1)
    step = wrap(square)
    for n in SIZES:
        assert gradients(kind, step, n) == ([2.0] * n, [6.0] * n)


def test_dispatch_of_a_base_and_of_a_mixin(wrap: Any) -> None:
    class Rules:
        pass

    first = pair_class()
    second = type("Second", (first,), {})
    third = type("Third", (Rules, pair_class()), {})
    first.__weft_dispatch__ = Rules.__weft_dispatch__ = dispatch(1)  # type: ignore[attr-defined]
    for kind in (second, third):
        step = wrap(square)
        for n in SIZES:
            assert gradients(kind, step, n) == ([2.0] * n, [6.0] * n)


def test_dispatch_replaced(wrap: Any) -> None:
    kind = pair_class()
    step = wrap(square)
    for factor in (1, 10, 1):
        kind.__weft_dispatch__ = dispatch(factor)
        for n in SIZES:
            assert gradients(kind, step, n) == ([2.0] * n, [6.0 * factor] * n)


def test_dispatch_of_what_the_function_makes(wrap: Any) -> None:
    kind = pair_class()
    step = wrap(lambda x: (kind(x, x) * 2).b)
    for factor in (1, 10, 1):
        kind.__weft_dispatch__ = dispatch(factor)
        assert [step(weft.ones(n)).tolist() for n in SIZES] == [[2.0 * factor] * n for n in SIZES]


def test_dispatch_deleted(wrap: Any) -> None:
    kind = pair_class()
    kind.__weft_dispatch__ = dispatch(1)
    step = wrap(square)
    x = kind(weft.ones(2), weft.ones(2))
    step(x)
    del kind.__weft_dispatch__
    for _ in range(2):
        with pytest.raises(weft.support.errors.WeftError, match="__weft_dispatch__"):
            step(x)


def times(factor: float) -> Any:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = weft.Tensor.__weft_function__.__func__(cls, func, types, args, kwargs or {})  # type: ignore[attr-defined]
        if getattr(func, "__name__", "") in ("mul", "__mul__"):
            return (out.as_subclass(weft.Tensor) * factor).as_subclass(cls)
        return out

    return classmethod(rule)


@pytest.mark.parametrize("where", ["class", "base"])
def test_function_handlers(where: str, wrap: Any) -> None:
    base = type("Base", (weft.Tensor,), {})
    kind = type("Kind", (base,), {})
    owner: Any = base if where == "base" else kind
    step = wrap(lambda x: x * 3)
    for factor in (None, 2, 5, None):
        if factor is not None:
            owner.__weft_function__ = times(factor)
        elif "__weft_function__" in vars(owner):
            del owner.__weft_function__
        wanted = [[3.0 * (factor or 1)] * n for n in SIZES]
        assert [step(weft.ones(n).as_subclass(kind)).tolist() for n in SIZES] == wanted


def test_a_handler_of_a_class_that_took_nothing_over(wrap: Any) -> None:
    kind: Any = type("Kind", (weft.Tensor,), {"__weft_function__": disabled_weft_function})
    step = wrap(lambda x: x * 3)
    assert step(weft.ones(2).as_subclass(kind)).tolist() == [3.0] * 2
    for factor in (2, 5):
        kind.__weft_function__ = times(factor)
        assert [step(weft.ones(n).as_subclass(kind)).tolist() for n in SIZES] == [[3.0 * factor] * n for n in SIZES]


@pytest.mark.parametrize("form", ["name", "getattr", "explicit", "mixin", "metaclass"])
def test_ways_to_the_base_handler(form: str, wrap: Any) -> None:
    class Base(weft.Tensor):
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            sup = super()
            if form == "getattr":
                return getattr(super(), "__weft_function__")(func, types, args, kwargs or {})  # noqa: B009
            if form == "explicit":
                return weft.Tensor.__weft_function__.__func__(cls, func, types, args, kwargs or {})  # type: ignore[attr-defined]
            return sup.__weft_function__(func, types, args, kwargs or {})

    class Mixin:
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            sup: Any = super()
            return sup.__weft_function__(func, types, args, kwargs or {})

    class Meta(type(weft.Tensor)):  # type: ignore[misc]
        pass

    kinds: dict[str, Any] = {
        "mixin": lambda: type("Kind", (Mixin, Base), {}), "metaclass": lambda: Meta("Kind", (Base,), {})
    }
    kind = kinds.get(form, lambda: type("Kind", (Base,), {}))()
    step = wrap(lambda x: weft.cat([(x * x).sin(), x[:1]]).sum())
    for n in SIZES:
        x = weft.linspace(0, 1, n).as_subclass(kind).requires_grad_()
        loss = step(x)
        loss.backward()
        plain = weft.linspace(0, 1, n).requires_grad_()
        weft.cat([(plain * plain).sin(), plain[:1]]).sum().backward()
        assert type(loss) is kind and x.grad.tolist() == pytest.approx(plain.grad.tolist())


def test_the_first_use_of_a_late_rule_is_in_the_compiled_function(wrap: Callable[[Any], Any]) -> None:
    """The class gets other bases then, which its own guards saw: the program did not fit its own arguments."""
    kind: Any = type("Late", (weft.Tensor,), {"__weft_function__": disabled_weft_function})

    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super(kind, cls).__weft_function__(func, types, args, kwargs)
        return (out.as_subclass(weft.Tensor) * 5).as_subclass(cls) if func.__name__ in ("mul", "__mul__") else out

    kind.__weft_function__ = classmethod(rule)
    step = wrap(lambda x: (x.as_subclass(kind) * 2).as_subclass(weft.Tensor))
    for size in SIZES:
        assert step(weft.ones(size)).tolist() == [10.0] * size
