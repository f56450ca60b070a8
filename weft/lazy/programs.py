"""The programs of a trace: what is wanted of it, as a graph whose sizes and numbers are inputs, compiled for calls of
every size that answer its questions alike.

A number is a constant until another call brings another one, or an input from the start where it is likely to change:
sizes of tensors, floats that are no simple ones, what generators give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

import weft.lazy.metrics as metrics
from weft.ir.evaluate import ArrayEvaluator
from weft.ir.graph import Graph, Value
from weft.lazy.calls import SIMPLE, Drawn, decides, needed_for
from weft.lazy.graphs import Call, GraphOfPlan, InputOf, NumberOf, Numbers, Place, UnbackedNumber
from weft.lazy.recorded import Opened, ResultOf, joined
from weft.lazy.tiers import CallByCall, Line, Lines, naming
from weft.lazy.trace import Trace
from weft.lazy.values import Array, Deferred, Node, SizeOf
from weft.ops.op import Op
from weft.programs.executable import Compiled, Interpreted, make_executable
from weft.programs.shape_check import shape_check
from weft.programs.store import UNFIT, Miss, Variants, is_same_number
from weft.support import limits
from weft.support.errors import WeftError
from weft.support.garbage import collection_held
from weft.support.generated import expression_function
from weft.support.knobs import knobs
from weft.support.locations import located
from weft.support.observers import observers
from weft.types.dims import Expr, symbol
from weft.types.dtype import DType, get_default
from weft.types.tensor_type import TensorType
from weft.types.unbacked import SIZES, UnbackedSize, bare_size, unknown_in

_MOST_DIMS = 8  # a larger integer is hardly a dim: it is a size, or a place
_ITSELF = symbol("v0")
Writes = tuple[tuple[int, int], ...]


class Specialized:
    """One program. names: for each number (sizes of inputs, then numbers of calls) its symbol in the graph, "" for a
    float that is a parameter, None for a number that the program knows. derived: what such a number is, where it hangs
    on sizes. first_at: the line that it was compiled for, until it runs again.
    """

    first_at: Line | None = None

    def __init__(
        self, graph: Graph, names: list[str | None], derived: dict[int, Expr], numbers: Numbers
    ) -> None:
        self.graph, self.names, self.derived, self.writes = graph, names, derived, graph.writes
        self.seconds, self._latest = 0.0, math.inf  # that a run takes; that the latest one took
        written = {position for position, _ in graph.writes}
        self._owned = [i for i in range(len(graph.results)) if i not in written]
        self.executable: Compiled | Interpreted = make_executable(graph)
        self._known = {i: numbers[i] for i, name in enumerate(names) if name is None and i not in derived}
        self._pick_known, self._values = _picker(list(self._known)), tuple(self._known.values())
        self._zeros = [(i, str(n)) for i, n in self._known.items() if not n and type(n) in (float, complex)]
        self.check, asked = shape_check(graph.env)
        self._pick_asked = _picker([names.index(name) for name in asked])
        self._pick_derived = _picker(list(derived))
        self._derive, names_given = _evaluator(list(derived.values()))
        self._pick_given = _picker([names.index(name) for name in names_given])
        self._symbols = [(i, name) for i, name in enumerate(names) if name]
        self._floats = [i for i, name in enumerate(names) if name == ""]

    def took(self, seconds: float) -> None:
        """A run took so long: the shorter of two counts, since other work on the machine may hold one of them up."""
        self.seconds, self._latest = min(seconds, self._latest), seconds

    def taken_otherwise(self, numbers: Numbers) -> set[int]:
        """The numbers that are something else than what the program knows, or derives them as."""
        expected = self._derive(*self._pick_given(numbers))
        derived = {i for i, value in zip(self.derived, expected, strict=True) if numbers[i] != value}
        return derived | {i for i, value in self._known.items() if not is_same_number(value, numbers[i])}

    def match(self, writes: Writes, numbers: Numbers) -> Numbers | Miss:
        """The numbers, if it may be run with them."""
        is_fit = (
            writes == self.writes and self._pick_known(numbers) == self._values
            and all([str(numbers[i]) == zero for i, zero in self._zeros])  # with its sign
            and self._pick_derived(numbers) == self._derive(*self._pick_given(numbers))
            and self.check(*self._pick_asked(numbers))
        )
        return numbers if is_fit else UNFIT

    def compute(self, arrays: list[Array], numbers: Numbers) -> list[Any]:
        """What the program gives; what it writes is written."""
        inputs: list[Any] = [*arrays, *[numbers[i] for i in self._floats]]
        return self.executable.run(inputs, {name: numbers[i] for i, name in self._symbols})

    def results_of(self, computed: list[Any], arrays: list[Array]) -> list[Array]:
        """The results: arrays that nobody else has, or the inputs that they are written to. (It may be done twice.)"""
        results, taken = computed, set(map(id, arrays))
        for i in self._owned:
            if id(results[i]) in taken or not isinstance(results[i], np.ndarray):
                results[i] = np.array(results[i], order="C")
            taken.add(id(results[i]))
        return results

    def run_apart(self, arrays: list[Array], numbers: Numbers) -> list[Array | BaseException]:
        """Each result by itself, node by node, or what computing it raises: of a program that raised."""
        inputs: list[Any] = [*arrays, *[numbers[i] for i in self._floats]]
        evaluator = ArrayEvaluator({name: int(numbers[i]) for i, name in self._symbols})
        values: dict[Value, Any] = dict(zip(self.graph.params, inputs, strict=True))
        for param, array in values.items():
            evaluator.bind(param, array)
        problems: dict[Value, BaseException] = {}
        for node in self.graph.nodes:
            problem = next((problems[v] for v in node.needs() if v in problems), None)
            try:
                if problem is None:
                    evaluator.evaluate_node(node, values)
            except Exception as error:
                problem = naming(node.op, error)
            if problem is not None:
                problems.update(dict.fromkeys(node.outputs, problem))
        return [
            problems[r] if r in problems else np.array(evaluator.operand(r, values), order="C")
            for r in self.graph.results
        ]


class Plan:
    """What is wanted of a trace in a certain state, but for sizes and numbers, and the programs that give it.

    inputs: the values of the trace that its calls read, by turn; wanted: the results; failing: entries of the trace
    whose calls may refuse their values, and run whoever wants their results; unbacked: the sizes that are wanted, those
    of the results if nobody says more.
    """

    def __init__(
        self, trace: Trace, wanted: Sequence[Deferred], failing: Collection[int] = (),
        unbacked: Sequence[UnbackedSize] | None = None,
    ) -> None:
        plain = Opened(trace)
        unbacked = unbacked_in(wanted) if unbacked is None else unbacked
        wanted = [plain.value(v) for v in wanted]
        also = [
            Deferred(trace, node.types[0], node) for node, (entry, _) in zip(plain.nodes, plain.sources, strict=True)
            if entry in failing and node.op.effect == "raises"
        ]
        needed = needed_for(plain.nodes, [*wanted, *also])
        shown = [_shown(size, trace, map(plain.nodes.__getitem__, needed)) for size in unbacked]
        sizes = [place for place in shown if place is not None]
        if len(sizes) < len(unbacked):  # nothing of what is computed is sized by that alone
            sizes = [(plain.value(size.value), size.axis) for size in unbacked]
            needed = needed_for(plain.nodes, [*wanted, *also, *[value for value, _ in sizes]])
        self._turns = trace.turns
        self._numbers_from = joined([plain.sources[i] for i in needed if plain.nodes[i].numbers])
        self._calls_of = {position: i for i, position in enumerate(needed)}
        self.inputs: list[int] = []
        self.kinds: list[tuple[DType, int]] = []  # of each input, dtype and rank
        self._numbers = 0
        self.scalars: set[int] = set()  # numbers that are elements, not sizes, dims or places; and those in lists
        self.listed: set[int] = set()
        self._roles: list[tuple[Op, int, int]] = []  # of each number of a call: the argument that it is, or is part of
        self.calls = [
            Call(n.op, self._places(n.op, n.args), located(n.where)) for n in map(plain.nodes.__getitem__, needed)
        ]
        self.wanted: list[Place] = [self._place(v) for v in wanted]
        self.unbacked_sizes = [UnbackedNumber(_ITSELF, ((self._place(value), axis),)) for value, axis in sizes]
        self._turns = {}
        self.places: dict[int | None, int] = {slot: place for place, slot in enumerate(self.inputs)}
        self._latest: list[TensorType] = []  # of the inputs, and their sizes
        self._sizes: list[Any] = []
        self.sizes = sum(rank for _, rank in self.kinds)  # how many of a call's numbers are sizes of inputs
        self.is_exact = False  # whether sizes of inputs are constants too
        self.variants: Variants[Specialized] = Variants(limits.PROGRAMS_OF_A_STEP)  # shared by plans that are equal
        self.lines = Lines(Line)

    def numbers(self, trace: Trace) -> list[Any]:
        """Sizes of inputs, and numbers of calls, as they are in a trace."""
        inputs = trace.inputs
        kinds = [inputs[slot].type_ for slot in self.inputs]
        if kinds != self._latest:
            sizes: list[Any] = []
            for kind in kinds:
                sizes += map(SIZES.hint, kind.shape) if kind.is_symbolic else kind.shape
            self._latest, self._sizes = [] if any([k.is_symbolic for k in kinds]) else kinds, sizes
        return self._sizes + self.numbers_of_calls(trace)

    def numbers_of_calls(self, trace: Trace) -> list[Any]:
        """Those of calls alone."""
        every_number: list[Any] = []
        nodes = trace.nodes
        for position, own in self._numbers_from:
            numbers = nodes[position].numbers
            every_number.extend(numbers if own is None else numbers[own])
        return every_number

    # ---- made from a trace
    def _places(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        places = []
        for i, (a, declared) in enumerate(zip(args, op.schema.arguments, strict=True)):
            first = self._numbers
            places.append(self._argument(a, decides(op, i, a)))
            if declared.is_list:
                self.listed.update(range(first, self._numbers))
            elif declared.kind != "int":
                self.scalars.update(range(first, self._numbers))
            self._roles.extend([(op, i, j) for j in range(self._numbers - first)])
        return tuple(places)

    def _argument(self, a: Any, is_fixed: bool) -> Any:
        kind = type(a)
        if kind is Deferred:
            return self._place(a)
        if kind is tuple:
            return tuple([self._argument(v, is_fixed) for v in a])
        if kind is SizeOf:
            return UnbackedNumber(a.renamed(), tuple([(self._place(value), axis) for _, value, axis in a.sources]))
        if (kind is int or kind is float or kind is Drawn) and not is_fixed:
            self._numbers += 1
            return NumberOf(self._numbers - 1, kind)
        return a

    def _place(self, value: Deferred) -> Place:
        if value.node is not None:
            return ResultOf(self._calls_of[value.node.position], value.index)
        slot = self._turns[id(value)]
        if slot not in self.inputs:
            self.inputs.append(slot)
            self.kinds.append((value.dtype, value.ndim))
        return InputOf(self.inputs.index(slot))

    def key(self) -> Any:
        """What two plans have in common that the same programs serve."""
        calls = tuple([(call.op, tuple(map(_literal, call.args))) for call in self.calls])
        return get_default(), calls, tuple(self.kinds), tuple(self.wanted), tuple(self.unbacked_sizes)

    # ---- programs
    def program(
        self, numbers: Numbers, writes: Writes, why: Callable[[], str],
        lasting: Callable[[], Collection[int]] = tuple, is_trial: bool = False,
    ) -> Specialized | CallByCall:
        """The program for these numbers, compiled if there is none, unless the step may wait for that.

        writes: pairs of a result and an input whose memory it takes, since nobody reads that any more. lasting: says
        which inputs' sizes will hardly change. is_trial: nobody knows yet whether there will be more such steps.
        """
        variants = self.variants
        match = variants.find(writes, numbers)
        if match is not None:
            program = match[0]
            if program.first_at is not None:
                program.first_at.came_again(program)
            metrics.count("CachedCompile")
            return program
        line = self.lines[self.calls[0].where if self.calls else None]
        variants.missed(numbers)
        may_wait = not len(variants) and knobs.backend == "llvm" and observers.executables is None
        if may_wait and (is_trial or (metrics.may_wait() and line.may_wait(variants))):
            metrics.count("RunCallByCall")
            return CallByCall(self, writes)
        metrics.compiling(why)
        program = variants.add(self._captured(numbers, writes, self._sizes_of(lasting())))
        line.note(program, len(self.calls))
        return program

    def interpreted(self, numbers: Numbers, writes: Writes) -> Specialized:
        """What computes the same for these numbers, node by node, where no program may or can be made."""
        with knobs(backend="interpret"):
            return self._captured(numbers, writes, frozenset())

    def _captured(self, numbers: Numbers, writes: Writes, lasting: frozenset[int]) -> Specialized:
        lifting = self.variants.lifting
        for program in self.variants:
            lifting.unexpected |= program.taken_otherwise(numbers)
        likely, counting = self._changing(), self._counting(numbers)
        sizes = frozenset([n for i, n in enumerate(numbers[: self.sizes]) if i not in lasting])
        while True:
            lifted = {
                i for i, n in enumerate(numbers)
                if i not in lifting.constant and (not self.is_exact or type(n) is Drawn)
                and (self._is_input(i, n, sizes, i in lasting, counting) or self.role(i) in likely)
            }
            graph = GraphOfPlan(self, numbers, lifted)
            try:
                with collection_held():
                    program = Specialized(graph.built(writes), graph.names, graph.derived, numbers)
            except (TypeError, WeftError):  # a rule or kernel takes one of them as it is alone
                numbered = {i for i in lifted if i >= self.sizes} - lifting.constant
                if not numbered and self.is_exact:
                    raise
                self.is_exact = not numbered  # a rule that cannot do with symbols has done with these sizes
                # those first that are inputs for no better reason than that some size is equal; or else all integers
                # but a generator's
                integers = {i for i in numbered if type(numbers[i]) is int}
                doubtful = integers - lifting.unexpected - graph.derived.keys()
                lifting.constant |= {i for i in doubtful if self.role(i) not in likely} or integers or numbered
            else:
                lifting.inputs |= lifted - lifting.constant
                return program

    def role(self, i: int) -> Any:
        return self._roles[i - self.sizes] if i >= self.sizes else None

    def _changing(self) -> set[Any]:
        """The arguments of operators that were other numbers before, in one call or another."""
        return {self.role(i) for i in self.variants.lifting.varying if i >= self.sizes}

    def _sizes_of(self, slots: Collection[int]) -> frozenset[int]:
        """The places among numbers of these inputs' sizes."""
        places: list[int] = []
        at = 0
        for slot, (_, rank) in enumerate(self.kinds):
            if slot in slots:
                places.extend(range(at, at + rank))
            at += rank
        return frozenset(places)

    def _counting(self, numbers: Numbers) -> set[Any]:
        """The arguments that count the steps of a loop of Python's: 0, 1, 2, ... of call after call."""
        by_role: dict[Any, set[Any]] = {}
        for role, n in zip(self._roles, numbers[self.sizes :], strict=True):
            if type(n) is int:
                by_role.setdefault(role, set()).add(n)
        return {
            role for role, those in by_role.items()
            if len(those) > _MOST_DIMS and min(those) in (0, 1) and max(those) - min(those) == len(those) - 1
        }

    def of_one(self, numbers: Numbers) -> dict[Any, int]:
        """The arguments that are the same number in all of several calls."""
        by_role: dict[Any, set[Any]] = {}
        for role, n in zip(self._roles, numbers[self.sizes :], strict=True):
            by_role.setdefault(role, set()).add(n)
        return {role: those.pop() for role, those in by_role.items() if len(those) == 1}

    def _is_input(
        self, i: int, number: Any, sizes: frozenset[int], is_lasting: bool, counting: Collection[Any]
    ) -> bool:
        """Whether a number is given to the program: it is likely to change, or it has changed before."""
        place = i - self.sizes
        if (place < 0 and not is_lasting) or type(number) is Drawn:
            return True
        if i in self.variants.lifting.varying or i in self.variants.lifting.inputs:
            return True
        if place < 0 or self._roles[place] in counting:
            return False
        is_size = number > 1 and number in sizes
        if place in self.scalars:
            return math.isfinite(number) and (is_size or number not in SIMPLE)
        return is_size or number > (1 if place in self.listed else _MOST_DIMS)


def _literal(a: Any) -> Any:
    """An argument, told apart from others that are equal to it: 1, 1.0 and True."""
    if type(a) is tuple:
        return tuple(map(_literal, a))
    return a if isinstance(a, (InputOf, ResultOf, NumberOf, UnbackedNumber)) else (type(a), repr(a))


def _shown(size: UnbackedSize, trace: Trace, nodes: Iterable[Node]) -> tuple[Deferred, int] | None:
    """A result that has a size, and in which dim."""
    for node in nodes:
        for i, kind in enumerate(node.types):
            for axis, d in enumerate(kind.shape if kind.is_symbolic else ()):
                if bare_size(d) is size:
                    return Deferred(trace, kind, node, i), axis
    return None


def unbacked_in(values: Sequence[Deferred]) -> list[UnbackedSize]:
    """The sizes of these values that a run finds."""
    return list(unknown_in(tuple([v.type_.shape for v in values if v.type_.is_symbolic])))


def _evaluator(sizes: Sequence[Expr]) -> tuple[Callable[..., tuple[int, ...]], list[str]]:
    """A function of symbols that gives these sizes, and the symbols' names."""
    names = sorted({name for size in sizes for name in size.symbols()})
    text = f"({''.join(f'{size}, ' for size in sizes)})"
    return expression_function("sizes", names, text, {"max": max, "min": min}), names


def _picker(places: list[int]) -> Callable[[Numbers], tuple[Any, ...]]:
    """A function that picks these elements of a sequence."""
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda numbers: (numbers[places[0]],)) if places else (lambda numbers: ())
