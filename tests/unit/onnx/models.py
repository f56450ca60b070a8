"""Models that are exported: modules, functions that are traced, and scripted ones with branches and loops.

Each is (name, model, arguments, dynamic axes or None). Weights and arguments are drawn by `models`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import weft
import weft.jit
from tests.unit.onnx.control_models import CONTROL
from weft import Tensor, nn
from weft.nn import functional as F

Model = tuple[str, Any, tuple[Any, ...], Any]


# ---- scripted
def branch(x: Tensor):
    return x * 2 if x.sum() > 0 else x - 1


def branch_of_two(x: Tensor, y: Tensor):
    if (x > y).all():
        a, n = x + y, 1
    elif x.mean() > y.mean():
        a, n = x - y, 2
    else:
        a, n = y, 3
    return a, n


def branch_in_place(x: Tensor):
    y = x.clone()
    if x[0, 0] > 0:
        y[0] = 7.0
    else:
        y += 1
    return y, x


def counted(x: Tensor, n: int):
    for i in range(n):
        x = x * 0.5 + i
    return x


def by_size(x: Tensor):
    total = weft.zeros(x.size(1))
    for i in range(x.size(0)):
        total = total + x[i] * i
    return total


def until(x: Tensor):
    steps = 0
    while bool((x > 1).any()):
        x = x / 2
        steps += 1
    return x, steps


def collatz(x: Tensor):
    n = int(x.abs().sum()) + 7
    steps = 0
    while n != 1:
        if n % 2 == 0:  # noqa: SIM108  (as people write it)
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return x + steps


def newton(x: Tensor):
    y = weft.ones_like(x)
    for _ in range(20):
        y = 0.5 * (y + x.abs() / y)
    return y


def nested_loops(x: Tensor):
    out = weft.zeros_like(x)
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            if x[i, j] > 0:
                out[i, j] = x[i, j] * (i + j)
    return out


def break_and_continue(x: Tensor, n: int):
    total = x
    for i in range(n):
        if i == 2:
            continue
        if total.sum() > 100:
            break
        total = total + i
    return total


def listed(x: Tensor):
    rows = []
    for i in range(3):
        rows.append(x[i % x.size(0)] + i)
    return weft.stack(rows)


def growing(x: Tensor):
    y = x
    for _ in range(3):
        y = weft.cat([y, x], 0)
    return y


def early_return(x: Tensor):
    if x.max() > 100:
        return x
    for i in range(5):
        x = x + 1
        if x.min() > 2:
            return x * i
    return -x


def loop_writes(x: Tensor):
    table = weft.zeros(4, 3)
    for i in range(4):
        table[i] = x[0] * i
    return table


def views(x: Tensor):
    y = x.clone()
    column = y[:, 0]
    column.mul_(3)
    y.t()[1].add_(1)
    return y, column


def asserted(x: Tensor):
    assert x.size(0) > 0, "rows"
    if x.sum() != x.sum():
        raise ValueError("not a number")
    return x.exp()


class Recurrent(nn.Module):
    """A loop over time with a gate that is a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.gate = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = weft.zeros(3)
        for t in range(x.size(0)):
            new = weft.tanh(self.cell(x[t] + h))
            h = new if self.gate(h).sum() > 0 else h + new
        return h


SCRIPTED: list[tuple[Any, tuple[str, ...], Any]] = [
    (branch, ("x",), None), (branch_of_two, ("x", "x"), None), (branch_in_place, ("x",), None),
    (counted, ("x", "n"), None), (by_size, ("x",), {"x": {0: "rows"}}), (until, ("x",), None),
    (collatz, ("x",), None), (newton, ("x",), {"x": [0, 1]}), (nested_loops, ("x",), {"x": [0, 1]}),
    (break_and_continue, ("x", "n"), None), (listed, ("x",), None), (growing, ("x",), None),
    (early_return, ("x",), None), (loop_writes, ("x",), None), (views, ("x",), None), (asserted, ("x",), None),
]


# ---- traced
class Attention(nn.Module):
    """A block of a transformer, as people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, t, c))


class Residual(nn.Module):
    """A block of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.body(x))


ROW, IMAGE, LINE, SEQUENCE = (4, 8), (2, 4, 8, 8), (2, 4, 9), (2, 5, 8)
MODULES: list[tuple[Any, tuple[int, ...]]] = [
    (lambda: nn.Linear(8, 3), ROW), (lambda: nn.Bilinear(8, 8, 2), ROW),
    (lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(), nn.Linear(8, 2)), ROW),
    *[(kind, ROW) for kind in (
        nn.ReLU, nn.ELU, nn.SELU, nn.CELU, nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Mish,
        nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.ReLU6, nn.LogSigmoid, nn.Softshrink, nn.Hardshrink,
        nn.Tanhshrink, nn.PReLU, nn.GLU, nn.SiLU, nn.GELU,
    )],
    (lambda: nn.Softmax(-1), ROW), (lambda: nn.LogSoftmax(1), ROW), (lambda: nn.Threshold(0.1, 2.0), ROW),
    (lambda: nn.LayerNorm(8), ROW), (lambda: nn.RMSNorm(8), ROW), (lambda: nn.BatchNorm1d(8), ROW),
    (lambda: nn.GroupNorm(2, 4), IMAGE), (lambda: nn.InstanceNorm2d(4), IMAGE), (lambda: nn.BatchNorm2d(4), IMAGE),
    (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), LINE), (lambda: nn.Conv2d(4, 6, 3, dilation=2), IMAGE),
    (lambda: nn.Conv2d(4, 4, 3, padding="same", groups=2), IMAGE), (lambda: nn.Conv3d(2, 3, 2), (1, 2, 3, 4, 5)),
    (lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1), IMAGE),
    (lambda: nn.ConvTranspose1d(4, 2, 3), LINE), (lambda: nn.MaxPool2d(2), IMAGE), (lambda: nn.MaxPool1d(3, 2), LINE),
    (lambda: nn.AvgPool2d(3, padding=1), IMAGE), (lambda: nn.AdaptiveAvgPool2d(1), IMAGE),
    (lambda: nn.AdaptiveAvgPool2d(4), IMAGE), (lambda: nn.ZeroPad2d(1), IMAGE), (lambda: nn.ReflectionPad2d(2), IMAGE),
    (lambda: nn.ReplicationPad1d(2), LINE), (lambda: nn.Upsample(scale_factor=2), IMAGE),
    (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE), (lambda: nn.PixelShuffle(2), IMAGE),
    (lambda: nn.Flatten(), IMAGE), (lambda: nn.Unflatten(1, (2, 2)), IMAGE), (Attention, SEQUENCE),
    (Residual, IMAGE), (lambda: nn.Sequential(Residual(), nn.Flatten(), nn.Linear(256, 3)), IMAGE),
    (lambda: nn.MultiheadAttention(8, 2, batch_first=True), SEQUENCE), (lambda: nn.LSTM(8, 3), SEQUENCE),
    (lambda: nn.GRU(8, 3, batch_first=True), SEQUENCE), (lambda: nn.RNN(8, 3, bidirectional=True), SEQUENCE),
    (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), SEQUENCE),
]


def traced_functions() -> dict[str, Any]:
    """Functions of one matrix of four rows and eight columns."""
    return {
        "arithmetic": lambda x: (x + 1) * (2 - x) / (x * x + 1) - x**2 + x // 2 + x % 3,
        "comparisons": lambda x: ((x > 0) & (x < 1)) | (x == 2) | ~(x >= 0) | (x != x),
        "reductions": lambda x: (x.sum(), x.mean(1), x.amax(0), x.prod(1, keepdim=True), x.std(1), x.var(), x.norm()),
        "extremes": lambda x: (*x.max(1), x.argmin(), *x.topk(2), *x.sort(0), x.cumsum(1)),
        "shapes": lambda x: (
            x.reshape(2, -1), x.t(), x.unsqueeze(1).expand(-1, 3, -1), x.repeat(2, 1), x.flip(0), x.roll(1, 0)
        ),
        "indices": lambda x: (
            x[1], x[:, 2:5], x[::2], x[..., 0], x[None], x[x > 0], x[weft.tensor([1, 0])],
            x.gather(1, weft.tensor([[0], [1], [2], [3]])), x.index_select(1, weft.tensor([0, 2])),
        ),
        "splits": lambda x: (*x.split(3, 1), *x.chunk(2), *x.unbind(0), weft.stack([x, x]), weft.cat([x, x], 1)),
        "products": lambda x: (x @ x.t(), weft.einsum("ij,kj->ik", x, x), weft.outer(x[0], x[1]), x.mv(x[0])),
        "choices": lambda x: (
            weft.where(x > 0, x, -x), x.clamp(-0.5, 0.5), x.masked_fill(x > 0, 1.0), weft.maximum(x, x * x)
        ),
        "dtypes": lambda x: (x.int(), x.double(), x.bool(), (x * 9).long() // 2, (x * 9).long() % 4, x.half()),
        "triangles": lambda x: (x.tril(), x.triu(1), weft.eye(4), weft.arange(4) + x[:, 0]),
        "losses": lambda x: (
            F.cross_entropy(x, weft.tensor([1, 0, 7, 2])), F.mse_loss(x, x * 2), F.l1_loss(x, -x),
            F.smooth_l1_loss(x, x * 2), F.binary_cross_entropy_with_logits(x, x.sigmoid()),
        ),
        "in place": lambda x: x.clone().add_(1).mul_(2).clamp_(min=0),
        "scattered": lambda x: (
            x.scatter(1, weft.tensor([[0], [1], [2], [3]]), 9.0), x.index_add(0, weft.tensor([0, 2]), x[:2])
        ),
        "signs": lambda x: (
            weft.signbit(x), weft.signbit(x * -0.0), weft.signbit((x * 9).long()), weft.fmax(x, x.sqrt()),
            weft.fmin(x.log(), x), weft.fmax((x * 9).long(), (x * -9).long()),
        ),
        "shrunk": lambda x: (
            F.softshrink(x.sqrt()), F.hardshrink(x.sqrt()), F.softshrink(x, 0.1), F.hardshrink(x * 9, 3.0)
        ),
        "distances": lambda x: (weft.cdist(x, x[:2]), weft.cdist(x.reshape(2, 2, 8), x[:1].reshape(1, 1, 8))),
        "softplus": lambda x: (
            F.softplus(x), F.softplus(x, beta=2.0), F.softplus(x, threshold=0.5), F.softplus(x, 3.0, 1.0)
        ),
        "functions": lambda x: (x.sin(), x.erf(), x.exp().log1p(), x.rsqrt().nan_to_num(), x.logsumexp(1), x.trunc()),
    }


def scripted_models(rng: np.random.Generator) -> Iterator[Model]:
    """Scripted functions with arguments."""
    for function, kinds, axes in SCRIPTED:
        args = tuple(
            int(rng.integers(2, 9)) if k == "n" else weft.from_numpy(rng.uniform(-2, 2, (2, 3)).astype(np.float32))
            for k in kinds
        )
        yield function.__name__, weft.jit.script(function), args, axes


def control_models(rng: np.random.Generator) -> Iterator[Model]:
    """Scripted functions with branches and loops that hang on tensors, rows of any number where they go over rows."""
    yield from scripted_models(rng)
    for function in CONTROL:
        args = (weft.from_numpy(rng.uniform(-2, 2, (2, 3)).astype(np.float32)),)
        yield function.__name__, weft.jit.script(function), args, {"x": {0: "rows"}}


def models(rng: np.random.Generator) -> Iterator[Model]:
    """Every model with arguments, save those of `control_models`."""

    def draw(shape: tuple[int, ...]) -> Tensor:
        return weft.from_numpy(rng.uniform(-2, 2, shape).astype(np.float32))

    yield from scripted_models(rng)
    yield "Recurrent", weft.jit.script(Recurrent()), (draw((4, 3)),), {"x": {0: "time"}}
    for i, (make, shape) in enumerate(MODULES):
        module = make().eval()
        args = (draw(shape),)
        if isinstance(module, nn.Bilinear):
            args *= 2
        if isinstance(module, nn.MultiheadAttention):
            args *= 3
        yield f"{type(module).__name__}[{i}]", module, args, None
    for name, function in traced_functions().items():
        yield name, function, (draw((4, 8)),), None
    yield "scripted LSTM", weft.jit.script(nn.LSTM(8, 3)), (draw(SEQUENCE),), None
    yield "Embedding", nn.Embedding(7, 3), (weft.from_numpy(rng.integers(0, 7, (2, 4))),), None


# ---- what is compared
def flat(value: Any) -> list[Any]:
    """The tensors and numbers of a result."""
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in flat(part)]
    if isinstance(value, dict):
        return flat(list(value.values()))
    return [] if value is None else [value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)]


def copied(args: Any) -> Any:
    """The arguments again, for a model that writes to them."""
    return tuple(a.clone() if isinstance(a, Tensor) else a for a in args)


def others(args: Any, rng: np.random.Generator) -> Any:
    """Other values of the same sizes."""
    return tuple(
        weft.from_numpy(rng.uniform(-2, 2, tuple(a.shape)).astype(a.numpy().dtype))
        if isinstance(a, Tensor) and a.is_floating_point() else a for a in args
    )


def kinds(graph: Any) -> Counter[str]:
    """How often each operator stands in a graph, inner ones included."""
    found = Counter(node.op_type for node in graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            found += kinds(attribute.g) if attribute.HasField("g") else Counter()
    return found
