"""A compiled function may write into arguments that have a history, or give them one: the caller's graph goes on
through the call, at every order, and versions rise as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor


def _scaled(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return x * y


def _alone(x: Tensor, y: Tensor) -> None:
    x.mul_(y)


def _through_slice(x: Tensor, y: Tensor) -> Tensor:
    x[1:].mul_(y[1:])
    return x * y


def _through_view(x: Tensor, y: Tensor) -> Tensor:
    v = x.view(-1, 1)
    v.add_(y.view(-1, 1))
    return v * v


def _seen_by_view(x: Tensor, y: Tensor) -> Tensor:
    v = x[:2]
    x.mul_(y)
    return v * 2


def _twice(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin_().mul_(y), x[1:]


def _replaced(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(y)
    return x * 2


def _detached(x: Tensor, y: Tensor) -> Tensor:
    out = x + y
    x.detach_()
    return out * x


def _asking(x: Tensor, y: Tensor) -> Tensor:
    return (x if x.requires_grad else x.requires_grad_()) * y


_FUNCTIONS = [
    _scaled, _alone, _through_slice, _through_view, _seen_by_view, _twice, _replaced, _detached, _asking,
]
_ARGUMENTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "computed": lambda a, plain: a * 1.3, "part": lambda a, plain: weft.cat([a, a * 2])[2:5].view(3),
    "plain": lambda a, plain: plain, "plain_part": lambda a, plain: plain[:],
    "columns": lambda a, plain: (a.view(3, 1) * weft.tensor([1.0, 2.0], dtype=weft.float64))[:, 1],
}


def _outcome(function: Callable[..., Any], make: Callable[[Tensor, Tensor], Tensor], data: np.ndarray) -> list[Any]:
    """Two calls on the same leaves, the second on what is made of what the first wrote."""
    a, b, plain = (weft.tensor(row) for row in data)
    leaves = [a.requires_grad_(), b.requires_grad_()]
    x = make(a, plain)
    y, total, found = b * 1.5, a.sum() * 0, []
    for _ in range(2):
        for out in function(x, y), x, plain:
            for part in out if isinstance(out, tuple) else (out,):
                if part is not None:
                    kept = part.clone()
                    total = total + (kept * kept.cos()).sum()
                    found += [part.detach().numpy().copy(), part.requires_grad]
        found += [x._version, plain._version, x.is_leaf, plain.is_leaf]
        if x.is_leaf and x.requires_grad:
            return found
        x = x * 0.9
    for order in range(3):
        grads = weft.autograd.grad(total, leaves, create_graph=order < 2, allow_unused=True)
        found += [np.zeros(3) if g is None else g.detach().numpy() for g in grads]
        total = weft.stack([(g * g * 1e-2).sum() for g in grads if g is not None]).sum()
        if not total.requires_grad:
            break
    return found


@pytest.mark.parametrize("kind", _ARGUMENTS)
@pytest.mark.parametrize("function", _FUNCTIONS)
def test_caller_sees_what_eager_mode_does(
    function: Callable[..., Any], kind: str, rng: np.random.Generator
) -> None:
    data = rng.uniform(0.3, 0.9, (3, 3))
    if function is _detached and kind != "computed":
        return
    compiled = weft.compile(function, backend="interpret")
    for _ in range(2):
        expected = _outcome(function, _ARGUMENTS[kind], data)
        found = _outcome(compiled, _ARGUMENTS[kind], data)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7)


def test_native_programs_keep_what_they_overwrite() -> None:
    for function in (_scaled, _twice):
        data = np.linspace(0.4, 0.8, 9).reshape(3, 3)
        expected = _outcome(function, _ARGUMENTS["computed"], data)
        found = _outcome(weft.compile(function), _ARGUMENTS["computed"], data)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7)


def test_what_eager_mode_refuses_is_refused() -> None:
    f = weft.compile(_scaled)
    leaf, y = weft.ones(3, requires_grad=True), weft.ones(3)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        f(leaf, y)
    f(leaf * 1, y)
    for x in (leaf, leaf[:2]):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place oper"):
            f(x, y[: len(x)])
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and is being modified inplace"):
        f((weft.ones(2, 3, requires_grad=True) * 1).unbind()[0], y)
    assert leaf.tolist() == [1, 1, 1] and leaf._version == 0


def test_hooks_and_kept_gradients_are_those_of_the_new_history() -> None:
    seen = []
    for function in (_scaled, weft.compile(_scaled)):
        leaf = weft.arange(1.0, 4.0).requires_grad_()
        x, y, told = leaf * 3, weft.ones(3), []
        x.retain_grad()
        x.register_hook(lambda g, told=told: told.append(g.tolist()))
        function(x, y)
        (x * 2).sum().backward()
        seen.append((told, leaf.grad.tolist(), x.grad.tolist(), x._version))
    assert seen[0] == seen[1]
