"""Eight families of models as training programs, in source text that PyTorch runs too: a perceptron, a recurrent net, a
transformer, a convolutional net, a variational autoencoder, a critic with a gradient penalty, a normalizing flow, and
attention over a cache that is written in place.

Each source defines `model`, `optimizer` and `step(*inputs)`, which returns a loss. `inputs(rng, i)` draws what the i-th
call is given; sizes differ from call to call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CALLS = 5


@dataclass(frozen=True)
class Family:
    """source: the program's text. inputs: the arrays of a call."""

    source: str
    inputs: Callable[[np.random.Generator, int], tuple[Array, ...]]


@dataclass(frozen=True)
class Outcome:
    """losses: one for each call. tensors: what the model holds at the end, by name."""

    losses: Array
    tensors: dict[str, Array]


def run(
    family: Family, library: Any, wrap: Callable[[Any], Any] | None = None, device: str = "cpu",
    after: Callable[[], None] = lambda: None,
) -> Outcome:
    """Train a family's model with weft, or with another library of the same interface. `wrap` makes the step another
    one (weft.compile); `after` is called behind each step.
    """
    library.set_default_dtype(library.float64)
    scope: dict[str, Any] = {"lib": library, "nn": library.nn, "F": library.nn.functional, "DEVICE": device}
    try:
        source = dedent(family.source)
        exec(source.partition("optimizer = ")[0], scope)
        fill(scope["model"], library, device)
        exec("optimizer = " + source.partition("optimizer = ")[2], scope)
        step = scope["step"] if wrap is None else wrap(scope["step"])
        losses = []
        for i in range(CALLS):
            arrays = family.inputs(np.random.default_rng([7, i]), i)
            loss = step(*[library.from_numpy(a).to(device) for a in arrays])
            after()
            losses.append(float(loss.detach()))
        tensors = {name: value.detach().cpu().numpy().copy() for name, value in scope["model"].state_dict().items()}
        return Outcome(np.array(losses), tensors)
    finally:
        library.set_default_dtype(library.float32)


def fill(model: Any, library: Any, device: str) -> None:
    """Parameters from NumPy, so that two libraries start alike, on a device."""
    rng = np.random.default_rng(11)
    with library.no_grad():
        for p in model.parameters():
            p.copy_(library.from_numpy(rng.uniform(-0.5, 0.5, tuple(p.shape))))
    model.to(device)


def _size(i: int) -> int:
    """The batch of the i-th call."""
    return (4, 4, 7, 3, 4)[i]


_MLP = """
    model = nn.Sequential(nn.Linear(5, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss
"""

_LSTM = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(3, 6, num_layers=2)
            self.out = nn.Linear(6, 2)

        def forward(self, x):
            h, (last, cell) = self.rnn(x)
            return self.out(h), last.sum() + cell.square().mean()

    model = Model()
    optimizer = lib.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        out, extra = model(x)
        loss = F.mse_loss(out, y) + 0.01 * extra
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.3)
        optimizer.step()
        return loss
"""

_GPT = """
    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width)
            self.project, self.second = nn.Linear(width, width), nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, x):
            b, t, w = x.shape
            q, k, v = self.mix(self.norm(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(a.transpose(1, 2).reshape(b, t, w))
            return x + self.down(F.gelu(self.up(self.second(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(9, 8)
            self.blocks = nn.ModuleList([Block(8, 2), Block(8, 2)])
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x):
            h = self.tokens(x) + self.places(lib.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                h = block(h)
            return self.head(h)

    model = Model()
    optimizer = lib.optim.AdamW(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss
"""

_CONV = """
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, groups=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
"""

_VAE = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(6, 8), nn.Linear(4, 6)

        def forward(self, x, noise):
            mean, log_variance = self.encode(x).chunk(2, -1)
            z = mean + noise * (0.5 * log_variance).exp()
            apart = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(-1)
            return self.decode(z), apart.mean()

    model = Model()
    optimizer = lib.optim.Adam(model.parameters(), lr=0.02, amsgrad=True)

    def step(x, noise):
        optimizer.zero_grad()
        made, apart = model(x, noise)
        loss = F.binary_cross_entropy_with_logits(made, x.sigmoid(), reduction="sum") / x.shape[0] + apart
        loss.backward()
        optimizer.step()
        return loss
"""

_PENALTY = """
    model = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 12), nn.Softplus(), nn.Linear(12, 1))
    optimizer = lib.optim.RMSprop(model.parameters(), lr=0.005)

    def step(real, false, mix):
        optimizer.zero_grad()
        between = (mix * real + (1 - mix) * false).requires_grad_()
        (slope,) = lib.autograd.grad(model(between).sum(), between, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = model(false).mean() - model(real).mean() + 10 * penalty
        loss.backward()
        optimizer.step()
        return loss
"""

_FLOW = """
    class Coupling(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first = first
            self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

        def forward(self, x):
            kept, moved = x[:, self.first::2], x[:, 1 - self.first::2]
            scale, shift = self.net(kept).chunk(2, 1)
            scale = scale.tanh()
            out = lib.zeros_like(x)
            out[:, self.first::2] = kept
            out[:, 1 - self.first::2] = moved * scale.exp() + shift
            return out, scale.sum(1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Coupling(i % 2) for i in range(3)])

        def forward(self, x):
            total = lib.zeros(x.shape[0], device=x.device)
            for layer in self.layers:
                x, change = layer(x)
                total += change
            return x, total

    model = Model()
    optimizer = lib.optim.Adam(model.parameters(), lr=0.02)

    def step(x):
        optimizer.zero_grad()
        z, change = model(x)
        loss = (0.5 * z.square().sum(1) - change).mean()
        loss.backward()
        optimizer.step()
        return loss
"""

_CACHE = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.out = nn.Linear(4, 12), nn.Linear(4, 4)
            self.register_buffer("keys", lib.zeros(2, 8, 4))
            self.register_buffer("values", lib.zeros(2, 8, 4))

        def forward(self, x, begin):
            q, k, v = self.mix(x).split(4, -1)
            count = x.shape[1]
            with lib.no_grad():
                self.keys[:, begin:begin + count] = k
                self.values[:, begin:begin + count].copy_(v)
            keys = lib.cat([self.keys[:, :begin].clone(), k], 1)
            values = lib.cat([self.values[:, :begin].clone(), v], 1)
            weights = (q @ keys.transpose(1, 2) / 2.0).softmax(-1)
            return self.out(weights @ values)

    model = Model()
    optimizer = lib.optim.Adagrad(model.parameters(), lr=0.05)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(x[:, :3], 0), y[:, :3])
        for t in range(3, 6):
            loss = loss + F.smooth_l1_loss(model(x[:, t:t + 1], t), y[:, t:t + 1])
        loss.backward()
        optimizer.step()
        return loss
"""

FAMILIES = {
    "mlp": Family(_MLP, lambda r, i: (r.standard_normal((_size(i), 5)), r.integers(0, 3, _size(i)))),
    "lstm": Family(_LSTM, lambda r, i: (r.standard_normal((4, _size(i), 3)), r.standard_normal((4, _size(i), 2)))),
    "gpt": Family(_GPT, lambda r, i: (r.integers(0, 11, (_size(i), 7)),)),
    "conv": Family(_CONV, lambda r, i: (r.standard_normal((_size(i), 2, 8, 8)), r.integers(0, 3, _size(i)))),
    "vae": Family(_VAE, lambda r, i: (r.standard_normal((_size(i), 6)), r.standard_normal((_size(i), 4)))),
    "penalty": Family(
        _PENALTY, lambda r, i: (r.standard_normal((_size(i), 4)), r.random((_size(i), 4)), r.random((_size(i), 1)))
    ),
    "flow": Family(_FLOW, lambda r, i: (r.standard_normal((_size(i), 4)),)),
    "cache": Family(_CACHE, lambda r, i: (r.standard_normal((2, 6, 4)), r.standard_normal((2, 6, 4)))),
}
