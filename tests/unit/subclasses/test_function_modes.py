"""Function modes: every public call of a block is asked of the mode first."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import weft
from weft import overrides
from weft.nn import functional as F
from weft.nn.parameter import Parameter


class Log(overrides.WeftFunctionMode):
    def __init__(self, name: str = "", calls: list[str] | None = None) -> None:
        self.name, self.calls = name, [] if calls is None else calls

    def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(f"{self.name}{overrides.resolve_name(func)}")
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_every_public_call() -> None:
    x, y = weft.ones(3), Parameter(weft.ones(3))
    for _ in range(2):  # the second time all call signatures are known
        with Log() as log:
            x + y, x + 1, 2 * x, -x, x > 0, x[0], x.exp(), weft.exp(x), x.add_(1), F.relu(
                x
            ), x.clone(), x.double(), x.to(weft.float64)
            weft.zeros(2), weft.zeros_like(x), x.new_ones(2), weft.tensor([1.0]), weft.arange(
                3
            ), F.hinge_embedding_loss(x, x), weft.linalg.norm(x)
            x[0] = 1
        t = "weft.Tensor."
        assert log.calls == [
            t + "add", t + "add", t + "mul", t + "neg", t + "gt", t + "__getitem__", t + "exp", "weft.exp", t + "add_",
            "weft.nn.functional.relu", t + "clone", t + "double", t + "to", "weft.zeros", "weft.zeros_like",
            t + "new_ones", "weft.tensor", "weft.arange", "weft.nn.functional.hinge_embedding_loss", "weft.linalg.norm",
            t + "__setitem__",
        ]
        before = len(log.calls)
        assert (x + x).shape == (3,) and len(log.calls) == before


def test_modes_nest_and_a_handler_is_outside_of_its_own_mode() -> None:
    calls: list[str] = []

    class Doubling(Log):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = super().__weft_function__(func, types, args, kwargs)
            return out + out if func is weft.exp else out

    x = weft.zeros(1)
    with Log("a ", calls), Doubling("b ", calls):
        assert weft.exp(x).tolist() == [2.0]
    assert calls == ["b weft.exp", "a weft.exp", "a weft.Tensor.add"]
    assert weft.exp(x).tolist() == [1.0]


def test_a_mode_may_answer_itself_or_pass_on() -> None:
    class Answer(overrides.WeftFunctionMode):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "mine" if func is weft.add else NotImplemented

    one = weft.ones(1)
    with Answer():
        assert weft.add(one, 1) == "mine"
        with pytest.raises(TypeError, match="nor in the mode Answer"):
            weft.ones(1)
    class Own:
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "its own"

    with Answer():
        assert weft.mul(Own(), 2) == "its own" and weft.add(Own(), 2) == "mine"


def test_modes_and_classes_are_asked_in_order() -> None:
    calls: list[str] = []

    class Mine(weft.Tensor):
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append("class")
            return super().__weft_function__(func, types, args, kwargs)

    m = weft.ones(1).as_subclass(Mine)
    with Log("mode ", calls):
        assert type(weft.exp(m)) is Mine
        with overrides.DisableWeftFunctionSubclass():
            assert type(weft.exp(m)) is weft.Tensor
        with overrides.DisableWeftFunction():
            assert type(weft.exp(m)) is weft.Tensor
    assert calls == ["mode weft.exp", "class", "mode weft.exp"]


def test_backward_is_no_public_call() -> None:
    x = weft.ones(2, requires_grad=True)
    loss = (x.exp() * x).sum()
    with Log() as log:
        loss.backward()
        weft.autograd.grad((x * x).sum(), x)
    assert log.calls == ["weft.Tensor.mul", "weft.Tensor.sum", "weft.autograd.grad"]
    with Log() as log:
        (x * 2).sum().backward()
    assert x.grad is not None and log.calls == ["weft.Tensor.mul", "weft.Tensor.sum"]


def test_modes_are_of_one_thread_and_end_with_their_block() -> None:
    x = weft.ones(2)
    seen: list[int] = []

    class Broken(overrides.WeftFunctionMode):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise ValueError("no")

    with Log() as log:
        thread = threading.Thread(target=lambda: seen.append((x + x).numel()))
        thread.start()
        thread.join()
        with pytest.raises(ValueError, match="no"), Broken():
            x + x
        assert log.calls == [] and seen == [2]
        x + x
        assert log.calls == ["weft.Tensor.add"]
    with Log() as outer:
        inner = Log()
        inner.__enter__()
        with pytest.raises(RuntimeError, match="reverse order"):
            outer.__exit__(None, None, None)
        inner.__exit__(None, None, None)
    x + x
    assert log.calls == ["weft.Tensor.add"]
