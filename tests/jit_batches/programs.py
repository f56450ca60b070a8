"""Programs of one example, by what they do with it: x [1, n, 3], w [3, 3], i [1, n] (indices below 3, and below n)."""

from __future__ import annotations

import math

import weft
import weft.nn.functional as F
from weft import Tensor


def linear(x, w, i):
    return F.linear(x, w)


def layer_norm(x, w, i):
    return F.layer_norm(x, [3])


def embedding(x, w, i):
    return F.embedding(i, w)


def dropout(x, w, i):
    return F.dropout(x, 0.5, False) * 2


def attention(x, w, i):
    return weft.softmax(x @ x.transpose(1, 2) / 2.0, -1) @ (x @ w)


def sdpa(x, w, i):
    return F.scaled_dot_product_attention(x, x @ w, x)


def conv(x, w, i):
    return F.conv1d(x.transpose(1, 2), w.unsqueeze(2), padding=0)


def gather(x, w, i):
    return x.gather(1, i.unsqueeze(2).expand(1, i.size(1), 3))


def chunk(x, w, i):
    a, b, c = x.chunk(3, 2)
    return a * b + c


def split(x, w, i):
    parts = x.split(1, 2)
    return parts[0] - parts[2]


def unbind(x, w, i):
    total = weft.zeros(1, 3, dtype=weft.float64)
    for row in x.unbind(1):
        total = total * 0.5 + row
    return total


def iterate(x, w, i):
    total = weft.zeros(x.size(1), 3, dtype=weft.float64)
    for part in x:
        total = total + part
    return total.unsqueeze(0)


def mask(x, w, i):
    return x.masked_fill(x > 0.2, -1.0)


def boolindex(x, w, i):
    return x[x > 0].unsqueeze(0)


def nonzero(x, w, i):
    return weft.nonzero(x > 0).to(weft.float64).unsqueeze(0)


def index(x, w, i):
    return x[:, i[0]]


def pad(x, w, i):
    return F.pad(x, [0, 0, 1, 2])


def sort(x, w, i):
    return weft.sort(x, 1)[0] + weft.sort(x, 1, True)[0]


def median(x, w, i):
    return x.median(1)[0]


def norm(x, w, i):
    return x.norm(dim=1) + x.norm()


def var(x, w, i):
    return x.var(2) + weft.var(x, [2], False)


def std(x, w, i):
    return x.std(2, True)


def answers(x, w, i):
    return (x > 0.5).any(1) | (x < 1).all(1)


def where(x, w, i):
    return weft.where(x > 0, x, 0.5) + weft.where(x > 0, x, x * 2)


def clamp(x, w, i):
    return x.clamp(-0.2, 0.5) + x.relu() + F.gelu(x) + F.leaky_relu(x)


def flat(x, w, i):
    return x.flatten(1)


def permute(x, w, i):
    return x.permute(0, 2, 1).contiguous().view(1, 3, -1)


def stack(x, w, i):
    return weft.stack([x, x * 2], 2)


def repeat(x, w, i):
    return x.repeat(1, 2, 1)


def expand(x, w, i):
    return x[:, :1].expand(1, x.size(1), 3) * x


def arange(x, w, i):
    return x * weft.arange(x.size(1)).unsqueeze(1)


def zeros(x, w, i):
    y = weft.zeros(x.size(1), 3, dtype=weft.float64)
    y[0] = 1.5
    return y.unsqueeze(0) + x


def tril(x, w, i):
    return weft.tril(x @ x.transpose(1, 2))


def einsum(x, w, i):
    return weft.einsum("bij,jk->bik", x, w)


def bmm(x, w, i):
    return weft.bmm(x, x.transpose(1, 2))


def outer(x, w, i):
    return x[:, :, 0].unsqueeze(2) * x[:, :, 1].unsqueeze(1)


def ce(x, w, i):
    return F.cross_entropy(x[0], i[0] % 3).reshape(1)


def mse(x, w, i):
    return F.mse_loss(x, x * 0.5).reshape(1)


def roll(x, w, i):
    return weft.roll(x, 1, 1)


def cummax(x, w, i):
    return weft.cummax(x, 1)[0] + weft.logcumsumexp(x, 1)


def prod(x, w, i):
    return x.prod(1) + x.prod()


def argsort(x, w, i):
    return x.argsort(1)


def lesser(x, w, i):
    return x.min() + x.max() * x.amax(1) - x.amin(2).sum()


def item(x, w, i):
    return x * x[0, 0, 0].item() + float(x.sum())


def ints(x, w, i):
    return (i * 2 + 1) // 3 + i % 2


def numel(x, w, i):
    return x / x.numel() + len(x) + x.dim() + x.size(-1)


def shape(x, w, i):
    b, n, d = x.shape
    return x.reshape(b, d, n) * n


def dtype(x, w, i):
    return x.to(weft.float32).double() + x.type_as(x)


def select_neg(x, w, i):
    return x.select(1, -1) + x[:, -1] * x[:, 0]


def strides(x, w, i):
    return x[:, ::2].sum(1) + x[:, 1:].sum(1) + x[:, :-1].sum(1)


def onehot(x, w, i):
    return F.one_hot(i, 6)


def detach(x, w, i):
    return x.detach() * x


def nograd(x, w, i):
    with weft.no_grad():
        y = x * 2
    return y * x


def inplace(x, w, i):
    y = x.clone()
    y.add_(1).mul_(x)
    y[:, 0] = x[:, 0] * 2
    return y


def scatter(x, w, i):
    return weft.zeros_like(x).scatter(1, i.unsqueeze(2).expand(1, i.size(1), 3) % x.size(1), x)


def full_like(x, w, i):
    return weft.full_like(x, 0.3) + weft.ones_like(x) * x


def kl(x, w, i):
    return F.softplus(x).sum([1, 2]) + F.log_softmax(x, -1).mean((1, 2))


def lists(x, w, i):
    rows: list[Tensor] = []
    for k in range(x.size(1)):
        rows.append(x[:, k] * k)
    rows.reverse()
    return weft.stack(rows, 1)


def named(x, w, i):
    d = {"a": x, "b": x * 2}
    if x.sum() > 0:
        d["a"] = x * 3
    return d["a"] + d["b"]


def optional(x, w, i):
    y: Tensor | None = None
    if x.sum() > 0:
        y = x * 2
    if y is not None:
        return y
    return x


def string(x, w, i):
    mode = "up" if x.sum() > 0 else "down"
    return x + 1 if mode == "up" else x - 1


def pairs(x, w, i):
    t = (x, x.size(1))
    if x.sum() > 0:
        t = (x * 2, 3)
    return t[0] * t[1]


def maths(x, w, i):
    n = x.size(1)
    k = 0
    while k * k < n:
        k += 1
    return x * math.sqrt(n) + k ** 2 + max(n, 3) - min(k, n)


def deep(x, w, i):
    for a in range(x.size(1)):
        for b in range(a):
            if x[0, a, 0] > x[0, b, 0]:  # noqa: SIM108
                x = x * 0.9
            else:
                x = x + 0.1 * b
    return x


PROGRAMS = {
    name: function for name, function in list(globals().items())
    if getattr(function, "__module__", None) == __name__
}
