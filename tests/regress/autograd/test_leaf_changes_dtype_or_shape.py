"""A leaf whose dtype or sizes change (`.data =`, model.double()) takes gradients of its new type,
and keeps its hooks."""

from __future__ import annotations

from typing import Any

import pytest

import weft

WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "compiled"])


@WRAPS
@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_model_in_double(wrap: Any, is_dropped: bool) -> None:
    m = weft.nn.Linear(2, 2)
    backward = wrap(lambda x: m(x).sum().backward())
    backward(weft.ones(1, 2))
    m.zero_grad(set_to_none=is_dropped)
    m.double()
    backward(weft.ones(1, 2, dtype=weft.float64))
    assert m.weight.grad is not None and m.weight.grad.dtype is weft.float64
    assert m.weight.grad.tolist() == [[1.0, 1.0]] * 2


def _add_one(p: Any) -> None:
    p.grad.add_(1)


@WRAPS
def test_hooks_stay(wrap: Any) -> None:
    p = weft.nn.Parameter(weft.ones(3))
    seen: list[Any] = []
    step = wrap(lambda: (p * 2).sum().backward())
    step()
    p.register_hook(lambda g: g * 3)
    p.register_post_accumulate_grad_hook(_add_one)
    for dtype in (weft.float64, weft.bfloat16, weft.float32):
        p.data = p.data.to(dtype)
        p.grad = None
        step()
        assert p.grad is not None
        seen.append((p.grad.dtype, p.grad.tolist()))
    assert seen == [(d, [7.0] * 3) for d in (weft.float64, weft.bfloat16, weft.float32)]


@WRAPS
def test_other_sizes(wrap: Any) -> None:
    p = weft.nn.Parameter(weft.ones(3))
    step = wrap(lambda: (p * 2).sum().backward())
    step()
    p.grad = None
    p.data = weft.ones(5)
    step()
    assert p.grad is not None and p.grad.tolist() == [2.0] * 5


@WRAPS
def test_a_gradient_of_before_keeps_its_dtype(wrap: Any) -> None:
    p = weft.nn.Parameter(weft.ones(3))
    step = wrap(lambda: (p * 2).sum().backward())
    step()
    p.data = p.data.double()
    before = p.grad
    step()
    assert p.grad is before and before is not None and before.dtype is weft.float32 and before.tolist() == [4.0] * 3


# PyTorch 2.x: three steps on sum(p * sin(p)) from p = [.1, .43333..], lr a float32 tensor of 0.1, p float64
TORCH = {
    "Adam": [-0.07436784920033722, 0.1389432059426337],
    "NAdam": [-0.005373878759359475, 0.20008487658764565],
    "ASGD": [0.05128590374023217, 0.22911310483771918],
    "RMSprop": [-0.04188875955327759, -0.12821512480128336],
}


@WRAPS
@pytest.mark.parametrize("name", TORCH)
def test_a_tensor_learning_rate(wrap: Any, name: str) -> None:
    p = weft.nn.Parameter(weft.tensor([0.1, 1.3 / 3], dtype=weft.float64))
    options = {"momentum": 0.9, "centered": True} if name == "RMSprop" else {}
    optimizer = getattr(weft.optim, name)([p], lr=weft.tensor(0.1), **options)

    def step() -> None:
        optimizer.zero_grad()
        (p.sin() * p).sum().backward()
        optimizer.step()

    run = wrap(step)
    for _ in range(3):
        run()
    assert p.tolist() == pytest.approx(TORCH[name], rel=1e-14)
