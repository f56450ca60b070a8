"""Random steps that go backward themselves, and then on: over what they have freed or kept, with gradients that have a
history, through hooks, checkpoints, custom Functions and subclasses, while they assign to an object that is older than
the calls.

After each of four calls everything that can be seen is noted: values, flags, leaves, gradients, and what goes backward
from what the step has left.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from tests.agree.histories import rules
from weft.autograd.dependencies import nodes_behind
from weft.support.errors import WeftError
from weft.utils.checkpoint import checkpoint

CALLS = 4
Note = tuple[str, Any]

# $a, $b: values of n elements; $c: a new one. h: the older object, with parameters p, q of one element
VALUES = str.split(
    "$c = $a.sin() * h.p | $c = $a * $b | $c = $a * $b | $c = $a.abs() * 0.5 | $c = $a.relu() + $b | $c = $a + h.q | "
    "$c = $a.detach() * $b | $c = $a.clone().mul_($b) | $c = checkpoint(region, $a, $b, use_reentrant=False) | "
    "$c = Straight.apply($a) | $c = Sometimes.apply($a, $b) + $b | $c = $a.as_subclass(Kept) * $b | "
    "$c = $a.as_subclass(Told).sin().as_subclass(weft.Tensor) | $c = $a * h.scale | $c = $a.flip(0) | "
    "$c = weft.stack([$a, $b]).unbind(0)[1] | $c = $a.view(-1) * h.q | $c = $a.exp() * 0.1 | "
    "$c = weft.cond($a.sum() > 0, lambda v: v.exp() * h.p, lambda v: v.sin() * h.p, ($a,)) | "
    "$c = weft.func.grad(lambda v: (v * v * h.q).sum())($a) | $c = weft.func.vmap(lambda v: v.sin() * v)($a) | "
    "$c = weft.scan(lambda c, t: (c * 0.5 + t, c), $a * 0, weft.stack([$a, $b]))[0] | $c = $a.detach() | "
    "$c = $a.double() | $c = weft.zeros_like($a) | $c = $a.cumsum(0) | $c = $a * h.kept",
    sep=" | ",
)
BACKWARD = str.split(
    "if $a.requires_grad: $a.sum().backward(retain_graph=$k) | "
    "if $a.requires_grad: $a.sum().backward(retain_graph=$k) | "
    "if $a.requires_grad: ($a * $b).sum().backward(inputs=[h.p], retain_graph=$k) | "
    "$c = gradient($a, $b, $k, $k) | $c = gradient($a, h.p, $k, False) | $c = gradient($a, x, $k, True) | "
    "$c = by_own($a, $b, $k)",
    sep=" | ",
)
STATE = str.split(
    "h.last = $a | h.last = $a | h.kept = $a.detach().sum() * 0.1 | h.log = [*h.log[-1:], $a] | h.p.grad = None | "
    "h.flag = not h.flag | h.scale *= 0.5 | h.pair = ($a, $b) | h.last = $a[1:] | h.last = $a.detach() | "
    "with weft.no_grad(): h.p.mul_(0.9) | if h.flag: h.last = $a * 0.5 | "
    "if h.last is not None and len(h.last) == len($a): $c = $a * h.last.detach() | "
    "if $a.requires_grad: $a.register_hook(lambda g: g * 0.5) | if $a.requires_grad: $a.retain_grad() | "
    "h.free = weft.ones(2, requires_grad=True) | h.q.requires_grad_(h.flag) | h.log[0].mul_(0.5) | h.d['x'] = $a | "
    "if $a.requires_grad: $a.register_hook(lambda g: h.heard.append(1) or g)",
    sep=" | ",
)


@dataclass(frozen=True)
class Program:
    """A step's text, and the sizes of its calls. feeds: whether a result comes back as the next argument, with its
    history."""

    seed: int
    text: str
    sizes: tuple[int, ...]
    feeds: bool

    def __str__(self) -> str:
        return f"seed {self.seed}, sizes {self.sizes}{', fed back' * self.feeds}\n{self.text}"


def draw(seed: int) -> Program:
    """A random program."""
    rng = np.random.default_rng(seed)
    names, lines = ["x"], []
    for i in range(int(rng.integers(3, 9))):
        kind = rng.choice(["value", "value", "backward", "state"]) if i else "value"
        forms = {"value": VALUES, "backward": BACKWARD, "state": STATE}[str(kind)]
        line = str(rng.choice(forms)).replace("$a", str(rng.choice(names[-3:]))).replace("$b", str(rng.choice(names)))
        line = line.replace("$k", str(bool(rng.random() < 0.5)))
        if "$c" in line:
            line = line.replace("$c", f"v{i}")
            if line.startswith("if"):
                lines.append(f"v{i} = x * 0.5")
            names.append(f"v{i}")
        lines.append(line)
    returned = [names[-1], *rng.choice(names, int(rng.integers(0, 3))).tolist()]
    text = "".join(f"    {line}\n" for line in lines)
    sizes = (4, 4, *rng.integers(2, 6, CALLS - 2).tolist())
    text = f"def step(x):\n{text}    return {', '.join(returned)},\n"
    return Program(seed, text, sizes, bool(rng.random() < 0.3))


class Holder:
    """An object older than the calls."""


def _gradient(of: Any, by: Any, keeps: bool, creates: bool) -> Any:
    if not of.requires_grad or not by.requires_grad:
        return by * 0.5 if by.ndim else of * 0.5
    (gradient,) = weft.autograd.grad(
        of.sum(), by, retain_graph=keeps or creates, create_graph=creates, allow_unused=True
    )
    return of.detach() * 0 if gradient is None else gradient * of.detach()


def _by_own(a: Any, b: Any, creates: bool) -> Any:
    """What a leaf of the step's own gets, twice, and a second one beside it, whose gradient is written."""
    leaf, other = ((v.detach() * 0.5).as_subclass(weft.Tensor).requires_grad_() for v in (a, b))
    (leaf.sin() * leaf + other).sum().backward(create_graph=creates)
    first = leaf.grad
    (leaf * leaf * 0.5 + other).sum().backward(create_graph=creates)
    with weft.no_grad():
        other.grad.mul_(0.5)
    if not creates:
        return leaf.grad * other.grad + (leaf.grad is first)
    (again,) = weft.autograd.grad((leaf.grad * first).sum(), leaf)
    return again * other.grad.detach()


def _region(a: Any, b: Any) -> Any:
    return (a.sin() * b).tanh() * a


class Run:
    """One run of a program."""

    def __init__(self, program: Program, wrap: Callable[[Any], Any], device: str | None = None) -> None:
        self.program, self.device = program, device
        self.notes: list[Note] = []
        self.fed: list[bool] = []  # for each call whether its first result is the next argument, where it fits
        self.error: BaseException | None = None
        file = f"<step {program.seed} {id(self)}>"
        linecache.cache[file] = (len(program.text), None, program.text.splitlines(True), file)
        h = self.h = Holder()
        h.p, h.q = self._leaf([0.7]), self._leaf([-0.4])  # type: ignore[attr-defined]
        h.kept, h.last, h.scale, h.flag = self._leaf([0.3]).detach(), None, 0.5, True  # type: ignore[attr-defined]
        h.log, h.d, h.heard = [self._leaf([1.5]).detach()], {}, []  # type: ignore[attr-defined]
        names = {
            "weft": weft, "checkpoint": checkpoint, "region": _region, "gradient": _gradient, "by_own": _by_own, "h": h,
            **rules(),
        }
        exec(compile(program.text, file, "exec"), names)
        self.step = wrap(names["step"])

    def _leaf(self, values: Any) -> Any:
        return weft.tensor(np.asarray(values, np.float64), device=self.device).requires_grad_()

    def run(self, like: Run | None = None) -> Run:
        """Make all calls, and note what is seen. The first error of a step ends it. like: the run whose choices of what
        is fed back are taken (a program knows of each result whether it is freed, its nodes of all of them)."""
        rng = np.random.default_rng(self.program.seed)
        fed: Any = None
        for i, n in enumerate(self.program.sizes):
            x = self._leaf(rng.standard_normal(n))
            x = fed if self.program.feeds and fed is not None and fed.shape == x.shape else x
            try:
                results = self.step(x)
            except WeftError as error:
                self.error = error
                return self
            self._note_all(x, results)
            self.fed.append(results[0].requires_grad and not _is_spent(results[0]))
            fed = results[0] if self.fed[i] and (like is None or like.fed[i : i + 1] != [False]) else None
        return self

    def _note_all(self, x: Any, results: Any) -> None:
        h: Any = self.h
        self.notes += [("numbers", (h.scale, h.flag, len(h.heard), len(h.log), len(h.d)))]
        state = {k: v for k, v in vars(h).items() if isinstance(v, weft.Tensor)}
        state |= {f"{k}{i}": v for k in ("log", "pair") for i, v in enumerate(vars(h).get(k, ()))} | h.d
        for name, tensor in state.items():
            self._note(f"h.{name}", tensor, True)
        for i, result in enumerate(results):
            self._note(f"result {i}", result, False)
        self._note("x", x, True)
        for name, tensor in [*[(f"result {i}", r) for i, r in enumerate(results)], *state.items()]:
            self._note_backward(name, tensor, (x, h.p, h.q))

    def _note(self, name: str, tensor: Any, is_exact: bool) -> None:
        """What is seen of a tensor. A returned one, that is not is_exact, has no history where that is freed
        (docs/differences.md, a_returned_loss)."""
        self.notes.append((name, tensor.detach().as_subclass(weft.Tensor).cpu().numpy().copy()))
        facts: Any = (tensor.requires_grad, tensor.is_leaf, type(tensor).__name__)
        self.notes.append((f"{name} wants a gradient", facts if is_exact or not _is_spent(tensor) else ANY))
        gradient = tensor.grad  # (zeros, of a branch not taken, are like nothing)
        self.notes.append((f"{name}.grad", 0.0 if gradient is None else gradient.detach().cpu().numpy().copy()))

    def _note_backward(self, name: str, tensor: Any, by: Any) -> None:
        if not tensor.requires_grad:
            self.notes.append((f"{name} backward", ANY))
            return
        if _is_spent(tensor):
            self.notes.append((f"{name} backward", ANY))
            return
        wanted = [t for t in by if t.requires_grad]
        try:
            gradients = weft.autograd.grad(tensor.sum(), wanted, retain_graph=True, allow_unused=True)
        except WeftError as error:
            self.notes.append((f"{name} backward", type(error).__name__))
            return
        self.notes.append((f"{name} backward", [0.0 if g is None else g.detach().cpu().numpy() for g in gradients]))


ANY = object()


def _is_spent(tensor: Any) -> bool:
    node = tensor._node
    return node is not None and any(n.is_freed for n in nodes_behind([node]))


def difference(ours: Run, theirs: Run) -> str | None:
    """Where a mode's run differs from eager mode's. An error ends what is compared, and so does memory that was written
    where eager mode saves it: what is saved of what, modes choose. A graph has both ways of a branch, and frees
    neither (docs/differences.md, second_walks_through_a_branch).
    """
    for (what, a), (other, b) in zip(ours.notes, theirs.notes, strict=False):
        if type(b) is str and b == "VersionError":
            return None
        if what != other or not _same(a, b):
            return f"{what} {a}; expected {other} {b}"
    if ours.error is None and theirs.error is None and len(ours.notes) != len(theirs.notes):
        return f"{len(ours.notes)} notes, expected {len(theirs.notes)}"
    if ours.error is None and "a second time" in str(theirs.error) and "weft.cond" in ours.program.text:
        return None
    if (ours.error is None) != (theirs.error is None):
        return f"{ours.error!r}, expected {theirs.error!r}"
    return None


def _same(a: Any, b: Any) -> bool:
    if a is ANY or b is ANY:
        return True
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, (float, np.ndarray)) or isinstance(b, (float, np.ndarray)):
        return np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)
    return bool(a == b)
