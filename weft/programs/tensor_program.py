"""TensorProgram: a graph as a function of tensors. It runs natively, and what it gives has a history, whose backward
runs natively too, at every order.

The gradients of a graph are a graph (blocks/differentiate.py). Cut in two (passes/partition.py) it is what runs
forward, with the values to save, and what runs backward. Whole, as a function of the inputs and the tangents, it is
what a backward that is differentiated again computes: a TensorProgram itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from weft.autograd.engine import Walk
from weft.autograd.node import Edge, InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.autograd.saved import FREED, SavedTensor
from weft.ir.graph import Block, Graph, Operand, Value, values_in
from weft.ir.opaque import WHERE_REACHED
from weft.passes.dce import dce
from weft.passes.effects import STAYS
from weft.passes.entry_sizes import bind_arguments, giving_sizes
from weft.passes.partition import Halves, partition
from weft.passes.rebuild import with_values
from weft.passes.stop_gradients import Notes, leads_elsewhere, open_functions, open_waiting, stop_gradients
from weft.programs.absent_tangents import without_tangents
from weft.programs.argument_histories import take_history
from weft.programs.executable import Compiled, Interpreted, chosen, make_executable
from weft.programs.inlining import Body, Inlined, Whole, body_of
from weft.programs.kept import array_of, has_bytes, is_hooked, packed_of, save, without_aliases
from weft.programs.on_tensors import run_on_tensors
from weft.programs.shape_check import shape_check
from weft.programs.store import UNFIT, Miss, ProgramStore
from weft.record.differentiate import Joint, is_differentiable, number_key, with_gradients
from weft.support import limits
from weft.support.errors import StateError, UnknownSize, VersionError
from weft.support.memo import Memo
from weft.tensor.modes import modes, top_interceptor
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dtype import get_default, within_default
from weft.types.tensor_type import FLOAT

Symbols = Mapping[str, Any]
Absent = tuple[int, ...]  # the numbers of tangents for which nothing comes in
Wanted = tuple[int, ...]  # the numbers of gradients that somebody asks for
ndarray = np.ndarray


# ---- gradients
@dataclass(eq=False)
class Gradients:
    """The gradients of a joint graph, whose parameters end with the tangents and whose results begin with `results` of
    the forward's: as a program of saved values, and as a function of the inputs.

    without: which operands of its nodes and results of its blocks had no history, which gradients do not go through.
    has_users: whether hooks and rules of users took part, which may make something of zeros.
    inner: values that may have a history of their own, of which the gradients are a function then too. totals: values
    that come in as the tangents of these numbers.
    """

    joint: Graph
    results: int
    tangents: int
    halves: Halves
    backend: str | None = None
    without: Notes = field(default_factory=dict)
    inner: tuple[Value, ...] = ()
    totals: Mapping[Value, int] = field(default_factory=dict)
    has_users: bool = False

    def __post_init__(self) -> None:
        self.executable = make_executable(open_waiting(self.halves.backward), self.backend)
        self.has_waiting = WHERE_REACHED in self.joint.block.operators()  # hooks that others must have run before
        self._bodies: dict[tuple[tuple[int, ...], Absent], Body | None] = {}
        self._functions: Memo[tuple[tuple[int, ...], Absent, Wanted | None], GradientFunction] = Memo(
            limits.GRADIENTS_OF_A_GRAPH
        )
        self._exact: Memo[tuple[Absent, Wanted | None], Interpreted | Compiled] = Memo(limits.GRADIENTS_OF_A_GRAPH)
        self._whole = self._ended(dce(self._gradients()), ())
        # gradients may flow into what the values are no function of
        seen = self._seen_again(()) if any(map(leads_elsewhere, self.without.values())) else self._whole
        # which inputs (then tangents) the gradients are a function of
        self.read = tuple(sorted({*reads_of(self._whole), *reads_of(seen)}))

    def _gradients(self) -> Graph:
        """The gradients, and behind them the values that come in."""
        results = (*self.joint.results[self.results :], *self.totals, *self.inner)
        block = Block(self.joint.params, self.joint.nodes, results)
        return Graph(f"{self.joint.name}_gradients", block, self.joint.env)

    def _ended(self, graph: Graph, inner: tuple[int, ...]) -> Graph:
        """The gradients where they end at values that come in: totals, and these of the inner values, whose parameters
        stand before the tangents."""
        count = len(graph.results) - len(self.totals) - len(self.inner)
        tangents = graph.params[self.inputs :]
        totals = zip(graph.results[count:], self.totals.values(), strict=False)
        places = {value: tangents[number] for value, number in totals if isinstance(value, Value)}
        more = []
        for i in inner:
            value = graph.results[count + len(self.totals) + i]
            assert isinstance(value, Value)
            places[value] = Value(value.type)
            more.append(places[value])
        params = (*graph.params[: self.inputs], *more, *tangents)
        ended = Graph(graph.name, Block(params, graph.nodes, graph.results[:count]), graph.env)
        return dce(with_values(ended, places))

    def _seen_again(self, inner: tuple[int, ...]) -> Graph:
        # nodes are as they were noted
        return self._ended(dce(stop_gradients(self._gradients(), self.without, len(self.inner))), inner)

    def function(
        self, inner: tuple[int, ...] = (), absent: Absent = (), wanted: Wanted | None = None
    ) -> GradientFunction:
        """The gradients (some, or all) as they are differentiated again, as a function of these inner values too, where
        nothing comes in for some tangents."""
        key = inner, absent, wanted
        function = self._functions.get(key)
        if function is None:
            graph = self._lacking(self._seen_again(inner) if self.without or inner else self._whole, absent)
            graph = graph if wanted is None else _giving(graph, wanted)
            function = self._functions[key] = GradientFunction(graph, self.tangents, self.backend)
        return function

    def _lacking(self, graph: Graph, absent: Absent) -> Graph:
        tangents = graph.params[len(graph.params) - self.tangents :]
        return open_waiting(without_tangents(graph, tangents, absent) if absent else graph)

    def exact(self, absent: Absent, wanted: Wanted | None = None) -> Interpreted | Compiled:
        """The gradients (some, or all) where nothing comes in for some tangents, run so that no zeros take their place
        in sums, and of what those gradients are computed from."""
        program = self._exact.get((absent, wanted))
        if program is None:
            graph = self._lacking(self.halves.backward, absent)
            program = make_executable(graph if wanted is None else _giving(graph, wanted), self.backend)
            self._exact[absent, wanted] = program
        return program

    @cached_property
    def reach(self) -> tuple[frozenset[int], ...]:
        """For each tangent, the gradients that depend on it."""
        tangents_of: dict[Value, int] = {p: 1 << i for i, p in enumerate(self._whole.params[self.inputs :])}

        def bits(values: Sequence[Value]) -> int:
            mask = 0
            for v in values:
                mask |= tangents_of.get(v, 0)
            return mask

        for node in self._whole.nodes:
            mask = bits(node.needs())
            if mask:
                tangents_of.update(dict.fromkeys(node.outputs, mask))
        gradients = [bits(tuple(values_in(r))) for r in self._whole.results]
        return tuple([frozenset(i for i, g in enumerate(gradients) if g >> t & 1) for t in range(self.tangents)])

    def body(self, wanted: tuple[int, ...], absent: Absent = ()) -> Body | None:
        """Some of the gradients as nodes to copy, of saved values; None where they are not copied."""
        if (wanted, absent) not in self._bodies:
            self._bodies[wanted, absent] = body_of(self._lacking(self.halves.backward, absent), self.tangents, wanted)
        return self._bodies[wanted, absent]

    @property
    def inputs(self) -> int:
        """How many inputs the forward has."""
        return len(self.joint.params) - self.tangents


class GradientFunction:
    """Gradients as a function of inputs, then tangents, to be differentiated again. read: which of those it has."""

    def __init__(self, graph: Graph, tangents: int, backend: str | None) -> None:
        self.inputs = len(graph.params) - tangents
        self.read = reads_of(graph)
        params = tuple([graph.params[i] for i in self.read])
        self.graph = Graph(graph.name, Block(params, graph.nodes, graph.results), graph.env)
        self.backend = backend
        self._bodies: dict[tuple[int, ...], Body | None] = {}

    def tangents(self) -> list[int]:
        """Which tangents it has."""
        return [i - self.inputs for i in self.read if i >= self.inputs]

    @cached_property
    def _program(self) -> tuple[TensorProgram, dict[str, str]]:
        bound, sizes = bind_arguments(self.graph)  # tangents come with the sizes that the forward found
        return TensorProgram(bound, self.backend), sizes

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        """The gradients, with a history."""
        program, sizes = self._program
        return program(inputs, {**symbols, **{new: symbols[old] for new, old in sizes.items()}})

    def body(self, wanted: tuple[int, ...]) -> Body | None:
        """Some of the gradients as nodes to copy; None where they are not copied."""
        if wanted not in self._bodies:
            self._bodies[wanted] = body_of(self.graph, len(self.tangents()), wanted)
        return self._bodies[wanted]


def _giving(graph: Graph, wanted: Wanted) -> Graph:
    """A graph that gives some of its results alone: what only others are computed from does not run, nor raise."""
    block = Block(graph.params, graph.nodes, tuple([graph.results[i] for i in wanted]))
    return dce(Graph(graph.name, block, graph.env), STAYS - {"raises"})


def reads_of(graph: Graph) -> tuple[int, ...]:
    """Which of its parameters a graph reads."""
    read = {v for node in graph.walk() for v in node.reads()}
    read.update(v for r in graph.results for v in values_in(r))
    return tuple([i for i, p in enumerate(graph.params) if p in read])


class ProgramBackward(Node):
    """The gradient of what a program gave: saved values and tangents, one program.

    inputs: what the program was called with, by the places of its parameters, for a backward that is
    differentiated again.
    """

    makes_gradients = True
    stands_for_many = True

    def __init__(
        self, edges: tuple[Any, ...], gradients: Gradients, saved: list[Any], symbols: Symbols, inputs: Sequence[Any]
    ) -> None:
        super().__init__(edges)
        self.gradients, self.symbols = gradients, symbols
        self.saved: list[Any] | None = saved
        self.inputs = {i: inputs[i] for i in gradients.read if i < len(inputs)}
        self.versions = self.versions_now()

    def attach(self, outputs: Sequence[Tensor]) -> None:
        """Make this the history of what the program gave."""
        self.metadata_of_inputs += tuple([InputMetadata(tensor.dims, tensor.dtype) for tensor in outputs])
        for i, tensor in enumerate(outputs):
            self.attach_one(i, tensor)

    def attach_one(self, index: int, tensor: Tensor) -> None:
        """Make this the history of one result."""
        take_history(tensor, self, index)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        self.begin(grads, needs)
        gradients = self.computed(grads, needs)
        reached = self.reached(grads)
        return tuple([g if i in reached and needs[i] else None for i, g in enumerate(gradients)])

    def computed(self, grads: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        """All gradients, or None for those that depend on nothing that comes in or that nobody needs: natively, or as
        operators see them that record, batch or replace them; under the default dtype of the forward. Raises
        VersionError where something that those are computed from was written since."""
        default = self.gradients.joint.env.default_dtype
        if default is get_default():
            return self._computed(grads, needs)
        with within_default(default):
            return self._computed(grads, needs)

    def _computed(self, grads: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        if modes.grad or top_interceptor() is not None or not all([has_bytes(g) for g in grads]):
            return self._again(grads, needs)  # (autocast casts as it was recorded)
        return self._natively(grads, needs)

    def _given(self, grads: Sequence[Any], needs: Sequence[bool]) -> tuple[dict[int, int | Whole], Wanted]:
        """What there is to give for which edges, and the gradients that it is made of."""
        reached = self.reached(grads)
        return self.gives([i for i in range(len(self.edges)) if i in reached and needs[i]])

    def begin(self, grads: Sequence[Any], needs: tuple[bool, ...]) -> None:
        """A run begins, with gradients for some of the results (None for others), that gives those that are needed.
        Raises StateError once it was freed."""
        if self.saved is None:
            raise StateError(FREED)

    def reached(self, grads: Sequence[Any]) -> frozenset[int]:
        """Which gradients there are, for those of the results that are there."""
        reach = self.gradients.reach
        return frozenset().union(*(reach[i] for i, g in enumerate(grads) if g is not None))

    def edges_of(self, index: int) -> tuple[Edge | None, ...]:
        return self._only(self.gradients.reach[index])

    def _only(self, edges: Collection[int]) -> tuple[Edge | None, ...]:
        return tuple([edge if i in edges else None for i, edge in enumerate(self.edges)])

    def is_met(self, index: int, walk: Walk) -> bool:
        mine = (self, index)
        if walk.needed is not None and not self.leads(index, walk):
            return False
        return mine in walk.roots or any([
            not isinstance(node, ProgramBackward) or node.is_fed(index, walk)
            for node in walk.dependencies if mine in node.edges
        ])

    def is_fed(self, edge: int, walk: Walk) -> bool:
        """Whether a backward call that comes to this node goes on along an edge of it."""
        return True

    hands_all_on = False  # whether what comes in goes out too, where it makes nothing else

    def hands_on(self, grads: Sequence[Any], needs: Sequence[bool]) -> bool:
        """Whether it gives what comes in, and no more."""
        return False

    def pass_on(self, grads: Sequence[Any]) -> None:
        """A run begins that computes nothing of what comes in (None where nothing does)."""

    @property
    def is_freed(self) -> bool:
        return self.saved is None

    def release(self) -> None:
        """Free what was saved."""
        self.saved = None
        self.inputs = {}

    # ---- copied into another graph
    def inlined(self, grads: Sequence[Any], needs: Sequence[bool]) -> Inlined | None:
        """The run for gradients of some results (None for others) as nodes to copy; None where it is not.
        Raises StateError once it was freed."""
        edges, wanted = self._given(grads, needs)
        if wanted and self.saved is None:
            raise StateError(FREED)
        absent = absent_of(grads)
        function, primals = self.seen_again(absent) if modes.grad and wanted else (None, [])
        body = None
        if wanted:
            body = self.gradients.body(wanted, absent) if function is None else function.body(wanted)
        if body is None or modes.special is not None or any(is_hooked(s) for s in self.saved or ()):
            return None
        if self.gradients.joint.env.default_dtype is not get_default():  # by which what it becomes a part of goes
            return None
        self.begin(grads, tuple(needs))
        if function is None:
            taken = self._taken(body)
        else:
            self.check_versions([function.read[at] for at in body.reads])
            taken = [(primals[at], None) for at in body.reads if at < len(primals)]
        numbers = [int(self.symbols[name]) for name in body.symbols]
        return Inlined(body, taken, numbers, self._tangents(body, function), edges)

    def gives(self, edges: Sequence[int]) -> tuple[dict[int, int | Whole], tuple[int, ...]]:
        """What a body gives for some edges, and which of all gradients those results are."""
        return {edge: i for i, edge in enumerate(edges)}, tuple(edges)

    def _taken(self, body: Body) -> list[tuple[Any, SavedTensor | None]]:
        """What a body takes of the forward, and where it was saved."""
        assert self.saved is not None
        arrays, count = self.arrays(body.reads), len(self.saved)
        return [
            (
                tensor_around(arrays[at]) if isinstance(arrays[at], ndarray) else float(arrays[at]),
                packed_of(self.saved[at]),
            )
            for at in body.reads if at < count
        ]

    def _tangents(self, body: Body, function: GradientFunction | None) -> tuple[int, ...]:
        """Which gradients of results a body takes. function: of which it is a part, if it is differentiated again."""
        if function is not None:
            places = [i - function.inputs for i in function.read]
            return tuple([places[at] for at in body.reads if places[at] >= 0])
        count = len(self.gradients.halves.saved)
        return tuple([at - count for at in body.reads if at >= count])

    # ---- natively
    def _natively(self, grads: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        absent, gradients = absent_of(grads), self.gradients
        try:
            saved = self.arrays()
        except VersionError:  # perhaps of what only other gradients are computed from
            return self._some_natively(grads, self._given(grads, needs)[1])
        arrays = [*saved, *self._tangents_in(grads)]
        if absent and (gradients.has_users or gradients.has_waiting):
            results = gradients.exact(absent).run(arrays, self.symbols)
        else:
            results = gradients.executable.run(arrays, self.symbols)
            if absent and any(map(_has_nan, results)):  # perhaps of a 0 in the place of what did not come in
                results = gradients.exact(absent).run(arrays, self.symbols)
        return [tensor_around(r) for r in without_aliases(results, arrays)]

    def _some_natively(self, grads: Sequence[Any], wanted: Wanted) -> list[Any]:
        """Some gradients, of what those are computed from."""
        program = self.gradients.exact(absent_of(grads), wanted)
        arrays = [*self.arrays(reads_of(program.captured)), *self._tangents_in(grads)]
        results = without_aliases(program.run(arrays, self.symbols), arrays)
        return self._among_all(wanted, [tensor_around(r) for r in results])

    def _among_all(self, wanted: Wanted, gradients: Sequence[Any]) -> list[Any]:
        """Gradients of these numbers in their places among all, None for the others."""
        places = dict(zip(wanted, gradients, strict=True))
        return [places.get(i) for i in range(len(self.gradients.halves.backward.results))]

    def arrays(self, reads: Collection[int] | None = None) -> list[Any]:
        """What was saved, as the backward program takes it. Raises VersionError for what was written since, among those
        that the program reads (by number; all of them, if none are named)."""
        assert self.saved is not None
        return [self._unpack(s, reads is None or i in reads) for i, s in enumerate(self.saved)]

    def _unpack(self, saved: Any, is_read: bool) -> Any:
        if type(saved) is not tuple:
            return saved
        packed, array = saved
        if not is_read and array is not None:
            return array
        value = packed.unpack(self)  # checks the version
        return array_of(value) if array is None else array

    def _tangents_in(self, grads: Sequence[Any]) -> list[Any]:
        return [self._zeros(i) if g is None else array_of(g) for i, g in enumerate(grads)]

    def _zeros(self, i: int) -> Any:
        metadata = self.metadata_of_inputs[i]
        assert metadata is not None
        return np.zeros(metadata.dims, metadata.dtype.numpy)

    # ---- with a history
    def _again(self, grads: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        """The gradients as a function of the inputs, to be differentiated again."""
        absent, wanted = absent_of(grads), None
        function, primals = self.seen_again(absent)
        if self._is_written(function.read):  # perhaps what only other gradients are a function of
            wanted = self._given(grads, needs)[1]
            function, primals = self.seen_again(absent, wanted)
            self.check_versions(function.read)
        tangents = [tensor_around(self._zeros(i)) if grads[i] is None else grads[i] for i in function.tangents()]
        gradients = function([*primals, *tangents], self.symbols)
        return gradients if wanted is None else self._among_all(wanted, gradients)

    def seen_again(
        self, absent: Absent = (), wanted: Wanted | None = None
    ) -> tuple[GradientFunction, list[Any]]:
        """The gradients (some, or all) as they are differentiated again, where nothing comes in for some tangents, and
        the inputs that they are a function of."""
        function = self.gradients.function((), absent, wanted)
        return function, [self.inputs[i] for i in function.read if i < function.inputs]

    def check_versions(self, reads: Collection[int]) -> None:
        """Raises VersionError where one of these inputs (by number) was written since."""
        if self._is_written(reads):
            raise VersionError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a "
                "tensor that a compiled function read was written before its backward ran with create_graph=True"
            )

    def _is_written(self, reads: Collection[int]) -> bool:
        now, then = self.versions_now(), self.versions
        return now != then and any([now.get(i) != then.get(i) for i in reads])

    def versions_now(self) -> dict[int, int]:
        """How often each of the inputs was written."""
        return {
            i: 0 if not isinstance(x, Tensor) or x._storage is None else x._version for i, x in self.inputs.items()
        }


def absent_of(grads: Sequence[Any]) -> Absent:
    """The results for which no gradient comes in."""
    return tuple([i for i, g in enumerate(grads) if g is None])


def _has_nan(array: Any) -> bool:
    return isinstance(array, ndarray) and bool(np.isnan(array).any())


# ---- programs
class TensorProgram:
    """A graph that is called with tensors (and numbers) for its parameters, row-major or not, and the values of its
    symbols, which must be such as its guards ask for."""

    def __init__(self, graph: Graph, backend: str | None = None) -> None:
        self.graph, self.backend = graph, backend
        self.differentiable = [i for i, p in enumerate(graph.params) if is_differentiable(p)]
        # by the parameters that want a gradient
        self.programs: ProgramStore[tuple[int, ...], _Plain] = ProgramStore(
            limits.GRADIENTS_OF_A_GRAPH, limits.PROGRAMS_OF_A_GRAPH
        )

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        """The results. They have a history where grad mode is on and an input wants a gradient."""
        if modes.special is not None or not all([has_bytes(x) for x in inputs]):
            return run_on_tensors(self.graph, inputs, symbols)
        wrt = tuple([i for i in self.differentiable if inputs[i].requires_grad]) if modes.grad else ()
        variants = self.programs.variants(wrt)
        match = variants.find(inputs, symbols)
        program = variants.add(self._make(wrt, inputs, symbols)) if match is None else match[0]
        return program(inputs, symbols)

    def stages(self) -> dict[str, Any]:
        """The latest program at each stage of the compiler."""
        latest = self.programs.latest
        assert latest is not None
        return latest.stages()

    def _make(self, wrt: tuple[int, ...], inputs: list[Any], symbols: Symbols) -> _Plain:
        graph = Graph(self.graph.name, self.graph.block, self.graph.env.at(symbols))
        numbers = {i: float(inputs[i]) for i, p in enumerate(graph.params) if p.type is FLOAT}
        try:
            joint = with_gradients(graph, wrt, numbers) if wrt else None
        except UnknownSize:
            return _Interpreted(graph, *shape_check(graph.env))  # a formula asks about a size that is not known yet
        if joint is None:
            return _Native(graph, *shape_check(graph.env), make_executable(open_functions(graph), self.backend))
        count, tangents = len(graph.results), len(joint.tangents)
        sizes = tuple(sorted(set(partition(open_functions(joint.graph), count, tangents, joint.start).sizes.values())))
        whole = giving_sizes(joint.graph, count, sizes) if sizes else joint.graph
        results = count + len(sizes)
        halves = chosen(partition(open_functions(whole), results, tangents, joint.start), results, self.backend)
        executable = make_executable(halves.forward, self.backend)
        gradients = Gradients(whole, results, tangents, halves, self.backend)
        return _Recorded(graph, *shape_check(graph.env), executable, joint, gradients, sizes)


@dataclass(eq=False)
class _Plain:
    """A program for inputs some of which want gradients. check: whether it serves the values of the symbols `names`."""

    graph: Graph
    check: Callable[..., bool]
    names: tuple[str, ...]

    def match(self, inputs: list[Any], symbols: Symbols) -> Symbols | Miss:
        """The symbols, if it serves them and the numbers among the inputs."""
        return symbols if self.check(*[symbols[name] for name in self.names]) else UNFIT

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        raise NotImplementedError

    def stages(self) -> dict[str, Any]:
        """Each stage by name."""
        return {"captured": self.graph}


class _Interpreted(_Plain):
    """What hangs on sizes that are found while it runs: node by node."""

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        return run_on_tensors(self.graph, inputs, symbols)


@dataclass(eq=False)
class _Native(_Plain):
    executable: Interpreted | Compiled

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        return [_tensor(r) for r in self._run(inputs, [array_of(x) for x in inputs], symbols)]

    def _run(self, inputs: list[Any], arrays: list[Any], symbols: Symbols) -> list[Any]:
        return without_aliases(self.executable.run(arrays, symbols), arrays)

    def stages(self) -> dict[str, Any]:
        """Each stage by name."""
        return self.executable.stages()


@dataclass(eq=False)
class _Recorded(_Native):
    """A program whose results have a history."""

    joint: Joint
    gradients: Gradients
    found: tuple[str, ...]  # sizes that the backward goes by and the forward finds: the last of its results

    def match(self, inputs: list[Any], symbols: Symbols) -> Symbols | Miss:
        """The symbols, if it serves them and the numbers among the inputs."""
        match = super().match(inputs, symbols)
        if type(match) is Miss or not self.joint.guards:
            return match
        values = {**symbols, **{number_key(i): x for i, x in enumerate(inputs) if type(x) is float}}
        return symbols if all([guard.holds(values) for guard in self.joint.guards]) else UNFIT

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        arrays = [array_of(x) for x in inputs]
        outputs = self._run(inputs, arrays, symbols)
        count = self.gradients.results
        results, extra = [_tensor(r) for r in outputs[: count - len(self.found)]], iter(outputs[count:])
        if self.found:
            sizes = {name: int(n) for name, n in zip(self.found, outputs[count - len(self.found) :], strict=False)}
            symbols = {**symbols, **sizes, **{mine: sizes[own] for mine, own in self.gradients.halves.sizes.items()}}
        saved = [
            save(next(extra), None) if place is None else save(arrays[place], inputs[place]) for place in self._places
        ]
        edges = tuple([gradient_edge(inputs[i]) for i in self.joint.gradients])
        node = ProgramBackward(edges, self.gradients, saved, symbols, inputs)
        node.attach([results[i] for i in self.joint.tangents])
        return results

    @cached_property
    def _places(self) -> list[int | None]:
        """For each saved value which input it is."""
        places = {v: i for i, v in enumerate(self.gradients.halves.forward.params)}
        return [places.get(v) for v in self.gradients.halves.saved]


def _tensor(result: Operand) -> Any:
    return tensor_around(result) if isinstance(result, ndarray) else result
