"""Programs on tensors."""

from __future__ import annotations

import weft
import weft.nn.functional as F
from weft import Tensor

WEIGHT = weft.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 3.0]])


def elementwise(x: Tensor, y: Tensor):
    return (
        x + y,
        x - 2,
        3 - x,
        2 * x,
        x / 2,
        1 / (x * x + 1),
        x**2,
        -x,
        abs(x),
        2**x,
        x // 2,
        x % 2,
        x > y,
        x == y,
        (x > 0) & (y > 0),
        ~(x > 0),
    )


def methods(x: Tensor):
    return (
        x.relu(),
        x.sum(),
        x.sum(0),
        x.mean(1),
        x.sum(dim=1, keepdim=True),
        x.t(),
        x.T,
        x.reshape(-1),
        x.view(3, 2),
        x.unsqueeze(0),
        x.max(),
        x.abs().sqrt(),
    )


def facts(x: Tensor):
    return (
        x.size(0),
        x.size(),
        x.dim(),
        x.numel(),
        x.ndim,
        x.shape[1],
        len(x),
        x.dtype == weft.float32,
        x.is_floating_point(),
        x.requires_grad,
    )


def shapes(x: Tensor):
    n, m = x.shape
    return (
        x.view(m, n),
        x.reshape([n * m]),
        weft.zeros(n, m),
        weft.ones([m, n]),
        weft.full((2,), float(n)),
        x.expand(2, n, m),
        weft.arange(n),
    )


def functions(x: Tensor, y: Tensor):
    return (
        weft.sigmoid(x),
        weft.tanh(x),
        weft.matmul(x, y.t()),
        weft.cat([x, y], dim=1),
        weft.stack([x, y]),
        weft.where(x > 0, x, y),
        weft.clamp(x, -1, 1),
        weft.softmax(x, dim=1),
        F.relu(x),
        F.softmax(x, dim=-1),
        weft.exp(x),
        x @ y.t(),
    )


def losses(x: Tensor, y: Tensor):
    return F.mse_loss(x, y) + F.l1_loss(x, y, reduction="sum")


def indexing(x: Tensor, n: int):
    i = n % 2
    return (
        x[0],
        x[i],
        x[-1],
        x[0, 1],
        x[:, 1],
        x[:, 1:],
        x[..., 0],
        x[None],
        x[0:1],
        x[x > 0],
        x[[0, 1]],
        x[weft.tensor([1, 0])],
        x[:, None, :],
        x[::2],
    )


def writing(x: Tensor, n: int):
    y = x.clone()
    y[0] = 1.0
    y[1, 2] = y[0, 0] + n
    y[:, 0] += 5
    y += 1
    y *= 2
    y.add_(x)
    z = y.clone()
    z[z > 3] = 0.0
    return y, z


def writes_view(x: Tensor) -> Tensor:
    y = x * 1
    row = y[0]
    row.mul_(3.0)
    row += 1
    return y


def loop(x: Tensor, n: int) -> Tensor:
    total = weft.zeros_like(x)
    for i in range(n):
        total = total + x * i
        x = x.tanh()
    return total


def rows(x: Tensor) -> Tensor:
    out = []
    for i in range(x.size(0)):
        out.append(x[i] * i)
    return weft.stack(out)


def recurrent(x: Tensor, h: Tensor) -> Tensor:
    for t in range(x.size(0)):
        h = weft.tanh(x[t] * 0.5 + h * 0.3)
    return h.sum()


def several_results(x: Tensor):
    values, indices = x.max(1)
    found = x.sort(dim=1)
    return values, indices, found.values, x.topk(2, dim=1)[1], x.chunk(3, 1), x.split(2, 1)


def unpacked(x: Tensor) -> Tensor:
    a, b, c = x.chunk(3, 1)
    p, q = x.unbind(0)
    return a * b + c + (p * q).sum()


def numbers(x: Tensor):
    total = x.sum().item()
    return float(x[0, 0]), int(x[0, 0] * 0 + 2), bool(x[0, 0] > 100), x.sum() * 2, float(total) + 1


def closed_over(x: Tensor) -> Tensor:
    return F.linear(x, WEIGHT) + WEIGHT.sum()


def dtypes(x: Tensor):
    return (
        x.to(weft.float64),
        x.double(),
        x.long(),
        x.to(dtype=weft.int32),
        weft.zeros(2, dtype=weft.int64),
        x.type_as(weft.ones(1, dtype=weft.float64)),
        (x > 0).float(),
    )


def written_methods(x: Tensor):
    return x.to("cpu"), x.to(weft.float64), x.new_zeros(2), x.clone().requires_grad_().requires_grad,
    x.contiguous().is_contiguous()


def made(n: int):
    m = abs(n) + 1
    return (
        weft.arange(0, m),
        weft.eye(m),
        weft.linspace(0, 1, m),
        weft.tensor([1, 2, m]),
        weft.tensor([[1.0, 2.0], [3.0, float(m)]]),
        weft.full([m], 2),
        weft.empty(0),
    )


def helper(x: Tensor, k: float) -> Tensor:
    return x * k + 1


def calls(x: Tensor) -> Tensor:
    return helper(helper(x, 2.0), k=0.5)


def untracked(x: Tensor) -> Tensor:
    return x * x.detach()


def scalar_arguments(x: Tensor, s: float, n: int, flag: bool):
    return (
        x * s,
        x + n,
        weft.add(x, x, alpha=2),
        x.clamp(min=s),
        x.clamp(max=0.5),
        x.sum(dim=[0, 1]),
        F.dropout(x, 0.5, False),
        x.add(1, alpha=n),
    )


def normalized(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (var + 1e-5).sqrt() + F.layer_norm(x, [3])
