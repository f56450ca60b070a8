"""Running a random program: in NumPy, which is the truth, and in every mode of weft; and comparing what came out."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

import weft
from tests.agree.generate import Program
from tests.compare_graphs import difference
from tests.symbols_left import symbols_left
from weft.ir.evaluate import interpret
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify
from weft.passes.pipeline import optimize
from weft.passes.run import Run
from weft.programs.executable import make_executable
from weft.support.knobs import knobs

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
MODES = ("eager", "interpret", "numpy", "llvm")


class Disagreement(AssertionError):
    """Two modes differ."""


class Skip(Exception):
    """The program says nothing: it is refused in eager mode already, or its numbers are too large to compare."""


@dataclass
class Seen:
    """What one call left behind: results, arguments and state afterwards, gradients."""

    values: Arrays = field(default_factory=dict)


def make_function(program: Program, form: str, names: dict[str, Any]) -> Any:
    """The program as a Python function that knows its state by name.
    Its source can be read by tracebacks and guards."""
    source = program.source(form)
    file = f"<agree {program.seed} {form} {id(names)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), names)
    return names["program"]


_numpy_code = lru_cache(maxsize=100)(partial(compile, filename="<agree numpy>", mode="exec"))


# ---- what goes in
def draw_calls(program: Program, count: int) -> list[dict[str, int]]:
    """Sizes for several calls; the second often has equal sizes, where only symbols tell them apart."""
    rng = np.random.default_rng([program.seed, 1])
    calls = []
    for i in range(count):
        sizes = {s: int(rng.integers(1, 6)) for s in ("a", "b")}
        if i == 1 and rng.random() < 0.5:
            sizes["b"] = sizes["a"]
        calls.append(sizes)
    return calls


@dataclass(frozen=True)
class Call:
    """One call: sizes, argument values, and how each argument lies in memory.

    layouts: "rows" row-major, "columns" with its dims in reverse order, "gaps" every other element of a larger array,
    "same" another argument again.
    """

    sizes: dict[str, int]
    values: list[Array]
    layouts: tuple[str, ...]

    def arrays(self) -> list[Array]:
        """The arguments, in memory of their own at each time."""
        made: list[Array] = []
        for value, layout in zip(self.values, self.layouts, strict=True):
            if layout == "same":
                made.append(next((x for x in made if x.shape == value.shape), value.copy()))
            elif layout == "columns":
                made.append(value.T.copy().T)
            elif layout == "gaps":
                wide = np.zeros((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)
                wide[..., ::2] = value
                made.append(wide[..., ::2])
            else:
                made.append(value.copy())
        return made


def draw_call(program: Program, sizes: dict[str, int], call: int) -> Call:
    """Arguments of one call."""
    rng = np.random.default_rng([program.seed, 2, call])
    shapes = [tuple(sizes[d] if d.isalpha() else int(d) for d in shape) for shape in program.arguments]
    values = [rng.uniform(-1, 1, s).astype(program.dtype) for s in shapes]
    odds = (0.7, 0.12, 0.12, 0.06) if not program.wants_grad else (0.76, 0.12, 0.12, 0.0)
    return Call(
        sizes, values, tuple(str(x) for x in rng.choice(["rows", "columns", "gaps", "same"], len(shapes), p=odds))
    )


def draw_state(program: Program) -> Arrays:
    """State before the first call."""
    rng = np.random.default_rng([program.seed, 3])
    return {name: rng.uniform(-1, 1, dims).astype(program.dtype) for name, dims in program.state.items()}


# ---- the truth
def run_numpy(program: Program, calls: Sequence[Call]) -> list[Seen]:
    """The program in NumPy, with gradients by central differences. Raises Skip if its numbers grow too large."""
    state = draw_state(program)
    gradients: dict[str, Array | None] = {w: None for w in program.leaves}
    seen = []
    for call in calls:
        found = _numpy_gradients(program, call, state) if program.wants_grad else {}
        mine = call.arrays()
        outputs, _ = _numpy_once(program, mine, state)
        for name, g in found.items():
            before = gradients[name]
            gradients[name] = g if before is None else before + g
        _update(program, state, gradients)  # a result may be a view of state
        here = Seen(
            {f"result {i}": np.array(o) for i, o in enumerate(outputs)}
            | {f"argument {i}": x for i, x in enumerate(mine)}
        )
        here.values |= {f"state {n}": x.copy() for n, x in state.items()}
        here.values |= {f"gradient {n}": g.copy() for n, g in gradients.items() if g is not None}
        if any(not np.all(np.isfinite(v)) or np.abs(v).max(initial=0) > 1e3 for v in here.values.values()):
            raise Skip("large numbers")
        seen.append(here)
    return seen


def _numpy_once(program: Program, arguments: list[Array], state: Arrays) -> tuple[Any, float]:
    loss: list[Any] = [0.0]
    names = {"np": np, "loss": loss, **state}
    with np.errstate(all="ignore"):
        exec(_numpy_code(program.source("numpy")), names)
        outputs = names["program"](*arguments)
    return outputs, float(np.asarray(loss[0]))


def _numpy_gradients(program: Program, call: Call, state: Arrays) -> Arrays:
    step = 1e-6
    found = {}
    for name in program.leaves:
        gradient = np.zeros_like(state[name])
        for at in np.ndindex(*gradient.shape):
            losses = []
            for sign in (1, -1):
                moved = {n: x.copy() for n, x in state.items()}
                moved[name][at] += sign * step
                losses.append(_numpy_once(program, call.arrays(), moved)[1])
            gradient[at] = (losses[0] - losses[1]) / (2 * step)
        found[name] = gradient
    return found


def _update(program: Program, state: Arrays, gradients: dict[str, Array | None]) -> None:
    for name in program.leaves if program.update != "none" else ():
        g = gradients[name]
        assert g is not None
        state[name] -= 0.1 * g
        if program.update == "clear":
            gradients[name] = None
        if program.update == "zero":
            gradients[name] = np.zeros_like(g)


# ---- weft
def run_weft(program: Program, calls: Sequence[Call], mode: str, check_stages: bool = False) -> list[Seen]:
    """The program in one mode of weft. check_stages: at each call also run every graph stage, printed and parsed again,
    and compare."""
    is_lazy = mode.startswith("lazy")
    state = {
        n: weft.tensor(x, device="lazy" if is_lazy else "cpu").requires_grad_(n.startswith("w"))
        for n, x in draw_state(program).items()
    }
    function = make_function(program, "weft", {"weft": OnLazy() if is_lazy else weft, **state})
    if is_lazy:
        function = _steps(function, mode)
    elif mode != "eager":
        function = weft.compile(function, backend=mode.removeprefix("split "), split=mode.startswith("split"))
    seen = []
    for call in calls:
        tensors = _tensors(call.arrays(), mode.startswith("split") and program.seed % 4 > 0)
        if is_lazy:
            moved = {id(x): x.to("lazy") for x in tensors}
            tensors = [moved[id(x)] for x in tensors]
        outputs = function(*tensors)
        left = symbols_left(state, outputs, tensors)
        if left:
            raise Disagreement(f"symbols are left behind: {left}")
        here = Seen({f"result {i}": _array(o) for i, o in enumerate(outputs)})
        here.values |= {f"argument {i}": _array(x) for i, x in enumerate(tensors)}
        here.values |= {f"state {n}": _array(x) for n, x in state.items()}
        here.values |= {f"gradient {n}": _array(state[n].grad) for n in program.leaves if state[n].grad is not None}
        seen.append(here)
        if check_stages:
            for entry in function.entries:
                if not isinstance(entry.executable, CheckedStages):
                    entry.executable = CheckedStages(entry.graph, mode)
    return seen


class OnLazy:
    """weft, with factories that make lazy tensors."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(weft, name)
        return partial(found, device="lazy") if name in ("tensor", "ones", "zeros", "full", "arange") else found


def _steps(function: Any, mode: str) -> Any:
    """Each call as a step of the lazy device."""

    def step(*arguments: Any) -> Any:
        with knobs(backend=mode.removeprefix("lazy ")):
            found = function(*arguments)
            weft.lazy.mark_step(wait=True)
        return found

    return step


def _array(tensor: Any) -> Array:
    return np.array(tensor.detach().cpu().numpy())


def _tensors(arrays: list[Array], own: bool = False) -> list[Any]:
    """A tensor for each array, over its memory (own: over memory that only tensors have, and that lies alike); the same
    tensor for the same array."""
    made: dict[int, Any] = {}
    return [made.setdefault(id(x), _owned(x) if own else weft.from_numpy(x)) for x in arrays]


def _owned(array: Array) -> Any:
    root = array if array.base is None else array.base
    assert isinstance(root, np.ndarray)
    memory = weft.tensor(root.ravel(order="K"))
    return memory.as_strided(array.shape, tuple(s // array.itemsize for s in array.strides), 0)


class CheckedStages:
    """An executable that also runs each stage of the graph after printing and parsing it,
    and compares what they give."""

    def __init__(self, graph: Any, mode: str) -> None:
        run = Run()
        optimize(graph, run)
        self.stages = {name: _parsed(name, g) for name, g in run.stages.items()}
        self.inner = make_executable(self.stages["captured"], mode)

    def run(self, inputs: Sequence[Any], symbols: dict[str, int]) -> list[Any]:
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
        results = {
            name: interpret(g, [x.copy() if isinstance(x, np.ndarray) else x for x in copies], symbols)
            for name, g in self.stages.items()
        }
        found = self.inner.run(inputs, symbols)
        for name, values in results.items():
            for i, (v, w) in enumerate(zip(values, found, strict=True)):
                compare(f"stage {name}, result {i}", np.asarray(v), np.asarray(w), 1e-9)
        return found


def _parsed(name: str, graph: Any) -> Any:
    text = str(graph)
    again = parse_graph(text)
    verify(again, f"stage {name}")
    if str(again) != text or difference(graph, again) is not None:
        raise Disagreement(f"stage {name} does not parse back to itself: {difference(graph, again)}\n{text}\n{again}")
    return again


# ---- comparing
def compare(what: str, found: Array, expected: Array, tolerance: float) -> None:
    """Raises Disagreement unless shapes and values agree."""
    if found.shape != expected.shape:
        raise Disagreement(f"{what}: shape {found.shape}, expected {expected.shape}")
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    if not np.allclose(found, expected, rtol=0, atol=tolerance * scale):
        raise Disagreement(f"{what}:\n{found}\nexpected\n{expected}")


def check(program: Program, modes: Sequence[str] = MODES, call_count: int = 3) -> None:
    """One answer in every mode. Raises Disagreement or whatever a mode raises; Skip if there is nothing to compare.
    Lazy steps meet all sizes twice: the second time they are known.
    """
    sizes = draw_calls(program, call_count) * (2 if any(mode.startswith("lazy") for mode in modes) else 1)
    calls = [draw_call(program, s, i) for i, s in enumerate(sizes)]
    truth = run_numpy(program, calls)
    tolerance = {"float64": 1e-9, "float32": 2e-4}[program.dtype]
    for mode in modes:
        try:
            found = run_weft(program, calls, mode, check_stages=mode == "interpret")
        except weft.WeftError as error:
            if mode == "eager" and _is_refusal(error):
                _all_refuse(program, calls, modes)
                raise Skip("a saved tensor was written") from None
            raise
        for call, (here, true) in enumerate(zip(found, truth, strict=True)):
            if here.values.keys() != true.values.keys():
                raise Disagreement(f"{mode}, call {call}: {sorted(here.values)}, expected {sorted(true.values)}")
            for name, value in true.values.items():
                loose = (
                    2e-5 if program.wants_grad and ("gradient" in name or "state w" in name or program.update != "none")
                    else tolerance
                )
                compare(
                    f"{mode}, call {call} with {sizes[call]} {calls[call].layouts}, {name}", here.values[name], value,
                    max(loose, tolerance),
                )


def _is_refusal(error: weft.WeftError) -> bool:
    """Whether autograd refuses a write, as PyTorch does: of a tensor that backward needs,
    or of the base of one of several views."""
    return any(words in str(error) for words in ("modified by an inplace operation", "has been modified inplace"))


def _all_refuse(program: Program, calls: Sequence[Call], modes: Sequence[str]) -> None:
    """What eager mode refuses, every mode refuses."""
    for mode in modes[1:]:
        try:
            run_weft(program, calls, mode)
        except weft.WeftError as error:
            if _is_refusal(error):
                continue
            raise
        raise Disagreement(f"{mode} runs a program that eager refuses, for it writes a tensor that backward needs")


def shrink(
    program: Program, error: BaseException, modes: Sequence[str], call_count: int = 3
) -> tuple[Program, BaseException]:
    """The smallest program found that still fails, by leaving out statements and outputs one after another."""
    smaller = True
    while smaller:
        smaller = False
        candidates = [program.without(i) for i in reversed(range(len(program.statements)))]
        if len(program.outputs) > 1:
            candidates += [
                replace(program, outputs=tuple(o for o in program.outputs if o != left)) for left in program.outputs
            ]
        for candidate in candidates:
            found = failure(candidate, modes, call_count)
            if found is not None and type(found) is type(error):
                program, error, smaller = candidate, found, True
                break
    return program, error


def failure(program: Program, modes: Sequence[str] = MODES, call_count: int = 3) -> BaseException | None:
    """What goes wrong with a program, if anything."""
    try:
        check(program, modes, call_count)
    except Skip:
        return None
    except Exception as error:
        return error
    return None
