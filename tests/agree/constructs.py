"""Steps that put constructs into one another: transforms, custom Functions, hooks, checkpoints, branches, loops,
traces, copies, and bodies that draw, count, keep and write.

A program is a body (a function of a vector) within constructs, each a function of functions, run as a training step
over several calls: sizes, Python numbers and flags change between the calls, and results come back as arguments.
The truth is eager mode, where a construct that only says how something runs (compile, trace, a copy) is left out.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft
from tests.agree.bodies import LEAVES, Model
from tests.agree.layers import LAYERS, gradient_of
from tests.symbols_left import symbols_left
from tests.unit.subclasses.wrappers import Two
from weft.lazy.metrics import counter_value
from weft.support.counters import counters
from weft.utils.checkpoint import checkpoint

Body = Callable[[weft.Tensor], weft.Tensor]


# ---------------------------------------------------------------- constructs


def compiled(f: Body, m: Model) -> Body:
    return f if m.is_reference else weft.compile(f)


def split(f: Body, m: Model) -> Body:
    return f if m.is_reference else weft.compile(f, split=True)


def lazy(f: Body, m: Model) -> Body:
    """The body's argument is a lazy tensor, where its model lies there."""
    if m.is_reference or m.device != "lazy":
        return f

    def run(x: weft.Tensor) -> weft.Tensor:
        y = f(x)
        weft.lazy.mark_step()
        return y

    return run


def compiled_autograd(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        inside = x.detach().requires_grad_()
        y = f(inside)
        if m.is_reference:
            (gradient,) = weft.autograd.grad(y.sum(), inside, allow_unused=True)
        else:
            with weft.compiled_autograd.enable():
                (gradient,) = weft.autograd.grad(y.sum(), inside, allow_unused=True)
        return x * (0.0 if gradient is None else gradient)

    return run


def traced(f: Body, m: Model) -> Body:
    return f if m.is_reference else weft.jit.trace(f, (m.example(),), check_trace=False)


def saved(f: Body, m: Model) -> Body:
    """A body that is traced, saved and loaded."""
    if m.is_reference:
        return f
    file = io.BytesIO()
    weft.jit.save(weft.jit.trace(f, (m.example(),), check_trace=False), file)
    file.seek(0)
    return weft.jit.load(file)


def scripted(f: Body, m: Model) -> Body:
    if m.is_reference:
        return lambda x: f(x + 1) * 0.5

    @weft.jit.ignore
    def outside(x: weft.Tensor) -> weft.Tensor:
        return f(x)

    def program(x: weft.Tensor) -> weft.Tensor:
        return outside(x + 1) * 0.5

    return weft.jit.script(program)


def func_grad(f: Body, m: Model) -> Body:
    return weft.func.grad(lambda x: f(x).sum())


def func_vjp(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        y, pull = weft.func.vjp(f, x)
        return y + pull(weft.ones_like(y))[0]

    return run


def func_jvp(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        y, tangent = weft.func.jvp(f, (x,), (weft.ones_like(x),))
        return y + tangent

    return run


def vmap(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        return weft.func.vmap(f, randomness="different")(weft.stack([x, x * 0.5])).sum(0)

    return run


def checkpointed(f: Body, m: Model) -> Body:
    return lambda x: checkpoint(f, x, use_reentrant=False)


def function(f: Body, m: Model) -> Body:
    """A custom Function whose backward runs the body again."""

    class Wrapped(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return f(x)

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            (x,) = ctx.saved_tensors
            return g * (x.cos() + m.scale)

    return Wrapped.apply


def hook(f: Body, m: Model) -> Body:
    """A hook of the result that calls the body on the gradient."""

    def run(x: weft.Tensor) -> weft.Tensor:
        y = f(x)
        if y.requires_grad:
            y.register_hook(lambda g: g * 0.5 + f(g.detach()).detach() * 0.1)
        return y

    return run


def node_hooks(f: Body, m: Model) -> Body:
    """Hooks in front of a node and behind it."""

    def run(x: weft.Tensor) -> weft.Tensor:
        y = f(x) * 1.5
        if y.grad_fn is not None:
            y.grad_fn.register_prehook(lambda grads: tuple(g if g is None else g * m.scale for g in grads))
            y.grad_fn.register_hook(lambda made, _: tuple(g if g is None else g.flip(0) for g in made))
        return y

    return run


class Called(weft.nn.Module):
    """A module that is a body."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.body(x)


def module_hooks(f: Body, m: Model) -> Body:
    """A module with hooks of every kind."""
    module = Called(f)
    module.register_forward_pre_hook(lambda _, args: (args[0] * 1.1,))
    module.register_forward_hook(lambda _, args, y: y + args[0] * 0.5)
    module.register_full_backward_pre_hook(lambda _, grads: (grads[0] * m.scale,))
    module.register_full_backward_hook(lambda _, made, grads: tuple(g if g is None else g * 0.5 for g in made))
    return module


def elsewhere(f: Body, m: Model) -> Body:
    """On its way the argument is on another device, and so is the result."""

    def run(x: weft.Tensor) -> weft.Tensor:
        other = "lazy" if str(x.device) == "cpu" else "cpu"
        y = f((x.to(other) * 1.5).to(x.device))
        return (y.to(other) + 1).to(x.device)

    return run


def cast_and_written(f: Body, m: Model) -> Body:
    """Writes in a block of autocast, of numbers that it does not cast."""

    def run(x: weft.Tensor) -> weft.Tensor:
        with weft.autocast("cpu", dtype=weft.bfloat16):
            y = f(x) * 1.0
            y.mul_(0.5)
            y[:1].add_(x[:1])
        return y

    return run


def saved_tensor_hooks(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        with weft.autograd.graph.saved_tensors_hooks(lambda t: (t.dtype, t * 2), lambda p: (p[1] / 2).to(p[0])):
            return f(x)

    return run


def cond(f: Body, m: Model) -> Body:
    return lambda x: weft.cond(x.sum() > 0, f, lambda v: v * m.w * 0.5, (x,))


def scan(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        steps = weft.arange(1, 3, dtype=x.dtype, device=x.device)
        carry, rows = weft.scan(lambda c, t: (f(c) * 0.5 * t, c.sum()), x, steps, reverse=True)
        return carry + (rows * steps).sum()

    return run


def while_loop(f: Body, m: Model) -> Body:
    return lambda x: weft.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, f(v) * 0.5), (0, x))[1]


def loop(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        for i in range(2):
            x = f(x) * (0.5 + 0.1 * i)
        return x

    return run


class Scaled(weft.Tensor):
    """A subclass that every operator keeps."""


def subclass(f: Body, m: Model) -> Body:
    return lambda x: f(x.as_subclass(Scaled)).as_subclass(weft.Tensor)


def ruled(f: Body, m: Model) -> Body:
    """A subclass whose rule is assigned after the class was made, and again before each call: known by what a function
    is given alone."""
    double = weft.compile(lambda y: y * 2)

    def run(x: weft.Tensor) -> weft.Tensor:
        y = f(x)
        if m.is_reference:
            return y * 2 * m.scale
        return double(y.as_subclass(m.kind)).as_subclass(weft.Tensor)

    return run


class Doubling(weft.overrides.WeftFunctionMode):
    """Hyperbolic sines count double, and so does what is rolled."""

    def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return out * 2 if func.__name__ in ("sinh", "roll") else out


def moded(f: Body, m: Model) -> Body:
    """A function mode around calls of the same kinds of arguments as calls before it: of a function, of a method, of a
    function that converts an argument."""

    def run(x: weft.Tensor) -> weft.Tensor:
        y = weft.roll(weft.sinh(f(x) * 0.1).sinh(), [1])
        if m.is_reference:
            return weft.roll((weft.sinh(y) * 2).sinh() * 2, [1]) * 2
        with Doubling():
            return weft.roll(weft.sinh(y).sinh(), [1])

    return run


def kept(f: Body, m: Model) -> Body:
    """What a subclass's methods and properties give within a mode that changes none of it has its class."""

    def run(x: weft.Tensor) -> weft.Tensor:
        y = f(x)
        if m.is_reference:
            return y * 2
        with Doubling():
            named = y.as_subclass(Scaled)
            classes = {type(named.detach()), type(named.data), type(named.unsqueeze(0).mT)}
        return y * 2 if classes == {Scaled} else y

    return run


def made_anew(f: Body, m: Model) -> Body:
    """A wrapper that a compiled function gives as it is, and made anew of its parts."""
    both = weft.compile(lambda t: (t, Two(t.a, t.b)))

    def run(x: weft.Tensor) -> weft.Tensor:
        y = f(x)
        if m.is_reference:
            return y * 2
        outer = Two(Two(weft.ones(2), weft.ones(2)), Two(weft.zeros(2), weft.ones(2)))
        same, again = both(outer)
        return y * 2 if same is outer and again is not outer and again.a is outer.a else y

    return run


def flagged(f: Body, m: Model) -> Body:
    """A compiled function asks for gradients of objects of classes of their own, and draws in the size of one."""

    def asking(both: Sequence[weft.Tensor]) -> list[weft.Tensor]:
        return [weft.rand_like(t.requires_grad_()) for t in both]

    ask = weft.compile(asking)

    def run(x: weft.Tensor) -> weft.Tensor:
        y = f(x)
        if m.is_reference:
            return y * 2
        both = (weft.ones(2).as_subclass(Scaled), Two(weft.ones(2), weft.ones(2)))
        before = weft.get_rng_state()
        drawn = ask(both)
        weft.set_rng_state(before)
        return y * 2 if all(t.requires_grad and type(d) is type(t) for t, d in zip(both, drawn, strict=True)) else y

    return run


class Holder(weft.nn.Module):
    """A module around a body, which is found by name so that it can be pickled."""

    bodies: dict[int, Body] = {}  # noqa: RUF012 - one registry for all

    def __init__(self, key: int) -> None:
        super().__init__()
        self.key = key
        self.gain = weft.nn.Parameter(weft.tensor(1.5, dtype=weft.float64))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return Holder.bodies[self.key](x) * self.gain.detach().to(x.device)


def _held(f: Body) -> Holder:
    key = len(Holder.bodies)
    Holder.bodies[key] = f
    return Holder(key)


def copied(f: Body, m: Model) -> Body:
    holder = _held(f)
    return holder if m.is_reference else copy.deepcopy(holder)


def pickled(f: Body, m: Model) -> Body:
    holder = _held(f)
    return holder if m.is_reference else pickle.loads(pickle.dumps(holder))


def no_grad(f: Body, m: Model) -> Body:
    def run(x: weft.Tensor) -> weft.Tensor:
        with weft.no_grad():
            y = f(x)
        return x * y

    return run


CONSTRUCTS: dict[str, Callable[[Body, Model], Body]] = {
    f.__name__: f
    for f in (
        compiled, split, lazy, compiled_autograd, traced, saved, scripted, func_grad, func_vjp, func_jvp, vmap,
        checkpointed, function, hook, saved_tensor_hooks, cond, scan, while_loop, loop, subclass, ruled, moded,
        kept, made_anew, flagged, copied, pickled, no_grad, node_hooks, module_hooks, elsewhere, cast_and_written,
    )
}
MODES = ("compile", "split", "lazy", "compiled autograd")

# ---------------------------------------------------------------- programs


@dataclass(frozen=True)
class Program:
    """constructs: from the outside in. calls: for each call the size of the argument, the number and the flag that the
    model has then. feeds_back: a call's result is added to the next argument, where it has its size."""

    constructs: tuple[str, ...]
    leaf: str
    calls: tuple[tuple[int, float, bool], ...] = ((5, 0.5, True), (5, 0.25, True), (3, 0.25, False), (8, 0.75, True))
    feeds_back: bool = True

    @property
    def is_traced(self) -> bool:
        """Whether a trace is among the constructs: Python runs once then, so numbers and flags are constants."""
        return bool({"traced", "saved"} & set(self.constructs))

    @property
    def has_blocks(self) -> bool:
        """Whether a branch or loop is among them: a graph has gradients of 0 along ways that this run does not take."""
        return bool({"cond", "scan", "while_loop"} & set(self.constructs))

    def __str__(self) -> str:
        return "(".join((*self.constructs, self.leaf)) + ")" * len(self.constructs) + f", calls {self.calls}"


@dataclass
class Outcome:
    """What each call left behind, as numbers; or the error that ended the run. programs: how many programs each
    call has made."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)
    error: BaseException | None = None


def run(program: Program, mode: str) -> Outcome:
    """A program in a mode: "reference" is eager mode without what only says how a body runs, "eager" with it."""
    device = "lazy" if mode == "lazy" else "cpu"
    m = Model(device, mode == "reference")
    outcome, previous = Outcome(), None
    weft.manual_seed(11)
    try:
        step = _step(program, m, mode)
        weft.manual_seed(11)
        m.generator.manual_seed(3)
        for index, (size, scale, flag) in enumerate(program.calls):
            m.scale, m.flag = (m.scale, m.flag) if program.is_traced else (scale, flag)
            if not program.is_traced:
                m.change(index, size)
            m.change_rule()
            x = weft.linspace(-0.9, 1.1, size, dtype=weft.float64, device=device) * (1 + 0.1 * index)
            if program.feeds_back and previous is not None and previous.shape == x.shape:
                x = x + previous.detach() * 0.1
            before = _programs_made()
            previous, gradient = step(x)
            outcome.programs.append(_programs_made() - before)
            outcome.calls.append(_state(m, previous, gradient))
            if program.has_blocks:
                for name, tensor in (("gradient", x), ("parameter's gradient", m.w)):
                    if outcome.calls[-1][name] is None:
                        outcome.calls[-1][name] = np.zeros(tuple(tensor.shape))
    except Exception as error:
        outcome.error = error
    return outcome


def _programs_made() -> int:
    """Since this process began: captures, and programs of lazy steps."""
    return counters.captures + (counter_value("UncachedCompile") or 0)


def _step(program: Program, m: Model, mode: str) -> Callable[[weft.Tensor], tuple[weft.Tensor, Any]]:
    leaf = LEAVES[program.leaf].body
    m.w.requires_grad_("saved" not in program.constructs)  # a file has parameters of its own

    def body(x: weft.Tensor) -> weft.Tensor:
        return leaf(x, m)

    for name in reversed(program.constructs):
        body = CONSTRUCTS[name](body, m)

    def step(x: weft.Tensor) -> tuple[weft.Tensor, Any]:
        m.w.grad = None
        inside = x.detach().requires_grad_()
        y = body(inside)
        loss = (y * y).sum() * 0.1 + (y * 0.3).sum()
        if loss.requires_grad:
            loss.backward()
        return y.detach(), inside.grad

    if mode == "compile":
        return weft.compile(step)
    if mode == "split":
        return weft.compile(step, split=True)
    if mode == "compiled autograd":

        def captured(x: weft.Tensor) -> tuple[weft.Tensor, Any]:
            with weft.compiled_autograd.enable():
                return step(x)

        return captured
    if mode == "lazy":

        def ended(x: weft.Tensor) -> tuple[weft.Tensor, Any]:
            results = step(x)
            weft.lazy.mark_step()
            return results

        return ended
    return step


def _state(m: Model, result: weft.Tensor, gradient: Any) -> dict[str, Any]:
    """Everything that can be seen after a call, as NumPy arrays and Python values."""
    state = {
        "result": result, "gradient": gradient, "parameter's gradient": m.w.grad, "mean": m.mean, "kept": m.kept,
        "seen": list(m.seen), "last": m.named.get("last"), "count": m.count, "scale": m.scale,
        "generator": m.generator.get_state(), "default generator": weft.get_rng_state(),
        "symbols": symbols_left(m, result, gradient),
    }
    if m.device == "lazy":
        state["default generator"] = None  # lazy tensors draw from a generator of their device
    return {name: _plain(value) for name, value in state.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is not None and type(value) not in (int, float, bool, str):
        raise TypeError(f"a {type(value).__name__} is left on the model")
    return value


def difference(outcome: Outcome, expected: Outcome, has_blocks: bool = False) -> str | None:
    """What two outcomes differ in; None if nothing does. has_blocks: a branch that is not taken gives zeros where eager
    mode gives no gradient."""
    for index, (ours, theirs) in enumerate(zip(outcome.calls, expected.calls, strict=False)):
        for name, value in theirs.items():
            if has_blocks and value is None and name in ("gradient", "parameter's gradient") and ours[name] is not None:
                value = np.zeros_like(ours[name])
            if not _close(ours[name], value) and (name != "default generator" or ours[name] is not None):
                return f"call {index}, {name}: {ours[name]}, expected {value}"
    if len(outcome.calls) != len(expected.calls) or (outcome.error is None) != (expected.error is None):
        return (
            f"{len(outcome.calls)} calls, then {outcome.error!r}; "
            f"expected {len(expected.calls)}, then {expected.error!r}"
        )
    return None


def _close(a: Any, b: Any) -> bool:
    if isinstance(b, list):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and a.shape == b.shape and np.allclose(a, b, 1e-9, 1e-9, equal_nan=True)
    return bool(a == b)


def is_closed(leaf: str, rng: np.random.Generator) -> bool:
    """Whether a body gives its closed form in eager mode, and the slope of it; true of those that have none."""
    layer, m = LAYERS.get(leaf), Model()
    if layer is None:
        return True
    w = m.w.item()
    for n in rng.integers(1, 9, 4).tolist():
        values, g = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
        x = weft.tensor(values, requires_grad=True)
        y = layer.body(x, m)
        (gradient,) = weft.autograd.grad(y, x, weft.tensor(g))
        is_close = np.allclose(y.detach().numpy(), layer.value(values, w), 1e-9, 1e-9)
        if not is_close or not np.allclose(gradient.numpy(), gradient_of(layer, values, w, g), 1e-6, 1e-6):
            return False
    return True


def draw(rng: np.random.Generator, depth: int) -> Program:
    """A program of so many constructs."""
    sizes = [int(n) for n in rng.integers(1, 9, 4)]
    sizes[1] = sizes[0] if rng.random() < 0.5 else sizes[1]
    numbers = [float(n) for n in rng.choice([0.25, 0.5, 0.75], 4)]
    flags = [bool(b) for b in rng.random(4) < 0.7]
    return Program(
        tuple(str(c) for c in rng.choice(list(CONSTRUCTS), depth)), str(rng.choice(list(LEAVES))),
        tuple(zip(sizes, numbers, flags, strict=True)), bool(rng.random() < 0.5),
    )


def smaller(program: Program) -> Sequence[Program]:
    """Programs with one construct or call less, or a plainer body."""
    fewer = [program.constructs[:i] + program.constructs[i + 1 :] for i in range(len(program.constructs))]
    candidates = [Program(c, program.leaf, program.calls, program.feeds_back) for c in fewer]
    candidates += [
        Program(program.constructs, program.leaf, program.calls[:i] + program.calls[i + 1 :], program.feeds_back)
        for i in range(len(program.calls)) if len(program.calls) > 1
    ]
    if program.leaf != "plain":
        candidates.append(Program(program.constructs, "plain", program.calls, program.feeds_back))
    return candidates
