"""Whole training programs as their users write them: an algorithm, a model, how it descends, and what the program keeps
of it between calls (lists, records, rings of memory, aliases of parameters and gradients, counters).

A program is lines of Python, so that a failure can be read, made smaller, and kept as it is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

PRELUDE = """
import collections, copy, dataclasses, math
import weft
from weft import nn
from weft.nn import functional as F

@dataclasses.dataclass
class Record:
    steps: int = 0
    best: object = None
    notes: list = dataclasses.field(default_factory=list)

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.gain, self.depth, self.calls = nn.Parameter(weft.ones(3)), 2, 0
        self.register_buffer("seen", weft.zeros(3))
    def forward(self, x):
        self.calls += 1
        for layer in self.layers[:self.depth]:
            x = x + weft.tanh(layer(x)) * self.gain
        if self.training:
            with weft.no_grad():
                self.seen.lerp_(x.detach().reshape(-1, 3).mean(0), 0.1)
        return x - 0.1 * self.seen

class Rounded(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        return (x / scale).round() * scale
    @staticmethod
    def backward(ctx, grad):
        return grad, None

class State:
    pass
"""
MODELS = (
    "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))", "nn.Sequential(nn.Linear(3, 3), Residual())",
    "nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.SiLU(), nn.Linear(4, 3))", "Residual()",
    "nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Dropout(0.3), nn.Linear(4, 3))",
)
OPTIMIZERS = (
    "SGD(s.model.parameters(), lr=0.05, momentum=0.9)", "Adam(s.model.parameters(), lr=0.02)",
    "NAdam(s.model.parameters(), lr=0.02)", "ASGD(s.model.parameters(), lr=0.05)",
    "RMSprop(s.model.parameters(), lr=0.01)", "AdamW([{'params': s.model.parameters(), 'lr': 0.02}], amsgrad=True)",
)
# state, and lines that compute `loss` from x: [n, 3] and y: [n], classes; `at` are places
ALGORITHMS: tuple[tuple[str, str], ...] = (
    ("", "loss = F.cross_entropy(s.model(x), y)"),
    ("s.table = weft.zeros(6, 3)\ns.head = 0", """
for row in x[:2]:
    s.table[s.head] = row
    s.head = (s.head + 1) % 6
old = s.table[at % 6]
with weft.no_grad():
    target = old.sum(1) + 0.9 * s.model(old).max(1).values
loss = F.smooth_l1_loss(s.model(old).gather(1, at[:, None] % 3).squeeze(1), target)"""),
    ("s.gamma = 0.9\ns.base = 0.0", """
state, logs, rewards, back = x, [], [], 0.0
for t in range(3):
    logp = F.log_softmax(s.model(state), -1)
    action = logp.detach().argmax(1)
    logs.append(logp[weft.arange(len(action)), action])
    rewards.append(weft.where(action == y, 1.0, -0.1))
    state = state.roll(1, 1) + 0.1 * action[:, None]
returns = []
for reward in reversed(rewards):
    back = reward + s.gamma * back
    returns.insert(0, back)
loss = -(weft.stack(logs) * (weft.stack(returns) - s.base)).mean()
s.base = 0.9 * s.base + 0.1 * returns[0].mean()"""),
    ("s.steps = 3", """
state, path = x, []
for t in range(s.steps):
    half = state + 0.05 * s.model(state)
    state = state + 0.1 * s.model(half)
    path.append(state)
loss = (state - x.roll(1, 0)).square().mean() + 0.01 * sum((b - a).abs().mean() for a, b in zip(path, path[1:]))"""),
    ("s.weight = 1.0", """
point = x.detach().clone().requires_grad_(True)
value = s.model(point).square().sum(1)
slope, = weft.autograd.grad(value.sum(), point, create_graph=True)
loss = value.mean() + s.weight * ((slope.norm(2, 1) - 1) ** 2).mean()"""),
    ("", """
hidden = s.model(x)
for layer in range(3):
    sums = weft.zeros(len(x), 3).index_put_((at % len(x),), hidden, accumulate=True)
    degree = weft.zeros(len(x)).index_add_(0, at % len(x), weft.ones(len(x)))
    hidden = weft.tanh(hidden + sums / degree.clamp(min=1)[:, None])
loss = (hidden ** 2).mean() - hidden[:, 0].mean()"""),
    ("s.inner = 2\ns.rate = 0.1", """
fast = dict(s.model.named_parameters())
for _ in range(s.inner):
    first = weft.func.functional_call(s.model, fast, (x,)).square().mean()
    slopes = weft.autograd.grad(first, list(fast.values()), create_graph=True, allow_unused=True)
    fast = {n: p if g is None else p - s.rate * g for (n, p), g in zip(fast.items(), slopes)}
loss = F.cross_entropy(weft.func.functional_call(s.model, fast, (x,)), y)"""),
    ("s.scale = 0.25\ns.high = weft.tensor(-math.inf)", """
s.high = weft.maximum(s.high, x.max())
loss = F.mse_loss(s.model(Rounded.apply(x, s.scale)), Rounded.apply(x, 0.5)) * (1 + 0 * s.high)"""),
    ("s.centers = weft.arange(9.0).reshape(3, 3).cos()", """
distances = weft.cdist(s.model(x), s.centers)
nearest = distances.argmin(1)
counts = weft.bincount(nearest, minlength=3)[:3]
with weft.no_grad():
    sums = weft.zeros(3, 3).index_add_(0, nearest, x)
    s.centers.copy_(weft.where(counts[:, None] > 0, sums / counts[:, None].clamp(min=1), s.centers))
loss = distances.amin(1).mean()"""),
)
DESCENTS = (
    "s.opt.zero_grad()\nloss.backward()\ns.opt.step()",
    "s.opt.zero_grad(set_to_none=False)\nloss.backward()\nnn.utils.clip_grad_norm_(s.model.parameters(), 0.5)\n"
    "s.opt.step()",
    "(loss / 2).backward()\ns.micro += 1\nif s.micro % 2 == 0:\n    s.opt.step()\n    s.opt.zero_grad()",
    "ps = [p for p in s.model.parameters() if p.requires_grad]\nfor p, g in zip(ps, weft.autograd.grad(loss, ps, "
    "allow_unused=True)):\n    p.grad = g\ns.opt.step()",
    "s.opt.zero_grad()\nloss.backward(retain_graph=True)\n(0.5 * loss).backward()\nwith weft.no_grad():\n    for p in "
    "s.model.parameters():\n        if p.grad is not None:\n            p -= 0.05 * p.grad",
)
# what a program keeps: state, and lines behind the descent
KEEPS: tuple[tuple[str, str], ...] = (
    ("s.ema = copy.deepcopy(s.model)", "with weft.no_grad():\n    for q, p in zip(s.ema.parameters(), "
     "s.model.parameters()):\n        q.mul_(0.9).add_(p, alpha=0.1)"),
    ("s.log = []", "s.log.append(loss.detach())\nif len(s.log) > 3:\n    s.log.pop(0)"),
    ("s.rec = Record()", "s.rec.steps += 1\ns.rec.best = loss.detach() if s.rec.best is None else "
     "weft.minimum(s.rec.best, loss.detach())\nif s.rec.steps % 2:\n    s.rec.notes.append(('odd', s.rec.steps))"),
    ("s.kept = []", "s.kept.append(next(s.model.parameters()).detach())\ns.kept = s.kept[-2:]"),
    ("s.grads = None", "s.grads = [p.grad for p in s.model.parameters()]"),
    ("s.grads = None", "p = next(s.model.parameters())\ns.grads, p.grad = p.grad, None"),
    ("s.buf = weft.zeros(3, 2)\ns.view = s.buf[1]", "s.buf.add_(loss.detach())\nout['view'] = s.view"),
    ("s.buf = weft.zeros(3, 2)\ns.view = s.buf[1]", "s.buf = s.buf + loss.detach()\ns.view = s.buf[2]"),
    ("s.ring = weft.zeros(4)\ns.at = 0", "s.ring[s.at % 4] = loss.detach()\ns.at += 1\nout['ring'] = s.ring"),
    ("s.window = collections.deque(maxlen=3)",
     "s.window.append(loss.detach())\nout['mean'] = sum(s.window) / len(s.window)"),
    ("s.sd = None", "s.sd = s.model.state_dict()"), ("s.twin = None", "s.twin = s.ring0 = loss.detach()"),
    ("s.nest = {'a': [{'v': 0.0}], 'n': 0}",
     "s.nest['a'][0]['v'] = s.nest['a'][0]['v'] + loss.detach()\ns.nest['n'] += 1"),
    ("s.a = weft.zeros(2)\ns.b = s.a", "s.a, s.b = s.b, s.a + loss.detach()\nout['same'] = s.a is s.b"),
    ("s.span = 2", "s.span += 1\nout['grid'] = weft.linspace(0.5, s.span, 4) * loss.detach()"),
    ("s.span = 2", "s.span += 1\nout['drawn'] = weft.zeros(3).uniform_(-0.5, s.span)"),
    ("s.count = weft.zeros((), dtype=weft.int64)", "s.count += loss.detach() < 1\nout['count'] = s.count.clone()"),
)
CHANGES = (
    "s.model.eval()", "s.model.train()", "s.opt.param_groups[0]['lr'] *= 0.5", "s.model = copy.deepcopy(s.model)",
    "next(s.model.parameters()).requires_grad_(False)", "s.model.requires_grad_(True)", "s.model.zero_grad()",
    "s.opt.load_state_dict(copy.deepcopy(s.opt.state_dict()))", "[p.data.mul_(0.9) for p in s.model.parameters()]",
    "s.model.load_state_dict({k: v.clone() for k, v in s.model.state_dict().items()})", "s.more = 2",
    "s.opt = weft.optim.SGD(s.model.parameters(), lr=0.1)",
)


@dataclass(frozen=True)
class WholeProgram:
    """source: a module that defines `s` and `step(x, y, at)`. calls: the size of each batch, and the statements that
    run before the call."""

    seed: int
    source: str
    calls: tuple[tuple[int, str], ...]


def draw_whole(seed: int) -> WholeProgram:
    """The program of a seed."""
    r = random.Random(seed)
    state, algorithm = r.choice(ALGORITHMS)
    keeps = r.sample(KEEPS, r.randint(1, 4))
    setup = ["s = State()", f"s.model = {r.choice(MODELS)}", f"s.opt = weft.optim.{r.choice(OPTIMIZERS)}"]
    setup += ["s.micro = 0", state]
    body = ["out = {}", algorithm.strip(), r.choice(DESCENTS), *(lines for _, lines in keeps)]
    body += ["out['loss'] = loss.detach()", f"return {r.choice(('out', 'list(out.items())', 'out, s.micro'))}"]
    step = "\n".join("    " + line for text in body for line in text.split("\n"))
    source = "\n".join([PRELUDE, *setup, *(text for text, _ in keeps), "def step(x, y, at):", step])
    steady = r.random() < 0.3
    calls = []
    for i in range(6):
        changes = [r.choice(CHANGES) for _ in range(r.choice((0, 0, 1, 2)))] if i and not steady else []
        calls.append((4 if steady else r.choice((2, 3, 4, 7)), "\n".join(changes)))
    return WholeProgram(seed, source, tuple(calls))
