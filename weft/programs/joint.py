"""A compiled forward used with an eager backward: one CompiledFunctionBackward node, whose gradients are a second
program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any
from weakref import ref

from weft.autograd import engine
from weft.autograd.accumulate import accumulator_of
from weft.autograd.function import given_once
from weft.autograd.node import Edge, InputMetadata, Node, sequence_numbers
from weft.autograd.record import gradient_edge
from weft.autograd.saved import FREED
from weft.ir.graph import Graph, Value
from weft.passes.partition import Halves, partition
from weft.passes.stop_gradients import Notes
from weft.programs.argument_histories import Before, take_history
from weft.programs.executable import Compiled, Interpreted, chosen
from weft.programs.freed import Freed, sum_of_bits
from weft.programs.higher_order import input_of, version_of
from weft.programs.inlining import Inlined, Whole
from weft.programs.inner_results import CutPrograms, InnerResult, Returned
from weft.programs.joint_record import JointRecord
from weft.programs.kept import save
from weft.programs.program_io import ArgumentSource, StateSource
from weft.programs.tensor_program import Absent, GradientFunction, ProgramBackward, Wanted
from weft.record.wrappers import Desugared, resugar
from weft.runtime.storage import root_of
from weft.support import pytree
from weft.support.errors import StateError
from weft.tensor.dense import dense_array
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor


@dataclass(eq=False)
class JointProgram:
    """The backward half of an entry, and how a call's tensors are tied to it. outputs: which results have a history."""

    record: JointRecord
    programs: CutPrograms
    results: int
    outputs: list[int]

    def __post_init__(self) -> None:
        self.gradients = self.programs.part((), None)
        self.inner = {one.output: number for number, one in enumerate(self.record.inner)}
        # whether there are runs through some results that eager mode never refuses
        self.keeps = any(map(self.record.saving.is_open, range(len(self.outputs)), self.record.leads)) or any([
            one.is_heard or 0 in [one.saving[i] for i in one.above] for one in self.record.inner
        ])

    @classmethod
    def build(
        cls, graph: Graph, record: JointRecord, results: int, outputs: list[int], backend: str | None,
        without: Notes,
    ) -> JointProgram:
        """Cut the joint graph and compile its backward half. without: which operands of nodes and results of blocks had
        no history."""
        halves = chosen(partition(graph, results, record.tangents, record.start), results, backend)
        programs = CutPrograms(
            record.inner, graph, halves, results, record.tangents, backend, without, record.has_users
        )
        return cls(record, programs, results, outputs)

    @property
    def halves(self) -> Halves:
        """The joint graph, cut in two."""
        return self.gradients.halves

    @property
    def backward(self) -> Interpreted | Compiled:
        """The program of the backward half."""
        return self.gradients.executable

    @cached_property
    def _returned(self) -> frozenset[Any]:
        """The values that a call gives."""
        return frozenset(v for v in self.halves.forward.results[: self.results] if isinstance(v, Value))

    @cached_property
    def has_wrappers(self) -> bool:
        """Whether some gradient is put together from those of its inner tensors."""
        return any(c.kind is not None for c in self.record.spec.children)

    def attach(
        self, sources: list[Any], leaves: list[Any], inputs: list[Any], results: list[Any], symbols: dict[str, int],
        tensors: list[Any], before: Before,
    ) -> None:
        """Give the returned tensors (some of what the call made), and arguments that were written, their common node.
        """
        receivers = [self._receiver(i, sources, leaves, tensors) for i in range(len(self.record.primals))]
        edges = [before.edges[id(t)] if id(t) in before.edges else _receiving_edge(t) for t in receivers]
        sizes = {name: symbols[symbol] for name, symbol in self.halves.sizes.items()}
        saved = self._saved(sources, leaves, inputs, results, tensors)
        self.reserve_numbers()
        node = CompiledFunctionBackward(tuple(edges), self, saved, {**symbols, **sizes}, sources, leaves, before.values)
        node.attach([tensors[at] for at in self.outputs])
        if self.inner:
            node.inner_results = [Returned(tensors[self.outputs[one.output]]) for one in self.record.inner]

    def reserve_numbers(self) -> None:
        """Leave out the sequence numbers of what the next node may be cut into."""
        for _ in self.inner:
            next(sequence_numbers)

    def _receiver(self, i: int, sources: list[Any], leaves: list[Any], tensors: list[Any]) -> Tensor:
        """The tensor of this call that receives gradient number i."""
        primal, place, returned = self.record.primals[i], self.record.places[i], self.record.returned[i]
        if place is not None:
            return leaves[place]  # type: ignore[no-any-return]
        if returned is not None:
            return tensors[returned]  # type: ignore[no-any-return]
        param = self.record.params[i]
        return primal if param is None else leaves[sources[param].leaf]

    def _saved(
        self, sources: list[Any], leaves: list[Any], inputs: list[Any], results: list[Any], tensors: list[Any]
    ) -> list[Any]:
        positions = {id(v): i for i, v in enumerate(self.halves.forward.params)}
        arrays = [(dense_array(t), t) for t in tensors if isinstance(t, Tensor)]
        # memory that others see, and may write: of what the program wrote, and of what it gives
        written = [(inputs[at], _tensor_of(sources[at], leaves)) for _, at in self.halves.forward.writes]
        returned = {id(root_of(array)): t for array, t in (*written, *arrays) if array is not None and t is not None}
        saved: list[Any] = []
        extra = self.results
        for value in self.halves.saved:
            at = positions.get(id(value))
            if at is None:
                array = results[extra]
                # what the caller has too may be written; numbers that the program computes are nobody's
                shown = None if isinstance(array, (bool, int, float, complex)) else returned.get(id(root_of(array)))
                if shown is not None and value not in self._returned:  # the caller has a clone() of it, in its memory
                    array, shown = array.copy(), None
                saved.append(save(array, shown, True))
                extra += 1
                continue
            tensor = _tensor_of(sources[at], leaves)
            saved.append(save(inputs[at], tensor))
        return saved


def _receiving_edge(receiver: Tensor) -> Edge:
    """Where the gradient of a tensor of this call flows: of a leaf that the function has frozen since, to it all the
    same, which takes it should it be thawed by then."""
    return gradient_edge(receiver) or (accumulator_of(receiver), 0)


def _tensor_of(source: Any, leaves: list[Any]) -> Tensor | None:
    if type(source) is ArgumentSource:
        leaf: Tensor = leaves[source.leaf]
        return leaf
    if type(source) is not StateSource:
        return None
    return source.slot.tensor if source.slot.leaf is None else leaves[source.slot.leaf]


def _part(spec: pytree.TreeSpec, places: Iterator[int]) -> int | Whole:
    """How a gradient of this structure is made of results: the next of `places`, nested wrappers inside out."""
    if spec.kind is None:
        return next(places)
    return Whole(Rewrapped(spec.meta), tuple([_part(child, places) for child in spec.children]))


class Rewrapped:
    """Makes the gradient of a wrapper's class of the gradients of its inner tensors."""

    def __init__(self, facts: tuple[Any, ...]) -> None:
        self.facts = facts

    def apply(self, inner: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The wrapper, in a tuple."""
        return (resugar(Desugared(self.facts, list(inner))),)


class PlainOfWrapper(Node):
    """The history of a plain tensor whose gradient is a wrapper, as an input of gradients that are differentiated
    again: the program knows the inner tensors alone, and has one second gradient where their class has one for each."""

    @classmethod
    def before(cls, tensor: Tensor) -> Tensor:
        """The same tensor with this history."""
        node = cls((gradient_edge(tensor),))
        node.metadata_of_inputs += (InputMetadata(tensor.dims, tensor.dtype),)
        out = tensor.detach()
        out._autograd = AutogradState(False, node, 0)
        return out

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        raise StateError(
            "a second gradient, through a compiled forward, of a plain tensor whose gradient is a wrapper: compile the "
            "whole step, the function that calls backward or autograd.grad, instead of the model alone"
        )


class CompiledFunctionBackward(ProgramBackward):
    """The gradient of a compiled forward: its saved values, its tangents, one program; or one of the parts that it was
    cut into (inner_results.py)."""

    # (of the class, where most nodes have no other)
    freed: Freed | None = None  # what eager mode would have freed
    latest: tuple[ref[engine.Walk] | None, int] = (None, 0)  # a backward call, and what it frees here, as bits
    inner_results: Sequence[Returned] = ()
    upto: int | None = None  # where it is cut: the inner result, by number, behind which the next part begins
    rest: tuple[CompiledFunctionBackward, ...] = ()  # the parts behind the first one
    next_part: CompiledFunctionBackward | None = None  # behind this one, where it is cut
    first: ref[CompiledFunctionBackward] | None = None  # of another part

    def __init__(
        self, edges: tuple[Any, ...], program: JointProgram, saved: list[Any], symbols: dict[str, int],
        sources: list[Any], leaves: list[Any], before: Mapping[int, Any],
    ) -> None:
        self.program, self.sources, self.leaves = program, sources, leaves
        self.read = {i: (sources[i], before.get(i)) for i in program.gradients.read if i < len(sources)}
        super().__init__(edges, program.gradients, saved, symbols, ())
        self.last_number = self.sequence  # those before it are of what it may be cut into

    # ---- its parts
    def arrival(self, index: int) -> Node:
        number = self.program.inner.get(index)
        if number is None or self.first is not None:
            return self
        parts = [self, *self.rest]
        at = next(i for i, part in enumerate(parts) if part.upto is None or part.upto >= number)
        if parts[at].upto != number:
            self.rest = (*self.rest[:at], self._cut(parts[at], number), *self.rest[at:])
            parts = [self, *self.rest]
            for i in range(at, len(parts)):
                before = tuple([part.upto for part in parts[:i] if part.upto is not None])
                parts[i].gradients = self.program.programs.part(before, parts[i].upto)
        return self.rest[at]

    def is_heard(self, index: int) -> bool:
        number = self.program.inner.get(index)
        if number is not None and self.program.record.inner[number].is_heard:
            return True
        return super().is_heard(index) or any([index in (part.tensor_hooks or ()) for part in self.rest])

    def _cut(self, part: CompiledFunctionBackward, number: int) -> CompiledFunctionBackward:
        """Let a part end where all of the gradient of an inner result is together. Returns the one that goes on."""
        part.freed = part.freed or Freed()
        rest = copy(part)
        rest.first, rest.rest, rest.hook_tables, rest.sequence = ref(self), (), None, part.last_number - 1 - number
        part.upto, part.hands_all_on, part.next_part = number, True, rest
        part.edges = tuple([(rest, i) for i in range(len(part.metadata_of_inputs))])
        engine.meet(part, rest)
        return rest

    def attach(self, outputs: Sequence[Tensor]) -> None:
        super().attach(outputs)
        numbers = self.program.inner
        views = [i for i, tensor in enumerate(outputs) if self._is_inner_view(i, tensor)]
        for i in sorted(views, key=lambda i: -numbers[i]):  # the earliest first: nodes are younger than what is behind
            self._go_through(outputs[i], i)

    def attach_one(self, index: int, tensor: Tensor) -> None:
        if not self._is_inner_view(index, tensor):
            super().attach_one(index, tensor)

    def _is_inner_view(self, index: int, tensor: Tensor) -> bool:
        """Whether a result was written into a view among the arguments, and other results are computed from it."""
        return tensor._view is not None and index in self.program.inner

    def _go_through(self, view: Tensor, index: int) -> None:
        """Let the gradients of results that are computed from a view as the call has left it go through the view's own
        history (what was written, in its base), for somebody may ask for the view's."""
        rest, number = self.arrival(index), self.program.inner[index]
        take_history(view, rest, index)
        edge = gradient_edge(view)
        parts = [self, *self.rest]
        at = next(i for i, part in enumerate(parts) if part.upto == number)
        parts[at].edges = (*parts[at].edges[:index], edge, *parts[at].edges[index + 1 :])
        for part in reversed(parts[: at + 1]):
            self.program.reserve_numbers()
            part.sequence = part.last_number = next(sequence_numbers)

    def edges_of(self, index: int) -> tuple[Edge | None, ...]:
        inner = self.inner
        if inner is None:
            return self._only(self.program.record.leads[index])
        return self._only((index, inner.output) if index in inner.above else (index,))

    def leads(self, index: int, walk: engine.Walk) -> bool:
        part: Any = self
        while True:
            if (part, index) in walk.asked.get(part, ()):
                return True
            inner = part.inner
            if inner is None:
                reach = self.program.record.leads[index]
                return any([e is not None and i in reach and walk.leads_on(e) for i, e in enumerate(part.edges)])
            edge, part = part.edges[inner.output], part.next_part
            if index in inner.above and (
                (part, inner.output) in walk.asked.get(part, ()) or (edge[0] is not part and walk.leads_on(edge))
            ):
                return True

    def is_fed(self, edge: int, walk: engine.Walk) -> bool:
        inner = self.inner
        if inner is None:
            return True
        return any([self.is_met(i, walk) for i in (edge, *(inner.above if edge == inner.output else ()))])

    @property
    def inner(self) -> InnerResult | None:
        """The inner result behind which the next part begins."""
        return None if self.upto is None else self.program.record.inner[self.upto]

    def hands_on(self, grads: Sequence[Any], needs: Sequence[bool]) -> bool:
        inner = self.inner
        if inner is None or True not in needs:
            return inner is not None
        heard = {*inner.above, *([inner.output] if inner.is_heard else [])}
        return not (needs[inner.output] and any([grads[i] is not None for i in heard]))

    # ---- its run
    def begin(self, grads: Sequence[Any], needs: tuple[bool, ...]) -> None:
        inner = self.inner
        outputs = range(len(grads)) if inner is None else sorted(inner.above)
        self._pass([self._frees(i, needs) for i in outputs if grads[i] is not None], grads)
        if self.saved is None:
            raise StateError(FREED)

    def pass_on(self, grads: Sequence[Any]) -> None:
        self._pass([], grads)

    def _pass(self, frees: list[int], grads: Sequence[Any]) -> None:
        """A run begins that frees some nodes, and, where backward() asks for a gradient that comes in, the node behind
        it, which computes nothing then. Raises StateError if an earlier backward call has freed one of the others."""
        walk, bits = engine.current_walk(), sum_of_bits(frees)
        if self.freed is not None and bits & self.freed.before(walk):
            raise StateError(FREED)
        if walk is not None and walk.accumulate:
            own = self.program.record.saving.own
            bits |= sum_of_bits([own[i] for _, i in walk.asked.get(self, ()) if grads[i] is not None])
        self.latest = (None if walk is None else ref(walk), bits)

    def _frees(self, output: int, needs: tuple[bool, ...]) -> int:
        """What eager mode frees on the way from an output that this part goes."""
        inner = self.inner
        return inner.saving[output] if inner is not None else self.program.record.saving.frees(output, needs)

    def reached(self, grads: Sequence[Any]) -> frozenset[int]:
        if self.upto is not None or self.first is not None:
            return super().reached(grads)
        reach = self.program.record.reach
        return frozenset().union(*(reach[i] for i, g in enumerate(grads) if g is not None))

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        if self.upto is not None:
            return self._handed_on(grads, needs)
        if True not in needs or not any([needs[i] for i in self.reached(grads)]):
            self.pass_on(grads)
            return (None,) * len(needs)
        if not self.program.has_wrappers:
            return self._with_unfed(super().apply(grads, needs))
        self.begin(grads, needs)
        gradients = resugar(pytree.unflatten(self.computed(grads, needs), self.program.record.spec))
        reached = self.reached(grads)
        return self._with_unfed([g if i in reached and needs[i] else None for i, g in enumerate(gradients)])

    def _with_unfed(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        return (*gradients, *[None] * (len(self.edges) - len(gradients)))

    def _handed_on(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """What comes in, with all of the gradient of the inner result."""
        if self.hands_on(grads, needs):
            self.pass_on(grads)
            return grads
        self.begin(grads, needs)
        (total,) = self.computed(grads, needs)
        total = total if self.reached(grads) else None
        inner = self.inner
        assert inner is not None
        return (*grads[: inner.output], total, *grads[inner.output + 1 :])

    def computed(self, grads: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        if not (modes.grad and self.program.record.gives_once):
            return super().computed(grads, needs)
        with no_grad():
            return list(given_once((*grads, *self.seen_again()[1]), tuple(super().computed(grads, needs)), True))

    def inlined(self, grads: Sequence[Any], needs: Sequence[bool]) -> Inlined | None:
        return None if modes.grad and self.program.record.gives_once else super().inlined(grads, needs)

    def gives(self, edges: Sequence[int]) -> tuple[dict[int, int | Whole], tuple[int, ...]]:
        if self.inner is not None:
            return {self.inner.output: 0}, (0,)
        first = list(accumulate([0, *(c.size for c in self.program.record.spec.children)]))
        wanted = [first[e] + i for e in edges for i in range(first[e + 1] - first[e])]
        places = iter(range(len(wanted)))
        return {e: _part(self.program.record.spec.children[e], places) for e in edges}, tuple(wanted)

    def seen_again(
        self, absent: Absent = (), wanted: Wanted | None = None
    ) -> tuple[GradientFunction, list[Any]]:
        self._refuse_made_leaves()
        inner = self._inner_now()
        function, count = self.gradients.function(tuple(inner), absent, wanted), self.gradients.inputs
        read = [self.read[i] for i in function.read if i < count]
        inputs = [input_of(source, self.leaves, self.symbols, was) for source, was in read]
        tensors = list(inner.values())
        inputs += [tensors[i - count] for i in function.read if count <= i < function.inputs]
        return function, self._before_wrappers(inputs) if self.program.has_wrappers else inputs

    def _refuse_made_leaves(self) -> None:
        """Raises StateError where somebody has a leaf that the function made: the gradients are a function of it too,
        and the program knows it only as what it was computed from."""
        leaves = [edge for edge, at in zip(self.edges, self.program.record.returned, strict=False) if at is not None]
        if any([edge is not None and getattr(edge[0], "variable", None) is not None for edge in leaves]):
            raise StateError(
                "create_graph=True through the backward of a compiled forward that makes a leaf and returns it: make "
                "the leaf outside, or compile the whole step, the function that calls backward or autograd.grad"
            )

    def _inner_now(self) -> dict[int, Tensor]:
        """The inner results that somebody has, and that are as the call gave them, by number. Where hooks wait for
        others, all that is saved is seen as one function of the inputs, with those hooks in it."""
        first, there = self if self.first is None else self.first(), {}
        inner = self.program.record.inner
        for number, result in enumerate(self.inner_results):
            is_seen = inner[number].is_returned or not self.gradients.has_waiting
            tensor = result.now(first) if first is not None and is_seen else None
            if tensor is not None:
                there[number] = tensor
        return there

    def _before_wrappers(self, inputs: list[Any]) -> list[Any]:
        children = self.program.record.spec.children
        wrapped = {edge for edge, child in zip(self.edges, children, strict=False) if child.kind is not None}
        return [
            PlainOfWrapper.before(x) if isinstance(x, Tensor) and gradient_edge(x) in wrapped else x for x in inputs
        ]

    def versions_now(self) -> dict[int, int]:
        return {i: 0 if was is not None else version_of(source, self.leaves) for i, (source, was) in self.read.items()}

    def _is_all_freed(self) -> bool:
        """Whether nobody can go anywhere from here without being refused."""
        inner = self.inner
        mine = self.program.record.saving.all if inner is None else sum_of_bits([inner.saving[i] for i in inner.above])
        return not mine & ~(0 if self.freed is None else self.freed.bits)

    def release(self) -> None:
        """Free what was saved, unless outputs are left whose graph no run has freed."""
        (begun, bits), walk = self.latest, engine.current_walk()
        if bits and (begun is None or walk is None or begun() is walk):  # else it has not run in this call
            self.freed = self.freed or Freed()
            self.freed.add(bits, walk)
        self.latest = (None, 0)
        if not self.program.keeps and self._is_all_freed():
            super().release()
            self.leaves, self.read = [], {}
