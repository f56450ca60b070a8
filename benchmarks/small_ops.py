"""Small operators whose cost is all overhead, for any library with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]
ADD = ("add of 4", "add of 4 with grad")


def small_ops(xp: Any) -> dict[str, Call]:
    """Name to a call on tensors of 4 to 16 elements: the two additions of ADD, then thirty others."""
    functional = xp.nn.functional
    x, y, w = xp.randn(4, 4), xp.randn(4, 4), xp.randn(4, 4)
    u, v, leaf = xp.randn(4), xp.randn(4), xp.randn(4, requires_grad=True)
    z, mask, index = xp.zeros(4, 4), x > 0, xp.tensor([0, 2, 1])
    return {
        ADD[0]: lambda: u + v,
        ADD[1]: lambda: leaf + v,
        "x * y": lambda: x * y,
        "x * 2.0": lambda: x * 2.0,
        "-x": lambda: -x,
        "x ** 2": lambda: x**2,
        "x > 0": lambda: x > 0,
        "exp": lambda: x.exp(),
        "tanh": lambda: xp.tanh(x),
        "sigmoid": lambda: xp.sigmoid(x),
        "relu": lambda: functional.relu(x),
        "gelu": lambda: functional.gelu(x),
        "where": lambda: xp.where(mask, x, y),
        "clone": lambda: x.clone(),
        "view": lambda: x.view(16),
        "transpose": lambda: x.transpose(0, 1),
        "x[1]": lambda: x[1],
        "x[:, 1:3]": lambda: x[:, 1:3],
        "x[index]": lambda: x[index],
        "unsqueeze": lambda: x.unsqueeze(0),
        "cat": lambda: xp.cat([x, y]),
        "sum": lambda: x.sum(),
        "sum(0)": lambda: x.sum(0),
        "mean": lambda: x.mean(),
        "max": lambda: x.max(),
        "argmax": lambda: x.argmax(-1),
        "matmul": lambda: x @ y,
        "linear": lambda: functional.linear(x, w, v),
        "softmax": lambda: functional.softmax(x, dim=-1),
        "layer_norm": lambda: functional.layer_norm(x, (4,)),
        "add_": lambda: z.add_(x),
        "zeros": lambda: xp.zeros(4, 4),
    }
