"""Training steps and loops of several shapes, written once for weft and for PyTorch:
each builder takes the module it is to use.

A builder is called with (library, compile) and returns `step(i)`, which runs one whole step on the i-th of its batches
and returns a tensor (or None). `compile` is the identity for eager runs. Weights and data come from NumPy, so that
every library starts from the same arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.gpt import GptSizes, attention_mask, fill, gpt, weights_of

Array = numpy.ndarray[Any, Any]
Step = Callable[[int], Any]
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
Builder = Callable[[Any, Compile], Step]
WORKLOADS: dict[str, Builder] = {}


def workload(name: str) -> Callable[[Builder], Builder]:
    """Enter a builder under its name; its docstring is what --list shows."""

    def enter(builder: Builder) -> Builder:
        WORKLOADS[name] = builder
        return builder

    return enter


def normal(random: numpy.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normal float32 numbers."""
    return (random.standard_normal(shape) * scale).astype(numpy.float32)


def leaves(xp: Any, arrays: dict[str, Array]) -> dict[str, Any]:
    """Tensors that ask for gradients."""
    return {name: xp.tensor(array, requires_grad=True) for name, array in arrays.items()}


def batches_of(xp: Any, batches: list[tuple[Array, ...]]) -> list[tuple[Any, ...]]:
    """Tensors of every batch."""
    return [tuple(xp.tensor(array) for array in batch) for batch in batches]


def gradients(
    parameters: list[Any], loss_of: Callable[..., Any], batches: list[tuple[Any, ...]], compile: Compile
) -> Step:
    """The step that computes a loss and its gradients."""

    def step(*batch: Any) -> Any:
        for parameter in parameters:
            parameter.grad = None
        loss = loss_of(*batch)
        loss.backward()
        return loss.detach()

    run = compile(step)
    return lambda i: run(*batches[i % len(batches)])


def training(optimizer: Any, loss_of: Callable[..., Any], batches: list[tuple[Any, ...]], compile: Compile) -> Step:
    """The step that also updates the parameters."""

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compile(step)
    return lambda i: run(*batches[i % len(batches)])


# ---------------------------------------------------------------- kernels


def _bias_gelu(xp: Any, compile: Compile, rows: int, columns: int) -> Step:
    random = numpy.random.default_rng(11)
    p = leaves(xp, {
        "x": normal(random, rows, columns), "residual": normal(random, rows, columns),
        "bias": normal(random, columns), "scale": 1 + normal(random, columns, scale=0.1),
    })

    def loss(weight: Any) -> Any:
        return ((p["residual"] + p["scale"] * xp.nn.functional.gelu(p["x"] + p["bias"])) * weight).mean()

    return gradients(list(p.values()), loss, batches_of(xp, [(numpy.abs(normal(random, rows, columns)),)]), compile)


@workload("W1a")
def bias_gelu_small(xp: Any, compile: Compile) -> Step:
    """bias, GELU, scaled residual on 1,000 elements, with gradients"""
    return _bias_gelu(xp, compile, 10, 100)


@workload("W1b")
def bias_gelu_medium(xp: Any, compile: Compile) -> Step:
    """the same on 100,000 elements"""
    return _bias_gelu(xp, compile, 100, 1000)


@workload("W1c")
def bias_gelu_large(xp: Any, compile: Compile) -> Step:
    """the same on 10,000,000 elements"""
    return _bias_gelu(xp, compile, 10_000, 1000)


@workload("W2")
def norm_and_loss(xp: Any, compile: Compile) -> Step:
    """layer norm and cross entropy of (4096, 1024), with gradients"""
    rows, columns, functional = 4096, 1024, xp.nn.functional
    random = numpy.random.default_rng(12)
    p = leaves(xp, {
        "x": normal(random, rows, columns), "scale": 1 + normal(random, columns, scale=0.1),
        "shift": normal(random, columns, scale=0.1),
    })

    def loss(targets: Any) -> Any:
        return functional.cross_entropy(functional.layer_norm(p["x"], (columns,), p["scale"], p["shift"]), targets)

    return gradients(list(p.values()), loss, batches_of(xp, [(random.integers(0, columns, rows),)]), compile)


@workload("W11")
def causal_attention(xp: Any, compile: Compile) -> Step:
    """causal attention (batch 4, heads 8, sequence 512, width 64), with gradients"""
    random = numpy.random.default_rng(21)
    shape = (4, 8, 512, 64)
    p = leaves(xp, {name: normal(random, *shape) for name in ("q", "k", "v")})

    def loss(weight: Any) -> Any:
        attended = xp.nn.functional.scaled_dot_product_attention(p["q"], p["k"], p["v"], is_causal=True)
        return (attended * weight).sum() / 1000

    return gradients(list(p.values()), loss, batches_of(xp, [(normal(random, *shape),)]), compile)


@workload("W14")
def small_chain(xp: Any, compile: Compile) -> Step:
    """504 operators on 64 elements, views and in-place writes among them, with gradients"""
    random = numpy.random.default_rng(24)
    p = leaves(xp, {
        "x": normal(random, 64), "w": (1 + 0.1 * random.uniform(-1, 1, 64)).astype(numpy.float32),
        "b": normal(random, 64, scale=0.1), "v": normal(random, 64),
    })

    def loss() -> Any:
        x, w, b, v = p["x"], p["w"], p["b"], p["v"]
        for block in range(36):
            x = x * w
            x.add_(b)
            y = x.view(8, 8).t()
            y[block % 8].mul_(0.97)
            z = y.sin()
            z.mul_(0.9)
            x = z.reshape(64)
            x[::2].add_(b[::2])
            x = x + v * 0.1
        return (x * x).sum()

    return gradients(list(p.values()), loss, [()], compile)


# ---------------------------------------------------------------- optimizers


def _adam_alone(xp: Any, compile: Compile, shapes: list[tuple[int, ...]]) -> Step:
    random = numpy.random.default_rng(13)
    parameters = [xp.tensor(normal(random, *shape), requires_grad=True) for shape in shapes]
    optimizer = xp.optim.Adam(parameters, lr=1e-3)
    for parameter in parameters:
        parameter.grad = xp.tensor(normal(random, *parameter.shape, scale=0.1))
    run = compile(optimizer.step)
    return lambda i: run()


@workload("W3a")
def adam_many(xp: Any, compile: Compile) -> Step:
    """Adam's update of 100 small parameters"""
    return _adam_alone(xp, compile, [(64, 64), (64,)] * 50)


@workload("W3b")
def adam_large(xp: Any, compile: Compile) -> Step:
    """Adam's update of 10 parameters of 1024 x 1024"""
    return _adam_alone(xp, compile, [(1024, 1024)] * 10)


# ---------------------------------------------------------------- training steps


def _dense(random: numpy.random.Generator, sizes: tuple[int, ...]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        bound = inputs**-0.5
        found[f"{i}.weight"] = random.uniform(-bound, bound, (outputs, inputs)).astype(numpy.float32)
        found[f"{i}.bias"] = random.uniform(-bound, bound, outputs).astype(numpy.float32)
    return found


def _network(xp: Any, random: numpy.random.Generator, sizes: tuple[int, ...], activation: Callable[[Any], Any]) -> Any:
    class Network(xp.nn.ModuleList):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            last = len(self) - 1
            for i, layer in enumerate(self):
                x = layer(x) if i == last else activation(layer(x))
            return x

    network = Network([xp.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)])
    fill(xp, network, _dense(random, sizes))
    return network


@workload("W4")
def classifier(xp: Any, compile: Compile) -> Step:
    """a 64-128-128-10 network on batches of 32, Adam"""
    random = numpy.random.default_rng(14)
    functional = xp.nn.functional
    network = _network(xp, random, (64, 128, 128, 10), functional.relu)
    batches = batches_of(xp, [(normal(random, 32, 64), random.integers(0, 10, 32)) for _ in range(4)])
    return training(
        xp.optim.Adam(network.parameters(), lr=1e-3),
        lambda x, t: functional.cross_entropy(network(x), t), batches, compile,
    )


@workload("W5")
def recurrent(xp: Any, compile: Compile) -> Step:
    """an LSTM over 64 characters as a Python loop (batch 16, hidden 128, vocabulary 96), Adam"""
    random = numpy.random.default_rng(15)
    length, batch, hidden, embedded, vocabulary = 64, 16, 128, 64, 96
    functional, scale = xp.nn.functional, 128**-0.5
    p = leaves(xp, {
        "table": normal(random, vocabulary, embedded), "bias": normal(random, 4 * hidden, scale=scale),
        "input": normal(random, 4 * hidden, embedded, scale=scale),
        "hidden": normal(random, 4 * hidden, hidden, scale=scale),
        "output": normal(random, vocabulary, hidden, scale=scale),
        "output_bias": normal(random, vocabulary, scale=scale),
    })

    def loss(tokens: Any, targets: Any) -> Any:
        x = functional.embedding(tokens, p["table"])
        state = cell = xp.zeros(batch, hidden)
        states = []
        for t in range(length):
            gates = functional.linear(x[:, t], p["input"], p["bias"]) + functional.linear(state, p["hidden"])
            enter, forget, candidate, leave = gates.chunk(4, dim=1)
            cell = xp.sigmoid(forget) * cell + xp.sigmoid(enter) * xp.tanh(candidate)
            state = xp.sigmoid(leave) * xp.tanh(cell)
            states.append(state)
        scores = functional.linear(xp.stack(states, dim=1), p["output"], p["output_bias"])
        return functional.cross_entropy(scores.reshape(batch * length, vocabulary), targets.reshape(batch * length))

    drawn = [tuple(random.integers(0, vocabulary, (batch, length)) for _ in range(2)) for _ in range(4)]
    return training(xp.optim.Adam(list(p.values()), lr=1e-3), loss, batches_of(xp, drawn), compile)


def _gpt_training(xp: Any, compile: Compile, sizes: GptSizes, shapes: list[tuple[int, int]]) -> Step:
    random = numpy.random.default_rng(16)
    model = gpt(xp, sizes)
    fill(xp, model, weights_of(random, sizes, 0.02))

    def loss(tokens: Any, targets: Any) -> Any:
        return xp.nn.functional.cross_entropy(model(tokens).reshape(-1, sizes.vocabulary), targets.reshape(-1))

    drawn = [tuple(random.integers(0, sizes.vocabulary, shape) for _ in range(2)) for shape in shapes]
    return training(xp.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1), loss, batches_of(xp, drawn), compile)


@workload("W6")
def gpt_step(xp: Any, compile: Compile) -> Step:
    """a GPT of 4 layers, width 128, 4 heads, sequence 128, batch 8, AdamW"""
    return _gpt_training(xp, compile, GptSizes(), [(8, 128)] * 4)


@workload("W7")
def convolutional(xp: Any, compile: Compile) -> Step:
    """a network of two convolutions with pooling on 28 x 28 images, batch 64, SGD with momentum"""
    random = numpy.random.default_rng(17)
    nn, functional = xp.nn, xp.nn.functional

    class Network(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            self.last = nn.Linear(32 * 49, 10)

        def forward(self, x: Any) -> Any:
            x = functional.max_pool2d(functional.relu(self.first(x)), 2)
            x = functional.max_pool2d(functional.relu(self.second(x)), 2)
            return self.last(x.flatten(1))

    network, bound = Network(), (32 * 49) ** -0.5
    fill(xp, network, {
        "first.weight": normal(random, 16, 1, 3, 3, scale=0.3), "first.bias": normal(random, 16, scale=0.1),
        "second.weight": normal(random, 32, 16, 3, 3, scale=0.1), "second.bias": normal(random, 32, scale=0.1),
        "last.weight": random.uniform(-bound, bound, (10, 32 * 49)).astype(numpy.float32),
        "last.bias": random.uniform(-bound, bound, 10).astype(numpy.float32),
    })
    batches = batches_of(xp, [(normal(random, 64, 1, 28, 28), random.integers(0, 10, 64)) for _ in range(4)])
    optimizer = xp.optim.SGD(network.parameters(), lr=1e-2, momentum=0.9)
    return training(optimizer, lambda x, t: functional.cross_entropy(network(x), t), batches, compile)


@workload("W10")
def residual_block(xp: Any, compile: Compile) -> Step:
    """two convolutions with batch norm and a residual on (32, 64, 32, 32), with gradients"""
    random = numpy.random.default_rng(20)
    functional, batch, channels, size = xp.nn.functional, 32, 64, 32
    drawn = {"x": normal(random, batch, channels, size, size)}
    for j in "12":
        drawn["w" + j] = normal(random, channels, channels, 3, 3, scale=(2 / (9 * channels)) ** 0.5)
        drawn["scale" + j] = 1 + normal(random, channels, scale=0.1)
        drawn["shift" + j] = normal(random, channels, scale=0.1)
    p = leaves(xp, drawn)
    means = {j: xp.zeros(channels) for j in "12"}
    variances = {j: xp.ones(channels) for j in "12"}

    def norm(x: Any, j: str) -> Any:
        scale, shift = p["scale" + j], p["shift" + j]
        return functional.batch_norm(x, means[j], variances[j], scale, shift, training=True, momentum=0.1)

    def loss(weight: Any) -> Any:
        hidden = functional.relu(norm(functional.conv2d(p["x"], p["w1"], padding=1), "1"))
        out = functional.relu(norm(functional.conv2d(hidden, p["w2"], padding=1), "2") + p["x"])
        return (out * weight).sum() / 10_000 + out.mean()

    return gradients(list(p.values()), loss, batches_of(xp, [(normal(random, batch, channels, size, size),)]), compile)


@workload("W9")
def gpt_shapes(xp: Any, compile: Compile) -> Step:
    """a GPT of 2 layers, width 64, whose batch and sequence differ at each of 20 steps, AdamW"""
    random = numpy.random.default_rng(19)
    shapes = [(int(random.integers(2, 9)), int(random.integers(16, 129))) for _ in range(20)]
    return _gpt_training(xp, compile, GptSizes(layers=2, width=64), shapes)


@workload("W12")
def gpt_decode(xp: Any, compile: Compile) -> Step:
    """128 tokens decoded one by one by the GPT of W6, its cache of keys and values written in place"""
    sizes, random = GptSizes(), numpy.random.default_rng(22)
    model = gpt(xp, sizes)
    fill(xp, model, weights_of(random, sizes, 0.15))
    shape = (1, sizes.heads, sizes.length, sizes.width // sizes.heads)
    caches = [(xp.zeros(*shape), xp.zeros(*shape)) for _ in range(sizes.layers)]
    places = [xp.tensor(numpy.array([i])) for i in range(sizes.length)]
    prompt = [xp.tensor(numpy.array([[int(t)]])) for t in random.integers(0, sizes.vocabulary, 16)]

    def decode(token: Any, place: Any) -> Any:
        return model.decode(token, place, caches, attention_mask(xp, place, sizes))

    run = compile(decode)

    def generate(i: int) -> Any:
        token = prompt[0]
        with xp.no_grad():
            for at in range(sizes.length):
                found = run(token, places[at])
                token = prompt[at + 1] if at + 1 < len(prompt) else found.argmax(-1)
        return found.max()

    return generate


# ---------------------------------------------------------------- loops and second derivatives


def _orbits(xp: Any, compile: Compile, in_place: bool) -> Step:
    random = numpy.random.default_rng(18)
    count, batch, width, h = 200, 16, 32, 0.02
    p = leaves(xp, {
        "w1": normal(random, width, 2, scale=0.7), "b1": normal(random, width, scale=0.1),
        "w2": normal(random, 2, width, scale=0.2), "b2": normal(random, 2, scale=0.1),
    })
    linear = xp.nn.functional.linear

    def field(y: Any) -> Any:
        return linear(xp.tanh(linear(y, p["w1"], p["b1"])), p["w2"], p["b2"])

    def slope(y: Any) -> Any:
        k1 = field(y)
        k2 = field(y + h / 2 * k1)
        k3 = field(y + h / 2 * k2)
        k4 = field(y + h * k3)
        return h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def loss(start: Any, target: Any) -> Any:
        y, path = start, []
        for _ in range(count):
            y = y + slope(y)
            path.append(y)
        return (xp.stack(path) - target).square().mean()

    def loss_in_place(start: Any, target: Any) -> Any:
        path, y = xp.zeros(count, batch, 2), start.clone()
        for i in range(count):
            y += slope(y.clone())
            path[i] = y
        return (path - target).square().mean()

    start = normal(random, batch, 2)
    angle = (numpy.arange(1, count + 1) * h)[:, None]
    x0, y0 = start[:, 0], start[:, 1]
    target = numpy.stack(
        [x0 * numpy.cos(angle) - y0 * numpy.sin(angle), x0 * numpy.sin(angle) + y0 * numpy.cos(angle)], -1
    )
    batches = batches_of(xp, [(start, target.astype(numpy.float32))])
    return training(xp.optim.Adam(list(p.values()), lr=1e-3), loss_in_place if in_place else loss, batches, compile)


@workload("W8a")
def orbits(xp: Any, compile: Compile) -> Step:
    """200 Runge-Kutta steps of a 2-32-2 network as a Python loop, gradients through all of them, Adam"""
    return _orbits(xp, compile, in_place=False)


@workload("W8b")
def orbits_in_place(xp: Any, compile: Compile) -> Step:
    """the same with the state updated in place and the path written into a tensor"""
    return _orbits(xp, compile, in_place=True)


@workload("W13")
def gradient_penalty(xp: Any, compile: Compile) -> Step:
    """a critic 64-128-128-1 trained with a penalty on its gradient (second derivatives), batch 32, Adam"""
    random = numpy.random.default_rng(23)
    critic = _network(xp, random, (64, 128, 128, 1), xp.tanh)

    def loss(real: Any, fake: Any, mix: Any) -> Any:
        between = (mix * real + (1 - mix) * fake).detach().requires_grad_(True)
        (slope,) = xp.autograd.grad(critic(between).sum(), [between], create_graph=True)
        penalty = (((slope * slope).sum(1) + 1e-12).sqrt() - 1).square().mean()
        return critic(fake).mean() - critic(real).mean() + 10 * penalty

    drawn = [
        (normal(random, 32, 64) + 0.5, normal(random, 32, 64) - 0.5, numpy.abs(normal(random, 32, 1))) for _ in range(4)
    ]
    batches = batches_of(xp, [tuple(a.astype(numpy.float32) for a in batch) for batch in drawn])
    return training(xp.optim.Adam(critic.parameters(), lr=1e-3), loss, batches, compile)
