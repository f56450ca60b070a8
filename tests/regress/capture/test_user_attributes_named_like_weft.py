"""Attributes of functions and modules that have the names of weft's own; functions of weft's that are compiled as they
are; tensors that only hooks read."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.utils.checkpoint import checkpoint

TAKEN = ("keep", "name", "run", "entries", "lock", "function", "backend", "switches", "stages", "cuts")


@pytest.mark.parametrize("split", [False, True])
def test_a_function_may_have_attributes_of_any_name(split: bool) -> None:
    def double(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    for name in (*TAKEN, "own"):
        setattr(double, name, [1])
    compiled: Any = weft.compile(double, split=split)
    assert compiled(weft.ones(3)).tolist() == [2.0] * 3
    assert compiled.own == [1] and compiled.__name__ == "double"
    with pytest.raises(AttributeError, match="absent"):
        compiled.absent  # noqa: B018


@pytest.mark.parametrize("split", [False, True])
def test_a_module_may_have_attributes_of_any_name(split: bool) -> None:
    class Net(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stages = weft.nn.Sequential(weft.nn.Linear(3, 2))
            for name in TAKEN:
                if name != "stages":
                    setattr(self, name, [1])

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            out: weft.Tensor = self.stages(x)
            return out

    net = Net()
    compiled: Any = weft.compile(net, split=split)
    x = weft.randn(4, 3)
    weft.testing.assert_close(compiled(x), net(x))
    assert compiled.stages is net.stages and compiled.keep == [1] and compiled.cuts == [1]


def test_functions_of_weft_itself_are_compiled() -> None:
    class Sine(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, gradient: weft.Tensor) -> weft.Tensor:
            (x,) = ctx.saved_tensors
            return gradient * x.cos()

    apply, again = weft.compile(Sine.apply), weft.compile(checkpoint)
    for size in (2, 5, 2):
        x = weft.randn(size, requires_grad=True)
        apply(x).sum().backward()
        weft.testing.assert_close(x.grad, x.detach().cos())
        x.grad = None
        again(weft.sin, x, use_reentrant=False).sum().backward()
        weft.testing.assert_close(x.grad, x.detach().cos())


class _Settings:
    def __init__(self) -> None:
        self.shift = weft.tensor([3.0, 4.0])
        self.factor = 2.0


@pytest.mark.parametrize("is_argument", [True, False])
def test_a_tensor_that_only_a_hook_reads(is_argument: bool) -> None:
    settings = _Settings()

    def step(x: weft.Tensor, given: Any = None) -> weft.Tensor:
        source = settings if given is None else given
        y = x.sin()
        late = y + 1
        y.register_hook(lambda gradient: gradient * source.factor + source.shift + late)
        return y * y

    compiled = weft.compile(step)
    for factor in (2.0, 3.0):
        settings.factor = factor
        for shift in ([1.0, 2.0], [5.0, -1.0]):
            settings.shift = weft.tensor(shift)
            gradients = []
            for run in (step, compiled):
                x = weft.tensor([0.3, 0.4], requires_grad=True)
                (run(x, settings) if is_argument else run(x)).sum().backward()
                gradients.append(x.grad)
            weft.testing.assert_close(*gradients)
