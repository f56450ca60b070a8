"""Random programs that draw: from the default generator and from two of their own, in expressions, custom Functions,
hooks, checkpoints, branches, loops, transforms and saved-tensor hooks.

A program is one function of x [n], a leaf w [n] and a flag, over four calls; between two of them generators may be
seeded or put into another state. Truth is eager mode: values, gradients, and where each call leaves the generators.
"""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import weft
import weft.compiled_autograd
from tests.deferred import deferred
from weft.utils.checkpoint import checkpoint

Array = np.ndarray[Any, Any]
MODES = ("compile", "interpret", "split", "lazy", "compiled autograd", "trace", "deferred")
# what a trace has no word for
UNTRACED = (
    "Noisy", "hook", "checkpoint", "func.", "vmap", "saved_tensors_hooks", "fork_rng", "state", "seed", "deepcopy",
    "G0",
)

# of a value v: anything of its size, drawn from the default generator or from one that is named
NAMED = str.split(
    "weft.rand(V.shape,device=V.device,generator=G) weft.randn(V.shape,device=V.device,generator=G) "
    "weft.bernoulli(V.sigmoid(),generator=G) weft.bernoulli(V,0.3,generator=G) V.clone().bernoulli_(0.6,generator=G) "
    "V.clone().bernoulli_(V.sigmoid(),generator=G) V.clone().uniform_(-1,2,generator=G) "
    "V.clone().normal_(1,2,generator=G).sin() V.clone().exponential_(2.0,generator=G) "
    "V.clone().geometric_(0.4,generator=G) V.clone().log_normal_(0,0.5,generator=G).tanh() "
    "V.clone().cauchy_(generator=G).atan() V.clone().random_(5,generator=G) weft.normal(V,0.5,generator=G) "
    "weft.poisson(V.abs()*9,generator=G) weft.binomial(weft.full_like(V,30.0),V.sigmoid().detach(),generator=G)/30"
)
UNNAMED = str.split(
    "weft.rand_like(V) weft.randn_like(V) weft.randint_like(V,7) F.dropout(V,0.4) F.alpha_dropout(V,0.3,True) "
    "F.rrelu(V,training=True) weft.rand_like(V[:1]) weft.rand_like(V).sum() weft.randn_like(V[:2]).sum()"
)
# of a value whose size is no number of one example's
LARGE = str.split(
    "V[weft.randperm(V.shape[0],device=V.device,generator=G)] F.gumbel_softmax(V,hard=True,dim=0) "
    "weft.multinomial(V.sigmoid(),2,generator=G).sum() weft.multinomial(V.sigmoid(),3,True,generator=G).sum() "
    "weft.randint(0,2**40,(2,),device=V.device,generator=G).sum()/2.0**41 F.dropout1d(V[None,:,None],0.5).view(-1)"
)
NO_SUM = 0.017  # what a branch compares with: sums of differences from a mean are 0 but for their rounding
PLAIN = str.split("V.sin() V.tanh() V*0.7 V+0.3 V.abs() V.sigmoid() (V-V.mean())")


@dataclass(frozen=True)
class Program:
    """lines: those of the function. acts: what is done to generators before each call. inside: whether the function
    itself goes backward; else its caller does, who draws before."""

    seed: int
    lines: tuple[str, ...]
    acts: tuple[str, ...]
    sizes: tuple[int, ...]
    flags: tuple[bool, ...]
    inside: bool

    def source(self) -> str:
        """The function."""
        body = "".join(f"    {line}\n" for line in self.lines)
        end = "    return loss, weft.autograd.grad(loss, w)[0]\n" if self.inside else "    return loss, None\n"
        return f"def step(x, w, flag, G0=None):\n    v = w * x\n{body}    loss = (v * weft.rand_like(v)).sum()\n{end}"


# ---- drawing programs
def draw(seed: int) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng([seed, 17])
    drawing = _Drawing(rng)
    lines = tuple(line for _ in range(int(rng.integers(1, 5))) for line in drawing.statement())
    sizes = tuple(int(n) for n in rng.choice([3, 4, 5, 8], 4))
    acts = tuple(str(a) for a in rng.choice(["", "", "seed", "named seed", "state", "draw"], 4))
    return Program(seed, lines, acts, sizes, tuple(bool(b) for b in rng.random(4) < 0.6), bool(rng.random() < 0.7))


class _Drawing:
    """Parts of a program. is_row: of a number, within a loop over rows; is_mapped: within a transform, where no block
    is recorded."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.is_kept = False  # within a checkpoint, or hooks on saved tensors

    def one_of(self, *items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def expression(self, name: str, depth: int = 0, is_row: bool = False, is_mapped: bool = False) -> str:
        """One that draws, of a variable."""
        if depth < 3 and self.rng.random() < 0.2:
            return self.construct(name, depth, is_row, is_mapped)
        chosen = self.one_of(NAMED, UNNAMED, UNNAMED, *([] if is_row or is_mapped else [LARGE]))
        pool = [t for t in chosen if "[" not in t] if is_row else chosen
        text = self.one_of(*pool).replace("V", name).replace("G", self.one_of("None", "None", "G0", "G1", "G2"))
        other = self.one_of(*PLAIN).replace("V", name)
        whole = f"({other}){self.one_of('+', '*', '-')}({text})"
        return f"({whole}).tanh()" if depth or self.rng.random() < 0.5 else f"({whole}).sin()"

    def construct(self, name: str, depth: int, is_row: bool, is_mapped: bool) -> str:
        """One within which code runs later, or otherwise than as it is written. (Gradients within a checkpoint, and
        checkpoints within a transform, are PyTorch's refusals too.)"""
        inner = "abc"[depth] + str(depth)
        kinds = ["jvp"]
        if not self.is_kept:
            kinds += ["grad", "vjp"]
        if not is_mapped:
            kinds += ["checkpoint", "function", "branch", "hook"]
        if not is_row:
            kinds.append("vmap")
        kind, kept = self.one_of(*kinds), self.is_kept
        self.is_kept = kept or kind == "checkpoint"
        is_inner_mapped = is_mapped or kind in ("jvp", "grad", "vjp", "vmap")
        body, again = (
            self.expression(inner, depth + 1, is_row or kind == "vmap", is_inner_mapped) for _ in range(2)
        )
        self.is_kept = kept
        made: dict[str, str] = {
            "jvp": f"weft.func.jvp(lambda {inner}: {body}, ({name},), ({name},))[1]",
            "grad": f"weft.func.grad(lambda {inner}: ({body}).sum())({name})",
            "vjp": f"weft.func.vjp(lambda {inner}: {body}, {name})[1]({name})[0]",
            "checkpoint": f"checkpoint(lambda {inner}: {body}, {name}, use_reentrant=False, "
            f"preserve_rng_state={self.one_of(True, False)})",
            "function": f"{self.one_of('Noisy', 'NoisyBackward')}.apply({name})",
            "branch": f"weft.cond({name}.sum() > {NO_SUM}, lambda {inner}: {body} + {inner} * 0, "
            f"lambda {inner}: {again} + {inner} * 0, ({name},))",
            "hook": f"hooked({name}, lambda {inner}: {body})",
            "vmap": f"weft.vmap(lambda {inner}: {body}, randomness='{self.one_of('same', 'different')}')({name})",
        }
        return made[kind]

    def several(self, name: str, **options: Any) -> str:
        """Sums of them."""
        return "+".join(self.expression(name, 1, **options) for _ in range(int(self.rng.integers(1, 3))))

    def statement(self) -> list[str]:
        """Lines that give v another value."""
        kinds = (
            self.plain, self.plain, self.function, self.hook, self.checkpointed, self.branch, self.scan, self.loop,
            self.transformed, self.mapped, self.saved, self.states, self.flag, self.nested, self.asked,
        )
        made: list[str] = self.one_of(*kinds)()
        return made

    def plain(self) -> list[str]:
        return [f"v = {self.several('v')}"]

    def function(self) -> list[str]:
        return [f"v = {self.one_of('Noisy', 'NoisyBackward')}.apply(v)"]

    def hook(self) -> list[str]:
        return ["v = v * 1", f"v.register_hook(lambda g: {self.expression('g')})", "v = v.sin()"]

    def checkpointed(self) -> list[str]:
        keep = self.one_of(True, True, False)
        self.is_kept = True
        region = f"lambda a: ({self.several('a')}).sin()"
        self.is_kept = False
        return [f"v = checkpoint({region}, v, use_reentrant=False, preserve_rng_state={keep})"]

    def branch(self) -> list[str]:
        return [
            f"v = weft.cond(v.sum() > {self.one_of(NO_SUM, -99, 99)}, lambda a: ({self.several('a')}) * a, "
            f"lambda a: {self.one_of('a * 1', self.expression('a') + '+ a * 0')}, (v,))"
        ]

    def scan(self) -> list[str]:
        row = self.several("r", is_row=True)
        return [f"c, v = weft.scan(lambda c, r: (({self.expression('c', is_row=True)}) * 0.5, c + {row}), v.sum(), v)",
                "v = v + c"]

    def loop(self) -> list[str]:
        return [
            f"v = weft.while_loop(lambda i, a: i < {self.one_of(2, 3)}, "
            f"lambda i, a: (i + 1, {self.several('a')} + a * 0), "
            "(weft.zeros((), dtype=weft.int64, device=v.device), v))[1]"
        ]

    def nested(self) -> list[str]:
        chosen = self.expression("r", is_row=True)
        return [
            f"v = weft.scan(lambda c, r: (weft.cond(r > {NO_SUM}, lambda: c * {chosen}, lambda: c * 1), "
            f"weft.cond(c > {NO_SUM}, lambda: r * 1, lambda: {self.several('r', is_row=True)})), v.sum(), v)[1]"
        ]

    def transformed(self) -> list[str]:
        inner = f"lambda a: ({self.several('a', is_mapped=True)})"
        return [self.one_of(
            f"v = v + weft.func.grad({inner[:-1]}).sum())(v)",
            f"v = v + weft.func.vjp({inner}, v)[1](v)[0]",
            f"v = v + weft.func.jvp({inner}, (v,), (v.cos(),))[1]",
        )]

    def mapped(self) -> list[str]:
        how = self.one_of("same", "different")
        inner = self.several("a", is_mapped=True, is_row=True)
        return [f"v = v + weft.vmap(lambda a: {inner}, randomness='{how}')(v)"]

    def saved(self) -> list[str]:
        hooks = (f"lambda t: t {sign} weft.rand_like(t) if t.is_floating_point() else t" for sign in "+*")
        self.is_kept = True
        body = self.several("v")
        self.is_kept = False
        return [f"with saved_tensors_hooks({', '.join(hooks)}):", f"    v = {body}"]

    def states(self) -> list[str]:
        again = ["before = weft.get_rng_state()", f"v = {self.several('v')}", "weft.set_rng_state(before)"]
        forked = [f"with fork_rng(generator={self.one_of('None', 'G1', 'G2')}):", f"    v = {self.several('v')}"]
        named = ["before = G1.get_state()", f"v = {self.several('v')}", "G1.set_state(before)"]
        seeded = [f"G2.manual_seed({self.one_of('31', 'v.shape[0]')})", f"v = {self.several('v')}"]
        place = self.one_of("weft.Generator().manual_seed(v.shape[0])", "G1.clone_state()", "deepcopy(G2)")
        inner = [f"g = {place}", f"v = v + weft.rand(v.shape, device=v.device, generator=g) * {self.several('v')}",
                 "v = v.sin() * weft.bernoulli(v.sigmoid(), generator=g)"]
        made: list[str] = self.one_of(again, forked, named, seeded, inner)
        return made

    def asked(self) -> list[str]:
        """What tensors say of gradients, beside a generator among the arguments."""
        question = self.one_of(
            "v.requires_grad", "w.requires_grad and G0 is not None", "not x.requires_grad", "v.is_leaf"
        )
        place = self.one_of("G0", "G0", "G1", "None")
        drawn = f"weft.rand(v.shape, device=v.device, generator={place})"
        made: list[str] = self.one_of(
            [f"if {question}:", f"    v = {self.several('v')} * {drawn}"],
            ["with weft.no_grad():", f"    u = {self.several('v')}", f"v = v + (u if {question} else u * 0.5)"],
            [f"v = v * ({drawn} if {question} else 2.0)"],
        )
        return made

    def flag(self) -> list[str]:
        return ["if flag:", *(f"    {line}" for line in self.statement()), "else:", "    v = v * 1"]


def hooked(x: Any, hook: Callable[[Any], Any]) -> Any:
    """x behind a hook."""
    y = x * 1
    if y.requires_grad:
        y.register_hook(hook)
    return y.sin()


class Noisy(weft.autograd.Function):
    """Draws forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x * weft.bernoulli(weft.full_like(x, 0.7)) + weft.rand_like(x)).tanh()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * weft.bernoulli(weft.full_like(g, 0.5)) * weft.rand_like(g)


class NoisyBackward(weft.autograd.Function):
    """Draws backwards only."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * weft.nn.functional.dropout(x, 0.3).cos() + weft.randn_like(g)


# ---- running them
def run(program: Program, mode: str) -> list[list[Any]]:
    """What each call leaves: values, the gradient, and where the generators stand."""
    device = "lazy" if mode == "lazy" else "cpu"
    named = weft.Generator(device).manual_seed(program.seed), weft.Generator(device).manual_seed(program.seed + 1)
    generators = (weft.default_generator, *named)
    weft.manual_seed(program.seed + 2)
    step = _compiled(_function(program, *named), mode)
    log = []
    with weft.compiled_autograd.enable() if mode == "compiled autograd" else nullcontext():
        for call, (n, act) in enumerate(zip(program.sizes, program.acts, strict=True)):
            _act(act, generators, call)
            rng = np.random.default_rng([program.seed, call])
            x, w = (weft.tensor(rng.uniform(-1, 1, n).astype(np.float32)).to(device) for _ in range(2))
            w.requires_grad_()
            more = () if mode == "trace" else (named[call % 2],)  # (a trace has no such argument)
            loss, gradient = step(x, w, program.flags[call], *more)
            if gradient is None:
                weft.rand(2, generator=named[0])
                loss.backward()
                gradient = w.grad
            values = [loss.detach().cpu().numpy(), gradient.detach().cpu().numpy()]
            log.append([*values, *(g.place()[::2] for g in generators)])
    return log


def _function(program: Program, first: Any, second: Any) -> Callable[..., Any]:
    source, file = program.source(), f"<draws {program.seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = {
        "weft": weft, "F": weft.nn.functional, "G1": first, "G2": second, "Noisy": Noisy,
        "NoisyBackward": NoisyBackward, "checkpoint": checkpoint, "deepcopy": copy.deepcopy, "hooked": hooked,
        "fork_rng": weft.random.fork_rng, "saved_tensors_hooks": weft.autograd.graph.saved_tensors_hooks,
    }
    exec(compile(source, file, "exec"), names)
    made: Callable[..., Any] = names["step"]  # type: ignore[assignment]
    return made


def _compiled(step: Callable[..., Any], mode: str) -> Callable[..., Any]:
    if mode in ("eager", "lazy", "compiled autograd"):
        return step
    if mode == "trace":
        return _Traced(step)
    if mode == "deferred":
        return deferred(step)
    options: dict[str, Any] = {"interpret": {"backend": "interpret"}, "split": {"split": True}}.get(mode, {})
    made: Callable[..., Any] = weft.compile(step, **options)
    return made


class _Traced:
    """The trace of the first call, which draws as every other one does."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self.step, self.program = step, None

    def __call__(self, x: Any, w: Any, flag: bool) -> Any:
        if self.program is None:
            generators = weft.default_generator, self.step.__globals__["G1"], self.step.__globals__["G2"]
            places = [g.place() for g in generators]
            self.program = weft.jit.trace(lambda x, w: self.step(x, w, flag)[0], (x, w), check_trace=False)
            for g, place in zip(generators, places, strict=True):
                g.return_to(place)
        return self.program(x, w), None


def fits(program: Program, mode: str) -> bool:
    """Whether a mode can say what the program does."""
    is_plain = not program.inside and not any(word in line for word in UNTRACED for line in program.lines)
    return mode != "trace" or (is_plain and len(set(program.flags)) == 1)


def _act(act: str, generators: tuple[Any, ...], call: int) -> None:
    default, first, second = generators
    if act == "seed":
        default.manual_seed(call)
    elif act == "named seed":
        first.manual_seed(2**64 - 1 - call)
    elif act == "state":
        second.set_state((call + 5, 2**33 + call))
    elif act == "draw":
        weft.rand(3, generator=first)


class Disagreement(AssertionError):
    """A mode and eager mode differ."""


def check(program: Program, modes: tuple[str, ...] = MODES) -> None:
    """One answer in every mode. Raises Disagreement or whatever a mode raises."""
    expected = run(program, "eager")
    for mode in modes:
        if not fits(program, mode):
            continue
        try:
            found = run(program, mode)
        except weft.WeftError as error:
            if not is_refusal(error):
                raise
            found = []
        finally:
            _check_generators(mode)
        for call, (here, true) in enumerate(zip(found, expected, strict=False)):
            if here[2:] != true[2:]:
                raise Disagreement(f"{mode}, call {call}: generators at {here[2:]}, expected {true[2:]}")
            for a, b in zip(here[:2], true[:2], strict=True):
                # 1 - tanh(x)**2 of large x loses digits; another number that was drawn shows in the first ones
                if a.shape != b.shape or not np.allclose(a, b, rtol=2e-3, atol=2e-4):
                    raise Disagreement(f"{mode}, call {call}: {a}, expected {b}")


def is_refusal(error: weft.WeftError) -> bool:
    """Whether an error is one that the page of differences tells of."""
    return any(words in str(error) for words in REFUSALS)


REFUSALS = ("seeds a generator, or puts it into a state",)


def _check_generators(mode: str) -> None:
    """No symbol stays in the generator that all share."""
    place = weft.default_generator.stream.state()
    if any(type(number) is not int for number in place):
        weft.default_generator.stream.go_to(0, 1, 0)
        raise Disagreement(f"{mode}: the generator is left at {place}")


def shrink(program: Program, modes: tuple[str, ...] = MODES) -> Program:
    """The smallest program found that still fails: fewer statements, then fewer calls that differ."""
    smaller = True
    while smaller:
        smaller = False
        for i in reversed(range(len(program.lines))):
            candidate = replace(program, lines=program.lines[:i] + program.lines[i + 1 :])
            if failure(candidate, modes) is not None:
                program, smaller = candidate, True
                break
    for candidate in (replace(program, acts=("",) * 4), replace(program, sizes=(3,) * 4)):
        program = candidate if failure(candidate, modes) is not None else program
    return program


def failure(program: Program, modes: tuple[str, ...] = MODES) -> BaseException | None:
    """What goes wrong with a program, if anything; programs that are none in eager mode say nothing."""
    try:
        run(program, "eager")
    except Exception:
        return None
    try:
        check(program, modes)
    except Exception as error:
        return error
    return None
