"""Hooks on every module, and what hooks of one module tell, refuse and leave behind."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref
from collections import namedtuple
from typing import Any

import pytest

import weft
from weft import nn
from weft.nn.modules import global_hooks, module


def loading_hook(*args: Any) -> None:
    """Named, so that it can be pickled."""


def test_global_hooks_run_before_a_modules_own() -> None:
    log: list[str] = []
    m = nn.Linear(2, 2)
    handles = [
        module.register_module_forward_pre_hook(lambda m, a: log.append("all pre")),
        module.register_module_forward_hook(lambda m, a, o: log.append("all")),
        module.register_module_full_backward_pre_hook(lambda m, g: log.append("all backward pre")),
        module.register_module_full_backward_hook(lambda m, i, o: log.append("all backward")),
    ]
    m.register_forward_pre_hook(lambda m, a: log.append("pre"))
    m.register_forward_hook(lambda m, a, o: log.append("own"))
    m.register_full_backward_pre_hook(lambda m, g: log.append("backward pre"))
    m.register_full_backward_hook(lambda m, i, o: log.append("backward"))
    m(weft.ones(1, 2, requires_grad=True)).sum().backward()
    assert log == ["all pre", "pre", "all", "own", "all backward pre", "backward pre", "all backward", "backward"]
    with pytest.raises(RuntimeError, match="Cannot use both"):
        module.register_module_backward_hook(lambda m, i, o: None)
    for handle in handles:
        handle.remove()
    assert not global_hooks.around_calls


def test_registration_hooks_may_replace() -> None:
    seen: list[str] = []
    handles = [
        module.register_module_parameter_registration_hook(lambda m, n, p: seen.append(n)),
        module.register_module_buffer_registration_hook(lambda m, n, b: b * 2),
        module.register_module_module_registration_hook(lambda m, n, s: nn.Identity() if n == "swap" else None),
    ]
    try:
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(weft.ones(1))
                self.register_buffer("count", weft.ones(1))
                self.swap = nn.ReLU()

        m = Model()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["weight"] and m.count.item() == 2 and isinstance(m.swap, nn.Identity)


def test_removed_hooks_leave_nothing() -> None:
    m = nn.ReLU()
    handle = m.register_forward_hook(lambda m, a, k, o: None, with_kwargs=True, always_call=True)
    assert handle.hooks_dict_ref() is m._forward_hooks
    handle.remove()
    assert not (m._forward_hooks or m._forward_hooks_with_kwargs or m._forward_hooks_always_called)


def test_an_error_in_an_always_called_hook_does_not_hide_the_first() -> None:
    def fail(*args: Any) -> Any:
        raise ValueError("the hook's")

    class Bad(nn.Module):
        def forward(self, x: Any) -> Any:
            raise RuntimeError("the module's")

    m = Bad()
    m.register_forward_hook(fail, always_call=True)
    with pytest.warns(UserWarning, match="silenced"), pytest.raises(RuntimeError, match="the module's"):
        m(1)


def test_outputs_behind_backward_hooks_may_not_be_written() -> None:
    m = nn.Linear(2, 2)
    m.register_full_backward_hook(lambda m, i, o: None)
    with pytest.raises(RuntimeError, match="Output 0 of BackwardHookFunction is a view and is being modified inplace"):
        m(weft.ones(1, 2, requires_grad=True)).add_(1)


def test_backward_hooks_tell_what_they_miss() -> None:
    Pair = namedtuple("Pair", "a b")

    class Two(nn.Module):
        def forward(self, x: weft.Tensor) -> Any:
            return Pair(x * 2, x * 3)

    two = Two()
    two.register_full_backward_hook(lambda m, i, o: None)
    assert isinstance(two(weft.ones(1, requires_grad=True)), Pair)

    class InDict(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"x": x * 2}

    for register, words in (("register_full_backward_hook", "should be a Tensor or a tuple of Tensors"), (
        "register_backward_hook", "does not return a single"
    )):
        m = InDict()
        getattr(m, register)(lambda m, i, o: None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            m(weft.ones(1, requires_grad=True))
        assert len(caught) == 1 and words in str(caught[0].message)
    m = nn.Linear(1, 1)
    m.register_full_backward_hook(lambda m, i, o: (None,))  # all None is fine where no input wants a gradient
    m(weft.ones(1, 1)).sum().backward()


def test_loading_hooks_keep_no_module_alive_and_can_be_pickled() -> None:
    m = nn.Linear(1, 1)
    m.register_load_state_dict_pre_hook(loading_hook)
    assert pickle.loads(pickle.dumps(m))._load_state_dict_pre_hooks
    alive = weakref.ref(m)
    gc.disable()
    try:
        del m
        assert alive() is None
    finally:
        gc.enable()
