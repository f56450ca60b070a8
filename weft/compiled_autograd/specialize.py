"""A part of a captured backward made for tensors of certain dtypes and ranks: the opaque calls opened,
sizes and numbers as symbols, one native program.

Every dim is a symbol of its own, 0 and 1 included; what formulas ask about sizes becomes guards. Integers that are no
sizes (dims, steps, counts) are taken as they are at first, and as symbols once a call brings others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from weft.autograd.saved import default_hooks
from weft.compiled_autograd.blocks import TypedEvaluator
from weft.compiled_autograd.direct import direct_function
from weft.compiled_autograd.evaluate import evaluate_as
from weft.compiled_autograd.parts import BackwardPart, Run, Values, interpret_part
from weft.ir.builder import Builder
from weft.ir.graph import Block, Value
from weft.ir.value_numbers import operand_key
from weft.ops.packet import aten
from weft.programs.arguments import contiguous_bytes, dense_permutation, expanded_dims, shown_once
from weft.programs.executable import Compiled, Interpreted, make_executable
from weft.programs.shape_check import shape_check
from weft.programs.store import UNFIT, Miss, ProgramStore
from weft.programs.tensor_program import TensorProgram
from weft.runtime.storage import root_of
from weft.support import limits
from weft.support.errors import CaptureError
from weft.support.knobs import knobs
from weft.tensor.dense import is_dense
from weft.tensor.modes import modes
from weft.tensor.tensor import tensor_around
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import FLOAT, TENSOR, tensor_type

LONGEST = 100_000  # nodes: compiling a longer part would take minutes
Array = np.ndarray[Any, Any]
# of an input: dtype, rank, and for what is not row-major the order of its dims and those that show one element again
# and again
Layout = tuple[Any, ...]
Kind = tuple[Any, ...]  # of a program: whether its results have histories, and the layout of each input


@dataclass(eq=False)
class Specialization:
    """One native program of a part. With a TensorProgram its results have histories."""

    executable: Compiled | Interpreted | TensorProgram
    names: tuple[str | None, ...]  # symbols of the call's sizes and integers, None for an integer that is what it was
    fixed: tuple[tuple[int, int], ...]  # of those, where they stand and what they were
    check: Callable[..., bool]
    checked: Callable[[Sequence[int]], Any] | None  # the sizes and integers that `check` takes
    owned: tuple[bool, ...]  # results that nobody else has

    def match(self, inputs: list[Any], numbers: list[int]) -> dict[str, int] | Miss:
        """The symbols of a call, if its sizes and integers are such as the program was made for."""
        if any([numbers[i] != value for i, value in self.fixed]):
            return UNFIT
        if self.checked is not None and not self.check(*self.checked(numbers)):
            return UNFIT
        return {name: n for name, n in zip(self.names, numbers, strict=True) if name is not None}

    def run(self, inputs: list[Any], symbols: dict[str, int]) -> list[Any]:
        """One call: arrays for arrays, or tensors for tensors."""
        executable = self.executable
        return executable(inputs, symbols) if isinstance(executable, TensorProgram) else executable.run(inputs, symbols)


Programs = ProgramStore[Kind, Specialization]  # of parts of one structure
_programs: WeakValueDictionary[tuple[Any, ...], Programs] = WeakValueDictionary()


def _programs_of(part: BackwardPart, backend: str | None) -> Programs:
    """Those that a part shares with all that compute the same of inputs of the same kinds."""
    programs = Programs(limits.KINDS_OF_A_PART, limits.PROGRAMS_OF_A_PART)
    if any(node.blocks for node in part.nodes):
        return programs
    numbers = {v: i for i, v in enumerate(part.reads)}
    steps = []
    for node in part.nodes:
        steps.append((node.op, operand_key(node.args, numbers), tuple([v.type for v in node.outputs])))
        first = len(numbers)
        numbers.update((v, first + i) for i, v in enumerate(node.outputs))
    kinds = tuple([(v.type, v.name[:1]) for v in part.reads])
    key = (kinds, tuple(steps), operand_key(part.outputs, numbers), part.is_piece, backend or knobs.backend)
    try:
        return _programs.setdefault(key, programs)
    except TypeError:  # an immediate that is no key
        return programs


class NativePart:
    """A part of a captured backward, and its native programs."""

    def __init__(self, part: BackwardPart, backend: str | None = None) -> None:
        self.part, self.backend = part, backend
        self.programs = _programs_of(part, backend)
        self.tensors = [v for v in part.reads if v.type is TENSOR]
        self.floats = [v for v in part.reads if v.type is FLOAT]
        self.integers = [v for v in part.reads if v.type is not TENSOR and v.type is not FLOAT]
        self.direct = direct_function(part) if part.is_short else None
        self._interpret: Run | None = None

    def __call__(self, values: Values) -> bool:
        """Compute the part's results: natively (True where each has memory of its own), or node by node where there are
        tensors that hold no array."""
        if self.direct is not None and not modes.grad and modes.special is None and self.direct(values):
            return False
        tensors = [values[v] for v in self.tensors]
        wants_history = modes.grad and any([t.requires_grad for t in tensors])
        if modes.special is not None or not all(map(is_dense, tensors)) or (
            wants_history and default_hooks.stack  # what is saved is saved as eager mode does
        ):
            return self._one_by_one(values)
        inputs = [t._data for t in tensors]
        if wants_history:
            return self._record(values, inputs)
        layouts, arrays = [], []
        numbers: list[int] = []
        for x in inputs:
            if x.flags.c_contiguous:
                layouts.append((x.dtype, x.ndim))
            else:
                layout = _layout(x)
                layouts.append(layout)
                numbers.extend([x.shape[i] for i in layout[3]])
                x = contiguous_bytes(x, layout[2], layout[3])
            arrays.append(x)
            numbers.extend(x.shape)
        numbers.extend([values[v] for v in self.integers])
        arrays.extend([values[v] for v in self.floats])
        match = self._program((False, *layouts), arrays, numbers)
        if match is None:
            return self._one_by_one(values)
        program, symbols = match
        results = program.run(arrays, symbols)
        # what is handed over to a leaf shows nobody else's memory, as a program of views alone would
        roots = [id(root_of(r)) for r in results]
        taken = Counter([*{id(root_of(x)) for x in inputs}, *roots]) if self.part.for_leaves else {}
        for value, result, is_owned, root in zip(self.part.outputs, results, program.owned, roots, strict=True):
            is_shared = value in self.part.for_leaves and taken[root] > 1
            values[value] = tensor_around(result.copy() if is_shared or not is_owned else result)
        return True

    def _one_by_one(self, values: Values) -> bool:
        if self._interpret is None:
            self._interpret = interpret_part(self.part)
        return self._interpret(values)

    def _record(self, values: Values, inputs: list[Any]) -> bool:
        """The same with tensors whose histories go on: the gradients can be differentiated again."""
        numbers = [n for x in inputs for n in x.shape]
        numbers.extend([values[v] for v in self.integers])
        operands = [values[v] for v in (*self.tensors, *self.floats)]
        match = self._program((True, *[(x.dtype, x.ndim) for x in inputs]), operands, numbers)
        if match is None:
            return self._one_by_one(values)
        program, symbols = match
        values.update(zip(self.part.outputs, program.run(operands, symbols), strict=True))
        return False

    @property
    def has_run(self) -> bool:
        """Whether there is a program."""
        return self.programs.latest is not None

    def stages(self) -> dict[str, Any]:
        """The latest program at each stage of the compiler."""
        latest = self.programs.latest
        assert latest is not None
        return latest.executable.stages()

    def _program(
        self, kind: Kind, inputs: list[Any], numbers: list[int]
    ) -> tuple[Specialization, dict[str, int]] | None:
        """The program for a call, and its symbols; None where it is to run node by node: there are many already (of
        integers that are no symbols each value makes one), it is very long, Python's stack is too deep for a compiler,
        or a formula asks about a size that is only known while the program runs."""
        programs = self.programs
        match = programs.find(kind, inputs, numbers)
        if match is not None or len(self.part.nodes) > LONGEST or not programs.may_add(kind):
            return match
        variants = programs.variants(kind)
        first = len(numbers) - len(self.integers)
        integers = zip(self.integers, numbers[first:], strict=True)
        variants.missed([None if v.name.startswith(("s", "n")) else n for v, n in integers])  # (those are symbols)
        try:
            program = variants.lifting.capture(lambda lifted: self._make(kind, numbers, {first + i for i in lifted}))
        except RecursionError:
            return None
        except CaptureError as error:
            programs.refuse(kind, error)
            return None
        variants.add(program)
        return variants.find(inputs, numbers)

    def _make(self, kind: Kind, numbers: list[int], lifted: set[int]) -> Specialization:
        has_history, *layouts = kind
        env = ShapeEnv()
        builder = Builder("backward", env)
        names: list[str | None] = []
        values: dict[Value, Any] = {}
        with builder.active():
            for value, layout in zip(self.tensors, layouts, strict=True):
                repeated = len(layout[3]) if len(layout) > 2 else 0
                dims = [env.fresh("s", n) for n in numbers[len(names) : len(names) + repeated + layout[1]]]
                names += [str(d) for d in dims]
                values[value] = _parameter(builder, layout, dims[repeated:], dims[:repeated], value.name)
            for value in self.integers:
                at = len(names)
                is_size = value.name[:1] == "s"
                if is_size or value.name[:1] == "n" or at in lifted:
                    symbol = env.fresh("s" if is_size else "i", numbers[at])
                    values[value] = symbol
                    names.append(str(symbol))
                else:
                    values[value] = numbers[at]
                    names.append(None)
            for value in self.floats:
                values[value] = builder.handle(builder.param(FLOAT, value.name))
            block = Block((), tuple(self.part.nodes), tuple(self.part.outputs))
            handles = TypedEvaluator(builder, evaluate_as).evaluate_block(block, (), values)
            results = [builder.operand(h) for h in handles]
        make = TensorProgram if has_history else make_executable
        executable = make(builder.graph(results), self.backend)
        if isinstance(executable, Compiled):
            executable.program.let_go(arena=self.part.is_piece)  # what was saved is for one call
        check, asked = shape_check(env)
        by_name = {name: i for i, name in enumerate(names)}  # (each stands once; None, for integers, is never asked)
        places = [by_name[name] for name in asked]
        checked = None if not places else itemgetter(*places) if len(places) > 1 else lambda n: (n[places[0]],)
        fixed = tuple([(i, numbers[i]) for i, name in enumerate(names) if name is None])
        return Specialization(executable, tuple(names), fixed, check, checked, _owned(results, builder))


def _layout(x: Array) -> Layout:
    """What a program depends on about an array that is not row-major: how it lies, but for what has gaps,
    which is copied."""
    expanded = expanded_dims(x)
    return (x.dtype, x.ndim, dense_permutation(shown_once(x, expanded)), expanded)


def _parameter(builder: Builder, layout: Layout, dims: Sequence[Dim], repeats: Sequence[Dim], name: str) -> Any:
    """A tensor input as formulas see it: a row-major parameter of these dims, its dims in the caller's order,
    repeated where the caller repeats it."""
    dtype = dt.from_numpy(layout[0])
    if len(layout) == 2:
        return builder.handle(builder.param(tensor_type(dtype, tuple(dims)), name))
    _, rank, permutation, expanded = layout
    order = range(rank) if permutation is None else permutation
    ones = {order[i] for i in expanded}
    base = tuple([1 if i in ones else d for i, d in enumerate(dims)])
    handle = builder.handle(builder.param(tensor_type(dtype, base), name))
    if permutation is not None:
        handle = builder.call(aten.permute.default.op, (handle, permutation))
    if expanded:
        shown = dict(zip(expanded, repeats, strict=True))
        handle = builder.call(
            aten.expand.default.op, (handle, tuple([shown.get(i, base[order[i]]) for i in range(rank)]), False)
        )
    return handle


def _owned(results: list[Any], builder: Builder) -> tuple[bool, ...]:
    """Which results are arrays of their own: no input, and given once."""
    inputs = set(builder.params)
    return tuple([r not in inputs and results.count(r) == 1 for r in results])
