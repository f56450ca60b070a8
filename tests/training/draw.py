"""Random training programs as source text: a model, a loss, an optimizer, and what its user does between steps.

`draw(seed)` gives a Program. Its text names one library, `weft`; scripts/make_torch_steps.py runs the same
text with PyTorch's name in its place and stores what comes out. Nothing in a program is random by itself, so that both
libraries do the same sums.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.training.models import MODELS, Model
from tests.training.optimizers import OPTIMIZERS, SCHEDULES

PRELUDE = """\
import numpy as np
import weft
from weft import nn
from weft.nn import functional as F
"""


@dataclass(frozen=True)
class Program:
    """A training step and its calls.

    source: module text that defines `model`, `opt`, `schedule` and `step(x, y)`. calls: for each call, the size
    of the batch, the length of its sequences, and the statements that run before it. inputs: what an x and a y are,
    by the names in running.py. dtype: of the floats.
    """

    seed: int
    source: str
    calls: tuple[tuple[int, int, str], ...]
    inputs: tuple[str, str]
    dtype: str

    def text(self) -> str:
        """The program for reading: its source, and its calls as comments."""
        calls = [f"# call {i}: batch {b}, length {n}: {change or '-'}" for i, (b, n, change) in enumerate(self.calls)]
        return "\n".join(
            [f"# seed {self.seed}, {self.dtype}, x: {self.inputs[0]}, y: {self.inputs[1]}", self.source, *calls]
        )


def draw(seed: int) -> Program:
    """The program of a seed."""
    r = random.Random(seed)
    dtype = "float64" if r.random() < 0.8 else "float32"
    model = r.choice(MODELS)(r)
    loss, target = _loss(r, model)
    optimizer, facts = r.choice(OPTIMIZERS)(r)
    if "Rprop" in optimizer and _has_flat_directions(model):
        optimizer = optimizer.replace("Rprop", "SGD").replace(", etas=(0.6, 1.1)", "")
    schedule, advance = r.choice(SCHEDULES)(r)
    source = "\n".join(
        [PRELUDE, model.source, "model = Model()", "fill(model)", optimizer, schedule, "", *_step(r, model, loss), ""]
    )
    changes = _changes(model, facts)
    calls = []
    for i in range(r.randint(4, 7)):
        change = r.choice(changes)(r) if i and r.random() < 0.55 else ""
        calls.append((_batch(r, model), r.randint(2, 6), "\n".join(filter(None, [advance if i else "", change]))))
    return Program(seed, source, _with_copies(seed, calls), (model.input, target), dtype)


def _with_copies(seed: int, calls: list[tuple[int, int, str]]) -> tuple[tuple[int, int, str], ...]:
    """The calls, before one of which some programs go on with a copy of the model: by itself, so that the optimizer
    clears and updates what is left behind, or with an optimizer of its own. (Drawn apart from all else.)"""
    r = random.Random(f"copies {seed}")
    if r.random() < 0.8:
        return tuple(calls)
    i = r.randrange(1, len(calls))
    batch, length, change = calls[i]
    kept = "" if r.random() < 0.6 else "; opt = weft.optim.SGD(model.parameters(), lr=0.05)"
    calls[i] = batch, length, "\n".join(filter(None, [change, f"model = copy.deepcopy(model){kept}"]))
    return tuple(calls)


def _has_flat_directions(model: Model) -> bool:
    """Whether some gradient is 0 but for rounding (a bias before a normalization): it has no sign to go by."""
    return any(word in model.source for word in ("Norm", "ttention", "Encoder"))


def _batch(r: random.Random, model: Model) -> int:
    return r.choice((model.least_batch, 2, 3, 4, 5, 8, 13)) if r.random() < 0.6 else 4


# ---------------------------------------------------------------- losses
def _loss(r: random.Random, model: Model) -> tuple[str, str]:
    """A loss of `out` and `y` as an expression, and what y is."""
    reduction = r.choice(("", ", reduction='sum'"))
    classes = (
        f"F.cross_entropy(out, y{reduction})",
        f"F.cross_entropy(out, y, label_smoothing={r.choice((0.1, 0.3))}{reduction})",
        "F.cross_entropy(out, y, ignore_index=1, reduction='sum')",
        f"F.nll_loss(F.log_softmax(out, -1), y{reduction})",
        f"F.multi_margin_loss(out, y{reduction})",
        "-out.softmax(-1).gather(1, y[:, None]).log().mean()",
        "(weft.logsumexp(out, 1) - out[weft.arange(len(y)), y]).mean()",
    )
    values = (
        f"F.mse_loss(out, y{reduction})",
        f"F.l1_loss(out, y{reduction})",
        f"F.smooth_l1_loss(out, y, beta={r.choice((0.5, 1.0))}{reduction})",
        f"F.huber_loss(out, y, delta={r.choice((0.7, 1.5))}{reduction})",
        f"F.binary_cross_entropy_with_logits(out, y.sigmoid(){reduction})",
        "F.kl_div(F.log_softmax(out, -1), F.softmax(y, -1), reduction='batchmean')",
        f"F.gaussian_nll_loss(out, y, out.detach() ** 2 + 0.5{reduction})",
        f"F.poisson_nll_loss(out, y.abs(){reduction})",
        "(1 - F.cosine_similarity(out, y, dim=-1)).mean()",
        "((out - y) ** 2).mean(0).sum().sqrt()",
        "(out - y).abs().clamp(max=2.0).mean()",
        "weft.linalg.vector_norm(out - y, dim=-1).mean()",
        f"F.soft_margin_loss(out, y.sign(){reduction})",
    )
    return (r.choice(classes), "classes") if model.is_classifier and r.random() < 0.5 else (r.choice(values), "values")


# ---------------------------------------------------------------- steps
def _step(r: random.Random, model: Model, loss: str) -> list[str]:
    lines = ["def step(x, y):", f"    {r.choice(_CLEAR)}", "    out = model(x)", f"    loss = {loss}"]
    lines += [f"    {line}" for line in r.choice(_REGULARIZERS)]
    lines += [f"    {line}" for line in r.choice(_BACKWARDS)]
    lines += [f"    {line}" for line in r.choice(_CLIPS)]
    lines += ["    opt.step()"]
    lines += [f"    {line}" for line in r.choice(_AFTERS)]
    return [*lines, f"    return {r.choice(('loss', 'loss.detach()', 'loss * 1'))}"]


_CLEAR = (
    "opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "model.zero_grad()",
    "for p in model.parameters(): p.grad = None",
)
_REGULARIZERS: tuple[tuple[str, ...], ...] = (
    (), (), (),
    ("loss = loss + 1e-3 * sum(p.abs().sum() for p in model.parameters())",),
    ("loss = loss + 1e-2 * sum((p ** 2).sum() for p in model.parameters() if p.dim() > 1)",),
    (
        "for n, p in model.named_parameters():", "    if 'bias' not in n:",
        "        loss = loss + 1e-3 * p.pow(2).mean()",
    ),
    ("penalty, = weft.autograd.grad(loss, out, create_graph=True)", "loss = loss + (penalty ** 2).sum()"),
)
_BACKWARDS: tuple[tuple[str, ...], ...] = (
    ("loss.backward()",), ("loss.backward()",), ("loss.backward()",),
    ("loss.backward(retain_graph=True)", "(0.5 * loss).backward()"),
    ("(loss / 2).backward()", "F.mse_loss(model(x * 1), out.detach() * 0.5).backward()"),
    ("ps = [p for p in model.parameters() if p.requires_grad]", "gs = weft.autograd.grad(loss, ps, allow_unused=True)",
     "for p, g in zip(ps, gs):", "    p.grad = g if p.grad is None or g is None else p.grad + g"),
)
_CLIPS: tuple[tuple[str, ...], ...] = (
    (), (),
    ("nn.utils.clip_grad_norm_(model.parameters(), 1.0)",),
    ("nn.utils.clip_grad_value_(model.parameters(), 0.3)",),
    ("for p in model.parameters():", "    if p.grad is not None: p.grad.mul_(0.5)"),
    ("with weft.no_grad():", "    for p in model.parameters():", "        if p.grad is not None: p.grad += 1e-3 * p"),
)
_AFTERS: tuple[tuple[str, ...], ...] = (
    (), (),
    ("with weft.no_grad():", "    for p in model.parameters(): p.clamp_(-2, 2)"),
    ("with weft.no_grad():", "    model.seen.mul_(0.9).add_(out.mean(), alpha=0.1)"),
    ("model.seen.copy_(loss.detach())",),
    ("model.steps += 1", "loss = loss * (1 + 0.1 * model.steps)"),
)


# ---------------------------------------------------------------- what happens between calls
Change = Callable[[random.Random], str]


def _changes(model: Model, facts: tuple[str, ...]) -> list[Change]:
    group = "for g in opt.param_groups: "
    changes: list[Change] = [
        lambda r: f"{group}g['lr'] *= {r.choice((0.5, 0.9, 1.1))}",
        lambda r: "list(model.parameters())[0].requires_grad_(False); list(model.parameters())[0].grad = None",
        lambda r: "for p in model.parameters(): p.requires_grad_(True)",
        lambda r: "model.eval()",
        lambda r: "model.train()",
        lambda r: "with weft.no_grad():\n    for p in model.parameters(): p.mul_(0.9)",
        lambda r: "for p in model.parameters(): p.grad = None",
        lambda r: "for p in model.parameters(): p.grad = weft.full_like(p, 0.01)",
        lambda r: "for p in model.parameters(): p.data = p.data * 0.95",
        lambda r: (
            "nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()).detach() * 0.9, "
            "model.parameters())"
        ),
        lambda r: (
            "model.load_state_dict({k: v.clone() * 0.9 if v.is_floating_point() else v.clone() for k, "
            "v in model.state_dict().items()})"
        ),
        lambda r: "opt.load_state_dict(copy.deepcopy(opt.state_dict()))",
        lambda r: "opt.state.clear()",
        lambda r: f"model.scale = {r.choice((0.5, 1.0, 2.0))}",
        lambda r: "model.bias_on = not model.bias_on",
        lambda r: f"h = list(model.parameters())[-1].register_hook(lambda g: g * {r.choice((0.5, 2.0))})",
        lambda r: "h = model.register_forward_hook(lambda m, i, o: o * 1.5)",
        lambda r: "if 'h' in globals(): h.remove()",
        lambda r: "model.tie()",
        lambda r: "model.float(); model.to(DTYPE)",
    ]
    if "weight_decay" in facts:
        changes.append(lambda r: f"{group}g['weight_decay'] = {r.choice((0.0, 0.01, 0.1))}")
    if "momentum" in facts:
        changes.append(lambda r: f"{group}g['momentum'] = {r.choice((0.5, 0.9))}")
    if "betas" in facts:
        changes.append(lambda r: f"{group}g['betas'] = ({r.choice((0.8, 0.9))}, 0.99)")
    return changes
