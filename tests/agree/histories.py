"""Random programs about the history of what a function returns: its results are fed back as arguments over four calls,
differentiated by one another, heard by hooks, written and dropped, in an order that is drawn.

A program is a function, as text, and a list of actions for each call. What the actions see is noted: gradients, what
hooks hear, how often checkpointed regions ran, and the kinds of errors. Two modes agree if their notes do.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from weft.ops.overrides import disabled_weft_function
from weft.support.errors import VersionError, WeftError
from weft.utils.checkpoint import checkpoint

CALLS = 4
Action = tuple[Any, ...]
Note = tuple[str, Any]
WRITTEN = "was written"
# of a backward that is differentiated again: compiled, it goes by the arguments as they were (docs/differences.md)
NOT_AGAIN = "an argument was written"

# $a, $b: values of n elements; $c: the new one
LINES = str.split(
    "$c=$a.sin() | $c=$a.tanh()*0.5 | $c=$a*$b | $c=$a*$b | $c=$a+$b | $c=$a*0.5-$b | $c=weft.where($a>0,$a,$b*2) | "
    "$c=$a.relu()+$b | $c=Straight.apply($a) | $c=Sometimes.apply($a,$b)+$b*0.1 | $c=$a.clone().mul_($b) | "
    "$c=$a*1;$c[1:].add_($b[1:]) | $c=checkpoint(region,$a,$b,use_reentrant=False) | "
    "$c=checkpoint(nested,$a,$b,use_reentrant=False) | $c=$a.detach()*$b | $c=weft.sort($a)[0] | "
    "$c=weft.stack([$a,$b]).unbind(0)[1] | $c=$a.view(-1) | $c=$a[None][0] | $c=$a.reshape(1,-1).squeeze(0) | "
    "$c=$a.flip(0) | $c=weft.stack([$a,$b]);$c=$c[0]*$c[1] | $c=$a*w | $c=$a.cumsum(0)*0.3 | $c=$a*$a | "
    "$c=$a.exp()*0.1 | $c=$b.expand(2,-1)[1]*$a | $c=weft.cat([$a[1:],$b[:1]]) | "
    "$c=$a.as_subclass(Kept)*$b | $c=$a.as_subclass(Told).sin()*$b | "
    "$c=($a.as_subclass(Told)*$b).as_subclass(weft.Tensor) | $c=weft.nn.Parameter($a*0.5) | "
    "$c=weft.nn.Parameter($a.detach()+$b);$c=$c*$b | $c=($a*$b).as_subclass(Quiet)",
    sep=" | ",
)
MARKS = (
    "$a.register_hook(lambda g: None if g is None else g * 2)", "$a.retain_grad()",
    "$a.grad_fn and $a.grad_fn.register_hook(lambda ins, outs: tuple(g if g is None else g * 3 for g in ins))",
    "$a.grad_fn and $a.grad_fn.register_prehook(lambda outs: tuple(g if g is None else g.flip(0) for g in outs))",
)  # fmt: skip
WRITES = ("$a.mul_(0.5)", "$a[1:].mul_($b[1:])")


@dataclass(frozen=True)
class Program:
    """A function's text, and what is done behind each of its calls."""

    seed: int
    text: str
    results: int
    calls: tuple[tuple[Action, ...], ...]
    sizes: tuple[int, ...]
    # whether h is a view in the first two calls, which wants no gradient until its base is written in between
    takes_view: bool

    def __str__(self) -> str:
        rows = [f"call {i}, n = {n}: {row}" for i, (n, row) in enumerate(zip(self.sizes, self.calls, strict=True))]
        view = ["h is a view of what is written between call 0 and call 1"] * self.takes_view
        return "\n".join([f"seed {self.seed}", self.text, *rows, *view])


def draw(seed: int) -> Program:
    """A random program."""
    rng = np.random.default_rng(seed)
    names, lines = ["x", "h"], []

    def filled(template: str, new: str = "") -> str:
        a, b = rng.choice(names[-4:]), rng.choice(names)
        return template.replace("$a", str(a)).replace("$b", str(b)).replace("$c", new)

    for i in range(int(rng.integers(2, 7))):
        lines.append(filled(str(rng.choice(LINES)), f"v{i}"))
        names.append(f"v{i}")
        if len(names) > 3 and rng.random() < 0.12:
            lines.append(filled(str(rng.choice(MARKS))).replace("x.", f"v{i}.").replace("h.", f"v{i}."))
        if len(names) > 4 and rng.random() < 0.08:
            lines.append(str(rng.choice(WRITES)).replace("$a", names[-2]).replace("$b", names[-1]))
    made = names[2:]
    count = int(rng.integers(1, min(4, len(made)) + 1))
    returned = [made[-1], *rng.choice(made, count).tolist()]
    body = "".join(f"    {line}\n" for line in lines)
    text = f"def function(x, h, w):\n{body}    return {', '.join(returned)},\n"
    keeping = float(rng.choice([0.8, 0.4]))  # how often a backward call keeps the graph
    calls = tuple([
        tuple([_action(rng, len(returned), keeping) for _ in range(int(rng.integers(2, 7)))]) for _ in range(CALLS)
    ])
    sizes = tuple([4, 4, *rng.integers(2, 6, CALLS - 2).tolist()])
    return Program(seed, text, len(returned), calls, sizes, bool(rng.random() < 0.25))


def _action(rng: np.random.Generator, results: int, keeping: float) -> Action:
    i, j = rng.integers(0, results, 2).tolist()
    keeps, creates = bool(rng.random() < keeping), bool(rng.random() < 0.3)
    kinds = (
        "hook", "hook", "scaled", "retain", "grad", "grad", "grad", "grad by", "backward", "backward", "write", "use",
        "feed", "feed", "drop", "together", "inputs", "inputs by", "second", "edge",
    )
    kind = str(rng.choice(kinds))
    if kind in ("grad", "inputs"):
        return kind, i, j, keeps, creates and kind == "grad"
    if kind in ("grad by", "inputs by"):
        return kind, i, str(rng.choice(["x", "w", "h"])), keeps, creates and kind == "grad by"
    if kind in ("use", "together"):
        return kind, i, j
    if kind == "write":
        return kind, i, bool(rng.random() < 0.4)
    return (kind, i, keeps) if kind == "backward" else (kind, i)


class Run:
    """One run of a program. device: of its tensors; wrap: makes a function of the program's."""

    def __init__(
        self, program: Program, wrap: Callable[[Any], Any], device: str | None = None, counts: bool = True
    ) -> None:
        self.program, self.device, self.counts = program, device, counts
        self.notes: list[Note] = []
        self.regions = 0
        file = f"<history {program.seed} {id(self)}>"
        linecache.cache[file] = (len(program.text), None, program.text.splitlines(True), file)
        names = {"weft": weft, "checkpoint": checkpoint, **rules(), **self._regions()}
        exec(compile(program.text, file, "exec"), names)
        self.function = wrap(names["function"])

    def _regions(self) -> dict[str, Any]:
        def region(a: Any, b: Any) -> Any:
            if self.counts:
                self.regions += 1
            return (a.sin() * b).tanh() * a

        def nested(a: Any, b: Any) -> Any:
            if self.counts:
                self.regions += 1
            return checkpoint(region, a * b, b, use_reentrant=False).cos() * b

        return {"region": region, "nested": nested}

    def run(self) -> list[Note]:
        """Make all calls, and note what is seen."""
        rng = np.random.default_rng(self.program.seed)
        self.w = self._leaf(rng.standard_normal(1))
        fed: Any = None
        base = self._leaf(rng.standard_normal(self.program.sizes[0] + 1)).detach()
        view = base[1:]
        for call, (n, actions) in enumerate(zip(self.program.sizes, self.program.calls, strict=True)):
            self.x = self._leaf(rng.standard_normal(n))
            h = self._leaf(rng.standard_normal(n))
            self.h = fed if fed is not None and fed.shape == h.shape and has_a_history_or_none(fed) else h
            if self.program.takes_view and call < 2:
                if call == 1:
                    base.mul_(self.w)
                self.h = view
            fed = None
            try:
                self.results: list[Any] = list(self.function(self.x, self.h, self.w))
            except WeftError as error:
                self.notes.append(("call", type(error).__name__))
                continue
            self.extra: list[Any] = []
            self.edge: Any = None
            versions = self._versions()
            for action in actions:
                before, regions = len(self.notes), self.regions
                try:
                    self._act(*action)
                except VersionError:  # (what is saved of what, modes choose)
                    again = versions != self._versions() and _is_differentiated_again(action)
                    self.notes[before:] = [(str(action), NOT_AGAIN if again else WRITTEN)]
                    return self.notes
                except WeftError:  # (how far a call comes before it fails, and what is kept, modes choose)
                    self.notes[before:] = [(str(action), "error")]
                    self.regions, self.counts = regions, False
                    self._forget_gradients()
                    if _frees(action):
                        return self.notes
                if action[0] == "feed" and self.results[action[1]] is not None:
                    fed = self.results[action[1]]
            self._note_all()
        return self.notes

    def _leaf(self, values: Any) -> Any:
        return weft.tensor(values.astype(np.float64), device=self.device).requires_grad_()

    def _versions(self) -> list[int]:
        return [tensor._version for tensor in (self.x, self.h, self.w)]

    def _forget_gradients(self) -> None:
        for tensor in (self.x, self.h, self.w, *self.results):
            if tensor is not None and tensor._autograd is not None:
                tensor._autograd.grad = None

    def _note_all(self) -> None:
        for name, tensor in (("x", self.x), ("w", self.w), *[(f"r{i}", r) for i, r in enumerate(self.results)]):
            if tensor is None:
                continue
            if not has_a_history_or_none(tensor):
                self.notes.append((name, "is a view of what was written"))
                continue
            is_leaf = tensor.is_leaf
            if name[0] == "r":
                self.note(name, tensor.detach())
                self.notes.append((f"{name} wants", tensor.requires_grad))
                self.notes.append((f"{name} is a", type(tensor)))
            if is_leaf or tensor.retains_grad:
                self.note(f"{name}.grad", tensor.grad)
        self.w.grad = None
        self.notes.append(("regions", self.regions))

    def note(self, what: str, value: Any) -> None:
        """Note a tensor, or None."""
        self.notes.append((what, None if value is None else np.array(value.tolist(), dtype=np.float64)))

    # ---- what is done
    def _act(self, kind: str, i: int, *how: Any) -> None:
        r = self.results[i]
        if r is None or (how and kind in ("grad", "inputs", "use", "together") and self.results[how[0]] is None):
            return
        if kind == "hook":
            r.register_hook(lambda g: None if g is None else self.note(f"hook {i}", g))
        elif kind == "scaled":
            r.register_hook(lambda g: None if g is None else g * 3)
        elif kind == "retain":
            r.retain_grad()
        elif kind in ("grad", "grad by"):
            by = self.results[how[0]] if kind == "grad" else getattr(self, how[0])
            self._grad(r, by, *how[1:])
        elif kind == "backward":
            r.sum().backward(retain_graph=how[0])
        elif kind in ("inputs", "inputs by"):
            by = self.results[how[0]] if kind == "inputs" else getattr(self, how[0])
            r.sum().backward(inputs=[by], retain_graph=how[1])
        elif kind == "write":
            if how[0]:
                with weft.no_grad():
                    r.mul_(2)
            else:
                r.mul_(2)
        elif kind == "use":
            self.results.append((r * self.results[how[0]]).sin())
        elif kind == "drop":
            self.results[i] = None
        elif kind == "together":
            pair = [r, self.results[how[0]]]
            weft.autograd.graph.register_multi_grad_hook(
                pair, lambda gs: [self.note("both", g) for g in gs if g is not None]
            )
        elif kind == "edge":
            if self.edge is not None and self.results[0] is not None:
                self.note("by edge", weft.autograd.grad(self.results[0].sum(), self.edge, retain_graph=True)[0])
            self.edge = weft.autograd.graph.get_gradient_edge(r)
        elif kind == "second":
            for gradient in self.extra:
                self._grad(gradient, r, True, False, "second")

    def _grad(self, of: Any, by: Any, keeps: bool, creates: bool, what: str = "grad") -> None:
        creates = creates and "Parameter(" not in self.program.text  # (refused: docs/differences.md)
        (gradient,) = weft.autograd.grad(
            of.sum(), by, retain_graph=keeps or creates, create_graph=creates, allow_unused=True
        )
        if what == "grad" or (gradient is not None and gradient.abs().sum().item() > 0):  # (zeros are like nothing)
            self.note(what, gradient)
            if gradient is not None:
                self.notes.append((f"{what} wants", (gradient.requires_grad, gradient.is_leaf)))
        if creates and gradient is not None and gradient.requires_grad:
            self.extra.append(gradient)


def _frees(action: Action) -> bool:
    """Whether a backward call lets go of what it went through: one that fails, of a part of it that modes choose."""
    if action[0] in ("grad", "grad by", "inputs", "inputs by"):
        return not (action[3] or action[4])
    return action[0] == "backward" and not action[2]


def _is_differentiated_again(action: Action) -> bool:
    return action[0] == "second" or (action[0] in ("grad", "grad by") and action[4])


def rules() -> dict[str, Any]:
    class Straight(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return weft.round(x * 4) / 4

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 1.5

    class Sometimes(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a)
            return a * 2 + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            return g * a, None

    return {"Straight": Straight, "Sometimes": Sometimes, "Kept": Kept, "Told": Told, "Quiet": Quiet}


class Kept(weft.Tensor):
    """A subclass that every operator keeps."""


class Quiet(weft.Tensor):
    """A subclass that no operator keeps."""

    __weft_function__ = disabled_weft_function


class Told(weft.Tensor):
    """A subclass with a rule: its sines count double."""

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__weft_function__(func, types, args, kwargs)
        return (out.as_subclass(weft.Tensor) * 2).as_subclass(cls) if func.__name__ == "sin" else out


def has_a_history_or_none(tensor: Any) -> bool:
    """Whether autograd says where a tensor is from: not of one of several views of what was written since."""
    try:
        _ = tensor.is_leaf
    except WeftError:
        return False
    return True


def difference(first: list[Note], second: list[Note], makes_leaves: bool = False) -> str | None:
    """Where the notes of two runs differ. makes_leaves: whether the function has leaves of its own, the way to which is
    no history of a compiled result (docs/differences.md)."""
    if not any(what == "call" for what, _ in first) and any(what == "call" for what, _ in second):
        return f"a call is refused: {[n for n in second if n[0] == 'call']}"
    for at, ((what, a), (other, b)) in enumerate(zip(first, second, strict=False)):
        if a is WRITTEN or any([note is NOT_AGAIN for note in (a, b)]):
            return None
        if isinstance(a, str) and a == "error" and (b is WRITTEN or (makes_leaves and b != a)):
            return None
        if what != other or not _same(a, b):
            return f"note {at}: {what} {a}, and {other} {b}"
    return None if len(first) == len(second) else f"{len(first)} notes, and {len(second)}: {[n[0] for n in second]}"


def _same(a: Any, b: Any) -> bool:
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return type(a) is type(b) and a == b
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)


def quietly(run: Callable[[], Any]) -> Any:
    """Run without warnings (about gradients of tensors that are no leaves)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()
