"""TensorProgram: a graph as a function of tensors. It runs natively, and what it gives has a history, whose backward
runs natively too, at every order.

The gradients of a graph are a graph (blocks/differentiate.py). Cut in two (passes/partition.py) it is what runs
forward, with the values to save, and what runs backward. Whole, as a function of the inputs and the tangents, it is
what a backward that is differentiated again computes: a TensorProgram itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from weft.autograd.node import InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.autograd.saved import FREED, SavedTensor
from weft.compile.blocks.differentiate import Joint, is_differentiable, number_key, with_gradients
from weft.compile.program.argument_histories import take_history
from weft.compile.program.executable import Compiled, Interpreted, chosen, make_executable
from weft.compile.program.inlining import Body, Inlined, Whole, body_of
from weft.compile.program.kept import array_of, has_bytes, is_hooked, packed_of, save, without_aliases
from weft.compile.program.on_tensors import run_on_tensors
from weft.compile.program.shape_check import shape_check
from weft.ir.graph import Block, Graph, Operand, Value, values_in
from weft.passes.dce import dce
from weft.passes.entry_sizes import bind_arguments, giving_sizes
from weft.passes.partition import Halves, partition
from weft.passes.stop_gradients import Notes, leads_elsewhere, open_functions, stop_gradients
from weft.support.errors import StateError, UnknownSize, VersionError
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import FLOAT

Symbols = Mapping[str, Any]
ndarray = np.ndarray


# ---- gradients
@dataclass(eq=False)
class Gradients:
    """The gradients of a joint graph, whose parameters end with the tangents and whose results begin with `results` of
    the forward's: as a program of saved values, and as a function of the inputs.

    without: which operands of its nodes and results of its blocks had no history, which gradients do not go through.
    """

    joint: Graph
    results: int
    tangents: int
    halves: Halves
    backend: str | None = None
    without: Notes = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.executable = make_executable(self.halves.backward, self.backend)
        self._bodies: dict[tuple[bool, tuple[int, ...]], Body | None] = {}
        whole = dce(self._gradients())
        # gradients may flow into what the values are no function of
        seen = self._seen_again if any(map(leads_elsewhere, self.without.values())) else whole
        read = {v for g in (whole, seen) for node in g.walk() for v in node.reads()}
        read.update(v for r in whole.results for v in values_in(r))
        # which inputs (then tangents) the gradients are a function of
        self.read = tuple([i for i, p in enumerate(whole.params) if p in read])
        self._whole = self._pruned(whole)

    def _gradients(self) -> Graph:
        block = Block(self.joint.params, self.joint.nodes, self.joint.results[self.results :])
        return Graph(f"{self.joint.name}_gradients", block, self.joint.env)

    def _pruned(self, whole: Graph) -> Graph:
        """The gradients as a function of what they read."""
        params = tuple([whole.params[i] for i in self.read])
        return Graph(whole.name, Block(params, whole.nodes, whole.results), whole.env)

    @cached_property
    def _function(self) -> Graph:
        """The gradients as they are differentiated again."""
        if not self.without:
            return self._whole
        return self._pruned(self._seen_again)

    @cached_property
    def _seen_again(self) -> Graph:
        return dce(stop_gradients(self._gradients(), self.without))  # nodes are as they were noted

    @cached_property
    def _again(self) -> tuple[TensorProgram, dict[str, str]]:
        given, sizes = bind_arguments(self._function)  # tangents come with the sizes that the forward found
        return TensorProgram(given, self.backend), sizes

    @cached_property
    def reach(self) -> tuple[frozenset[int], ...]:
        """For each tangent, the gradients that depend on it."""
        found: dict[Value, int] = {p: 1 << i for i, p in enumerate(self.joint.params[self.inputs :])}

        def bits(values: Sequence[Value]) -> int:
            known = 0
            for v in values:
                known |= found.get(v, 0)
            return known

        for node in self._whole.nodes:
            known = bits(node.needs())
            if known:
                found.update(dict.fromkeys(node.outputs, known))
        gradients = [bits(tuple(values_in(r))) for r in self._whole.results]
        return tuple([frozenset(i for i, g in enumerate(gradients) if g >> t & 1) for t in range(self.tangents)])

    def body(self, has_history: bool, wanted: tuple[int, ...]) -> Body | None:
        """Some of the gradients as nodes to copy, of saved values, or of the inputs if they are to be differentiated
        again; None where they are not copied."""
        key = (has_history, wanted)
        if key not in self._bodies:
            graph = self._function if has_history else self.halves.backward
            tangents = sum(i >= self.inputs for i in self.read) if has_history else self.tangents
            self._bodies[key] = body_of(graph, tangents, wanted)
        return self._bodies[key]

    @property
    def inputs(self) -> int:
        """How many inputs the forward has."""
        return len(self.joint.params) - self.tangents

    def again(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        """The gradients of those inputs and tangents that they are a function of (`read`), with a history."""
        program, sizes = self._again
        return program(inputs, {**symbols, **{new: symbols[old] for new, old in sizes.items()}})


class ProgramBackward(Node):
    """The gradient of what a program gave: saved values and tangents, one program.

    inputs: what the program was called with, by the places of its parameters, for a backward that is
    differentiated again.
    """

    makes_gradients = True

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
        for i, tensor in enumerate(outputs):
            self.metadata_of_inputs += (InputMetadata(tensor.dims, tensor.dtype),)
            take_history(tensor, self, i)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        self.begin(grads)
        made = self.computed(grads)
        reached = self.reached(grads)
        return tuple([g if i in reached else None for i, g in enumerate(made)])

    def computed(self, grads: Sequence[Any]) -> list[Any]:
        """All gradients: natively, or as operators see them that record, batch or replace them."""
        if modes.grad or modes.special is not None or not all([has_bytes(g) for g in grads]):
            return self._again(grads)
        return self._natively(grads)

    def begin(self, grads: Sequence[Any]) -> None:
        """A run begins, with gradients for some of the results (None for others). Raises StateError once it was freed.
        """
        if self.saved is None:
            raise StateError(FREED)

    def reached(self, grads: Sequence[Any]) -> frozenset[int]:
        """Which gradients there are, for those of the results that are there."""
        reach = self.gradients.reach
        return frozenset().union(*(reach[i] for i, g in enumerate(grads) if g is not None))

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
        reached = self.reached(grads)
        edges, wanted = self.gives([i for i in range(len(self.edges)) if i in reached and needs[i]])
        body = self.gradients.body(modes.grad, wanted) if wanted else None
        if body is None or modes.special is not None or any(is_hooked(s) for s in self.saved or ()):
            return None
        self.begin(grads)
        return Inlined(
            body, self._taken(body), [int(self.symbols[name]) for name in body.symbols], self._tangents(body), edges
        )

    def gives(self, edges: Sequence[int]) -> tuple[dict[int, int | Whole], tuple[int, ...]]:
        """What a body gives for some edges, and which of all gradients those results are."""
        return {edge: i for i, edge in enumerate(edges)}, tuple(edges)

    def _taken(self, body: Body) -> list[tuple[Any, SavedTensor | None]]:
        """What a body takes of the forward, and where it was saved."""
        if modes.grad:
            primals = self.primals()
            return [(x, None) for x in (primals[at] for at in body.reads if at < len(primals))]
        assert self.saved is not None
        arrays, count = self.arrays(), len(self.saved)
        return [
            (Tensor(arrays[at]) if isinstance(arrays[at], ndarray) else float(arrays[at]), packed_of(self.saved[at]))
            for at in body.reads if at < count
        ]

    def _tangents(self, body: Body) -> tuple[int, ...]:
        """Which gradients of results a body takes."""
        if modes.grad:
            places = [i - self.gradients.inputs for i in self.gradients.read]
            return tuple([places[at] for at in body.reads if places[at] >= 0])
        count = len(self.gradients.halves.saved)
        return tuple([at - count for at in body.reads if at >= count])

    # ---- natively
    def _natively(self, grads: Sequence[Any]) -> list[Tensor]:
        tangents = [self._zeros(i) if g is None else array_of(g) for i, g in enumerate(grads)]
        arrays = [*self.arrays(), *tangents]
        return [Tensor(r) for r in without_aliases(self.gradients.executable.run(arrays, self.symbols), arrays)]

    def arrays(self) -> list[Any]:
        """What was saved, as the backward program takes it. Raises VersionError for what was written since."""
        assert self.saved is not None
        return [self._unpack(s) for s in self.saved]

    def _unpack(self, saved: Any) -> Any:
        if type(saved) is not tuple:
            return saved
        packed, array = saved
        found = packed.unpack(self)  # checks the version
        return array_of(found) if array is None else array

    def _zeros(self, i: int) -> Any:
        metadata = self.metadata_of_inputs[i]
        assert metadata is not None
        return np.zeros(metadata.dims, metadata.dtype.numpy)

    # ---- with a history
    def _again(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients as a function of the inputs, to be differentiated again."""
        count = self.gradients.inputs
        tangents = [i - count for i in self.gradients.read if i >= count]
        given = [Tensor(self._zeros(i)) if grads[i] is None else grads[i] for i in tangents]
        return self.gradients.again([*self.primals(), *given], self.symbols)

    def primals(self) -> list[Any]:
        """The inputs that the gradients are a function of. Raises VersionError for those that were written since."""
        if self.versions_now() != self.versions:
            raise VersionError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a "
                "tensor that a compiled function read was written before its backward ran with create_graph=True"
            )
        return list(self.inputs.values())

    def versions_now(self) -> list[int]:
        """How often each of the inputs was written."""
        return [0 if not isinstance(x, Tensor) or x._storage is None else x._version for x in self.inputs.values()]


# ---- programs
class TensorProgram:
    """A graph that is called with tensors (and numbers) for its parameters, row-major or not, and the values of its
    symbols, which must be such as its guards ask for."""

    def __init__(self, graph: Graph, backend: str | None = None) -> None:
        self.graph, self.backend = graph, backend
        self.differentiable = [i for i, p in enumerate(graph.params) if is_differentiable(p)]
        # by the parameters that want a gradient; sizes that none of its programs serves make another
        self.found: dict[tuple[int, ...], list[_Plain]] = {}

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        """The results. They have a history where grad mode is on and an input wants a gradient."""
        if modes.special is not None or not all([has_bytes(x) for x in inputs]):
            return run_on_tensors(self.graph, inputs, symbols)
        wrt = tuple([i for i in self.differentiable if inputs[i].requires_grad]) if modes.grad else ()
        known = self.found.setdefault(wrt, [])
        for program in known:
            if program.check(*[symbols[name] for name in program.names]) and program.fits(inputs, symbols):
                return program(inputs, symbols)
        known.insert(0, self._make(wrt, inputs, symbols))
        return known[0](inputs, symbols)

    def stages(self) -> dict[str, Any]:
        """The latest program at each stage of the compiler."""
        return next(reversed(self.found.values()))[0].stages()

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
        found = tuple(sorted(set(partition(open_functions(joint.graph), count, tangents, joint.start).sizes.values())))
        whole = giving_sizes(joint.graph, count, found) if found else joint.graph
        results = count + len(found)
        halves = chosen(partition(open_functions(whole), results, tangents, joint.start), results, self.backend)
        executable = make_executable(halves.forward, self.backend)
        gradients = Gradients(whole, results, tangents, halves, self.backend)
        return _Recorded(graph, *shape_check(graph.env), executable, joint, gradients, found)


@dataclass(eq=False)
class _Plain:
    """A program for inputs some of which want gradients. check: whether it serves the values of the symbols `names`."""

    graph: Graph
    check: Callable[..., bool]
    names: tuple[str, ...]

    def fits(self, inputs: list[Any], symbols: Symbols) -> bool:
        """Whether it serves the numbers among the inputs."""
        return True

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

    def fits(self, inputs: list[Any], symbols: Symbols) -> bool:
        """Whether it serves the numbers among the inputs."""
        if not self.joint.guards:
            return True
        values = {**symbols, **{number_key(i): x for i, x in enumerate(inputs) if type(x) is float}}
        return all([guard.holds(values) for guard in self.joint.guards])

    def __call__(self, inputs: list[Any], symbols: Symbols) -> list[Any]:
        arrays = [array_of(x) for x in inputs]
        made = self._run(inputs, arrays, symbols)
        count = self.gradients.results
        results, extra = [_tensor(r) for r in made[: count - len(self.found)]], iter(made[count:])
        if self.found:
            sizes = {name: int(n) for name, n in zip(self.found, made[count - len(self.found) :], strict=False)}
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
    return Tensor(result) if isinstance(result, ndarray) else result
