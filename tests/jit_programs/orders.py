"""What a program gives with its first and second gradients, and how two such outcomes are compared."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft
from weft.jit.interpreter.recording.values import NotRecorded


@dataclass
class Orders:
    """The results of a program (or the name of what it raised), and the gradients of its tensors by order."""

    results: Any
    gradients: list[list[Any]] = field(default_factory=list)
    refused: bool = False  # it cannot be captured


def orders_of(function: Any, args: list[Any], most: int = 2) -> Orders:
    """Run a function on copies of the arguments, and differentiate the sum of squares of each order by its leaves."""
    args = copy.deepcopy(args)
    leaves = [a.requires_grad_() for a in args if isinstance(a, weft.Tensor) and a.dtype.is_floating_point]
    try:
        found = function(*args)
    except Exception as error:
        return Orders(_builtin(error), refused=isinstance(error, NotRecorded))
    outcome = Orders(found)
    flowing = _flowing(found)
    for order in range(most):
        if not flowing or not leaves:
            break
        total = sum((t * t).sum() for t in flowing)
        wanted = [t for t in leaves if t.requires_grad]
        try:
            grads = weft.autograd.grad(total, wanted, create_graph=order + 1 < most, allow_unused=True)
        except Exception as error:  # what was saved has been written
            outcome.gradients.append([_builtin(error)] * len(wanted))
            break
        outcome.gradients.append(list(grads))
        flowing = _flowing(tuple(g for g in grads if g is not None))
    return outcome


def _builtin(error: Exception) -> str:
    kinds = [k for k in type(error).__mro__ if (k.__module__ == "builtins" and k is not RuntimeError) or k is Exception]
    return f"raised {kinds[0].__name__}"


def _flowing(found: Any) -> list[weft.Tensor]:
    if isinstance(found, weft.Tensor):
        return [found] if found.requires_grad else []
    return [t for part in found for t in _flowing(part)] if isinstance(found, (tuple, list)) else []


def agree(a: Any, b: Any, exact: bool) -> bool:
    """Whether two outcomes are equal, types included; not exact: but for rounding. An undefined gradient is as good
    as one of zeros.
    """
    if isinstance(a, Orders):
        return agree(a.results, b.results, exact) and all(
            _gradients_agree(x, y, exact) for x, y in zip(_padded(a, b), _padded(b, a), strict=True)
        )
    if isinstance(a, weft.Tensor):
        return isinstance(b, weft.Tensor) and a.dtype is b.dtype and a.shape == b.shape and _numbers_agree(a, b, exact)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(
            agree(x, y, exact) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(agree(a[k], b[k], exact) for k in a)
    if type(a) is float and type(b) is float:
        return a == b or (math.isnan(a) and math.isnan(b)) or (not exact and math.isclose(a, b, rel_tol=1e-8))
    return type(a) is type(b) and bool(a == b)


def _padded(a: Orders, b: Orders) -> list[list[Any]]:
    """The gradients by order; where the other outcome goes on, zeros are as good."""
    widths = [len(g) for g in (a if len(a.gradients) > len(b.gradients) else b).gradients]
    return [*a.gradients, *([None] * w for w in widths[len(a.gradients):])]


def _gradients_agree(a: list[Any], b: list[Any], exact: bool) -> bool:
    return len(a) == len(b) and all(
        agree(x, y, exact) if x is not None and y is not None else x is y or _is_zero(y if x is None else x)
        for x, y in zip(a, b, strict=True)
    )


def _is_zero(gradient: Any) -> bool:
    return isinstance(gradient, weft.Tensor) and not gradient.detach().numpy().any()


def _numbers_agree(a: weft.Tensor, b: weft.Tensor, exact: bool) -> bool:
    x, y = a.detach().numpy(), b.detach().numpy()
    if exact or x.dtype.kind not in "fc":
        return np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
    digits = 1e-7 if x.dtype.itemsize > 4 else 2e-4
    return np.allclose(x, y, rtol=digits, atol=digits, equal_nan=True)


def arguments(rng: np.random.Generator) -> list[Any]:
    """Arguments of a random program f(x, y: float, n: int): a tensor of any rank to 2 and any sizes to 4."""
    shape = tuple(int(s) for s in rng.integers(0 if rng.random() < 0.1 else 1, 5, int(rng.integers(3))))
    x = weft.from_numpy(np.asarray(rng.uniform(-2, 2, shape)))
    return [x, float(np.round(rng.uniform(-3, 3), 2)), int(rng.integers(-3, 9))]
