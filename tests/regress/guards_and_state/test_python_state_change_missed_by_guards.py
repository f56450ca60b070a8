"""Changes of Python state between two calls that a captured program did not see: each changed, and changed back."""

from __future__ import annotations

import functools
import math
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn
from weft.compile.driver import CompiledFunction
from weft.nn import functional as F
from weft.support.errors import CaptureError

Change = Callable[[], Any]
Case = tuple[Callable[[Tensor], Any], Change, Change]
linear, layer_norm, call_module = F.linear, F.layer_norm, nn.Module.__call__


class Holder(types.SimpleNamespace):
    """A place for names."""


def _flag_of_an_unused_tensor() -> Case:
    held = weft.ones(4)
    return (
        lambda x: x * 2 if held.requires_grad else x, lambda: held.requires_grad_(), lambda: held.requires_grad_(False)
    )


def _flags_in_a_loop() -> Case:
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 3))
    weight = model[0].weight
    return (
        lambda x: x * sum(p.numel() for p in model.parameters() if p.requires_grad),
        lambda: weight.requires_grad_(False), lambda: weight.requires_grad_()
    )


def _one_object_or_two() -> Case:
    a, b = weft.ones(4), weft.ones(4)
    holder = Holder(other=a)
    return (
        lambda x: x * 2 if holder.other is a else x * holder.other, lambda: setattr(holder, "other", b),
        lambda: setattr(holder, "other", a)
    )


def _tied_weights() -> Case:
    first, last = nn.Linear(4, 4), nn.Linear(4, 4)
    own = last.weight

    def step(x: Tensor) -> Tensor:
        first.zero_grad()
        last.zero_grad()
        last(first(x)).sum().backward()
        assert first.weight.grad is not None
        return first.weight.grad.clone()

    return step, lambda: setattr(last, "weight", first.weight), lambda: setattr(last, "weight", own)


def _a_global_that_comes() -> Case:
    def step(x: Tensor) -> Tensor:
        try:
            return x * _NAME_THAT_COMES  # type: ignore[name-defined]
        except NameError:
            return x

    return step, lambda: globals().update(_NAME_THAT_COMES=3.0), lambda: globals().pop("_NAME_THAT_COMES")


def _behind_a_module_of_ours() -> Case:
    model = nn.Linear(4, 2)
    return lambda x: model(x), lambda: setattr(F, "linear", lambda *a: linear(*a) * 3), lambda: setattr(
        F, "linear", linear
    )


def _behind_a_norm() -> Case:
    model = nn.LayerNorm(4)
    return lambda x: model(x), lambda: setattr(F, "layer_norm", lambda x, *a: x * 3), lambda: setattr(
        F, "layer_norm", layer_norm
    )


def _the_call_of_modules() -> Case:
    model = nn.Linear(4, 2)
    return lambda x: model(x), lambda: setattr(nn.Module, "__call__", lambda self, x: x), lambda: setattr(
        nn.Module, "__call__", call_module
    )


def _defaults_of_an_optimizer() -> Case:
    opt = weft.optim.SGD([nn.Parameter(weft.ones(2))], lr=0.5)
    return lambda x: x * opt.defaults["lr"], lambda: opt.defaults.update(lr=2.0), lambda: opt.defaults.update(lr=0.5)


def _a_scheduler() -> Case:
    opt = weft.optim.SGD([nn.Parameter(weft.ones(2))], lr=0.5)
    schedule = weft.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    opt.step()
    return lambda x: x * schedule.get_last_lr()[0] + schedule.last_epoch, schedule.step, schedule.step


def _the_sign_of_zero() -> Case:
    holder = Holder(k=0.0)
    return lambda x: x * math.copysign(1.0, holder.k), lambda: setattr(holder, "k", -0.0), lambda: setattr(
        holder, "k", 0.0
    )


def _bases() -> Case:
    class Plain:
        k = 1.0

    class Other:
        k = 7.0

    class Under(Plain):
        pass

    return lambda x: x * Under.k, lambda: setattr(Under, "__bases__", (Other, Plain)), lambda: setattr(
        Under, "__bases__", (Plain,)
    )


def _a_dict_by_name() -> Case:
    class Plain:
        k = 1.0

    return lambda x: x * Plain.__dict__["k"], lambda: setattr(Plain, "k", 7.0), lambda: setattr(Plain, "k", 1.0)


def _names_of_an_object() -> Case:
    holder = Holder(a=1.0)
    return lambda x: x * sum(n in ("a", "b") for n in dir(holder)), lambda: setattr(holder, "b", 1.0), lambda: delattr(
        holder, "b"
    )


def _a_field_in_a_format() -> Case:
    holder = Holder(k=12)
    step = lambda x: x * float("{0.k}".format(holder))  # noqa: E731, UP030, UP032
    return step, lambda: setattr(holder, "k", 15), lambda: setattr(holder, "k", 12)


def _getattr_of_a_module() -> Case:
    module = types.ModuleType("module")
    module.__getattr__ = lambda name: 2.0  # type: ignore[method-assign]
    return lambda x: x * module.k, lambda: setattr(module, "__getattr__", lambda name: 5.0), lambda: setattr(
        module, "__getattr__", lambda name: 2.0
    )


def _a_descriptor_made_of_a_lambda() -> Case:
    class Descriptor:
        def __get__(self, obj: Any, owner: Any) -> float:
            return 2.0

    class Owner:
        d = Descriptor()

    owner, get = Owner(), Descriptor.__get__
    return lambda x: x * owner.d, lambda: setattr(Descriptor, "__get__", lambda *a: 5.0), lambda: setattr(
        Descriptor, "__get__", get
    )


class _Something:
    """What a weak dictionary holds."""


def _the_length_of_a_weak_dictionary() -> Case:
    kept, other = _Something(), _Something()
    weak = weakref.WeakValueDictionary({"kept": kept, "other": other})
    weak.pop("other")
    return lambda x: x * len(weak), lambda: weak.update(other=other), lambda: weak.pop("other")


CASES = [
    _flag_of_an_unused_tensor, _flags_in_a_loop, _one_object_or_two, _tied_weights, _a_global_that_comes,
    _behind_a_module_of_ours, _behind_a_norm, _the_call_of_modules, _defaults_of_an_optimizer, _a_scheduler,
    _the_sign_of_zero, _bases, _a_dict_by_name, _names_of_an_object, _a_field_in_a_format,
    _getattr_of_a_module, _a_descriptor_made_of_a_lambda, _the_length_of_a_weak_dictionary,
]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__.strip("_"))
def test_a_change_is_seen_and_so_is_its_end(make: Callable[[], Case]) -> None:
    weft.manual_seed(0)
    step, change, back = make()
    compiled = CompiledFunction(step, backend="interpret")
    x = weft.linspace(-1, 2, 12).reshape(3, 4)
    seen = []
    for act in (lambda: None, lambda: None, change, lambda: None, back, lambda: None):
        act()
        expected = step(x).detach().numpy().copy()
        np.testing.assert_allclose(compiled(x).detach().numpy(), expected, rtol=1e-5)
        seen.append(expected)
    assert seen[1].shape != seen[2].shape or not np.allclose(seen[1], seen[2])


def test_a_cached_property_first_read_in_a_step_is_kept() -> None:
    class Model:
        gain = 2.0

        @functools.cached_property
        def doubled(self) -> float:
            return self.gain * 2

    model = Model()
    compiled = CompiledFunction(lambda x: x * model.doubled, backend="interpret")
    x = weft.ones(3)
    assert compiled(x).tolist() == [4.0] * 3
    assert model.__dict__["doubled"] == 4.0
    model.gain = 5.0
    assert compiled(x).tolist() == [4.0] * 3
    del model.doubled
    assert compiled(x).tolist() == [10.0] * 3


def test_a_protocol_may_be_asked_for_in_a_step() -> None:
    @typing.runtime_checkable
    class Sized(typing.Protocol):
        def size_of(self) -> int: ...

    class Plain:
        pass

    plain = Plain()
    compiled = CompiledFunction(lambda x: x * 2 if isinstance(plain, Sized) else x, backend="interpret")
    assert compiled(weft.ones(2)).tolist() == [1.0, 1.0]
    Plain.size_of = lambda self: 1  # type: ignore[attr-defined]
    assert compiled(weft.ones(2)).tolist() == [2.0, 2.0]


def test_a_name_that_setattr_makes_is_new_in_the_first_call_only() -> None:
    class Model:
        hidden = 0.0

    model = Model()

    def step(x: Tensor) -> Tensor:
        setattr(model, "hidden", getattr(model, "hidden") + x)  # noqa: B009, B010
        return model.hidden * 2

    compiled = CompiledFunction(step, backend="interpret")
    assert [compiled(weft.ones(1)).item() for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]


def test_a_tensor_without_memory_is_refused_by_name() -> None:
    held = weft.ones(4)
    compiled = CompiledFunction(lambda x: x * (held.data_ptr() > 0), backend="interpret")
    compiled(weft.ones(2))
    held = weft.ones(4)
    with pytest.raises(CaptureError, match="data_ptr"):
        compiled(weft.ones(2))
