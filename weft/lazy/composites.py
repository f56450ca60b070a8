"""Composites that are replayed with their history: what one of them calls is one entry of the trace, and the nodes that
autograd makes for these calls are made from what was noted of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.anomaly import anomaly
from weft.autograd.dependencies import nodes_behind
from weft.autograd.node import Node, OpNode
from weft.autograd.record import gradient_edge
from weft.autograd.saved import SavedTensor, default_hooks
from weft.functionalizer.storage import Order
from weft.functionalizer.writes import Path
from weft.lazy.device import LazyDevice
from weft.lazy.operands import Operands
from weft.lazy.payload import LazyPayload
from weft.lazy.recorded import Recorded, Structure
from weft.lazy.recording import Args, Operand, Recording, Unrecordable, ViewOfOperand
from weft.lazy.rules import NOT_RECORDED, Rules
from weft.lazy.values import Deferred
from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.support.locations import user_mark
from weft.tensor.backend import type_of
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.tensor_type import TensorType

HOPELESS = 4  # kinds of operands, and none of them could be recorded: then the operator runs as it is


class OperandSaved(NamedTuple):
    """In a saved value's place: an operand."""

    turn: int


class ResultSaved(NamedTuple):
    """In a saved value's place: one of the tensors that are made; is_output: by the node itself, its result so many."""

    tensor: int
    is_output: bool
    number: int


class Made(NamedTuple):
    """A tensor that nodes save, or that comes out: a new one around a result (turn), or a view of the memory of another
    one or of an operand (base; operands from behind). node, slot: where its gradient flows (-1: nowhere).
    """

    turn: int | None
    order: Order | None
    base: int
    path: Path
    type: TensorType
    geometry: Geometry | None
    node: int
    slot: int


class Noted(NamedTuple):
    """A node. edges: of each the node, or an operand from behind (~turn), and the input's number."""

    type: Any
    edges: tuple[tuple[int, int] | None, ...]
    saved: tuple[Any, ...]
    counts: tuple[int, ...]
    metadata: tuple[Any, ...]
    formula: Any


class History:
    """What autograd makes of a call: its nodes in order, and its results among the tensors."""

    def __init__(self, nodes: Sequence[Noted], tensors: Sequence[Made], results: Any) -> None:
        self.nodes, self.tensors, self.results = nodes, tensors, results
        self.behind: list[list[int]] = [[] for _ in nodes]  # of each node, the tensors whose gradients flow into it
        for i, tensor in enumerate(tensors):
            if tensor.node >= 0:
                self.behind[tensor.node].append(i)


class Composite(History):
    """A composite's calls for operands of certain types, with their history."""

    def __init__(
        self, calls: Recorded, gives_operands: bool, nodes: Sequence[Noted], tensors: Sequence[Made], results: Any
    ) -> None:
        super().__init__(nodes, tensors, results)
        self.calls, self.gives_operands = calls, gives_operands

    def replay(self, device: LazyDevice, operands: Sequence[Tensor], values: Sequence[Deferred]) -> Any:
        """The results, with the history that the calls would have given them."""
        tensors: list[Tensor] = []
        for recipe in self.tensors:
            if recipe.turn is not None:
                tensors.append(device.fresh(values[recipe.turn], recipe.order))
                continue
            base = tensors[recipe.base] if recipe.base >= 0 else operands[~recipe.base]
            data = device.shown(base)
            assert data is not None
            shown = tensor_around(type(data)(data.storage, data.path + recipe.path, recipe.type, recipe.geometry))
            shown._storage = base.storage()
            tensors.append(device.note(shown))
        nodes: list[Node] = []
        mark = user_mark(3) if self.nodes else None
        for noted, produced in zip(self.nodes, self.behind, strict=True):
            edges = tuple([
                None if e is None else (nodes[e[0]], e[1]) if e[0] >= 0 else gradient_edge(operands[~e[0]])
                for e in noted.edges
            ])
            node = noted.type(edges, tuple([_saved(s, operands, tensors) for s in noted.saved]), noted.counts)
            node.metadata_of_inputs, node.mark, node.formula = noted.metadata, mark, noted.formula
            nodes.append(node)
            for i in produced:
                tensors[i]._autograd = AutogradState(False, node, self.tensors[i].slot)
        results = self.results
        return tensors[results] if type(results) is int else tuple([tensors[i] for i in results])


def _saved(saved: Any, operands: Sequence[Tensor], tensors: Sequence[Tensor]) -> Any:
    kind = type(saved)
    if kind is OperandSaved:
        return SavedTensor(operands[saved.turn])
    if kind is ResultSaved:
        return SavedTensor(tensors[saved.tensor], saved.is_output, saved.number)
    return tuple([_saved(s, operands, tensors) for s in saved]) if kind is tuple else saved


class HistoryRecording(Recording):
    """One run of a composite on stand-ins of its operands, some of which want a gradient."""

    def composite(
        self, op: Op, args: Args, operands: Sequence[Operand], needs: Sequence[bool], structures: dict[Any, Structure]
    ) -> Composite:
        """What was called, without the calls that nobody needs. Raises Unrecordable."""
        at = iter(operands)
        stand_ins = [self._stand_in(a, at) for a in args]
        for tensor, wanted in zip(self.stand_ins, needs, strict=True):
            if wanted:
                tensor.requires_grad_()
        if op.type is not None:  # its type rule speaks first, as where it runs as it is
            op.type(*[type_of(a) for a in stand_ins])
        with self.device.backend.constants(()):
            out = self.device.backend.composed(op, tuple(stand_ins))
        if any([t._data.storage.value is not v for t, v in zip(self.stand_ins, self.values, strict=True)]):
            raise Unrecordable("it writes into an operand")
        self._made: list[Made] = []
        self._bases: dict[int, int] = {}  # by the identity of a storage
        self._seen: dict[Any, int] = {}
        outputs = out if type(out) is tuple else (out,)
        for output in outputs:
            if not isinstance(output, Tensor) or output._view is not None or output._data.path:
                raise Unrecordable("it gives a view, or no tensor")
        nodes = _nodes_behind(outputs)
        self._places: dict[Any, int] = {node: i for i, node in enumerate(nodes)}
        results = [self._tensor(o._data, *self._history(o)) for o in outputs]
        if len(set(results)) < len(results):
            raise Unrecordable("it gives a tensor twice")
        noted = [self._noted(node) for node in nodes]
        calls = self.calls(structures, ())
        return Composite(
            calls, self.gives_operands, noted, self._made, tuple(results) if type(out) is tuple else results[0]
        )

    def _history(self, tensor: Tensor) -> tuple[int, int]:
        state = tensor._autograd
        if state is None or state.node is None:
            return -1, 0
        return self._places[state.node], state.index

    def _noted(self, node: OpNode) -> Noted:
        edges: list[tuple[int, int] | None] = []
        for edge in node.edges:
            if edge is None:
                edges.append(None)
            elif type(edge[0]) is AccumulateGrad:
                edges.append((~self._operand(edge[0].variable), 0))
            else:
                edges.append((self._places[edge[0]], edge[1]))
        saved = tuple([self._saved(s, node) for s in node.raw_values()])
        return Noted(type(node), tuple(edges), saved, node.argument_counts, node.metadata_of_inputs, node.formula)

    def _operand(self, tensor: Any) -> int:
        for i, stand_in in enumerate(self.stand_ins):
            if stand_in is tensor:
                return i
        raise Unrecordable("it makes a leaf of its own")

    def _saved(self, saved: Any, node: OpNode) -> Any:
        if type(saved) is tuple:
            return tuple([self._saved(s, node) for s in saved])
        if type(saved) is not SavedTensor:
            if isinstance(saved, Tensor):
                raise Unrecordable("it saves a tensor as it is")
            return saved
        if saved.leaf is not None and (saved.leaf.requires_grad or any([saved.leaf is t for t in self.stand_ins])):
            return OperandSaved(self._operand(saved.leaf))
        payload: LazyPayload = saved.payload
        if payload.storage.version != saved.version:
            raise Unrecordable("it writes into what it saved")
        for i, stand_in in enumerate(self.stand_ins):
            if payload.storage is stand_in._data.storage and not payload.path:
                return OperandSaved(i)
        history = (-1, 0)
        if saved.is_output:
            history = (self._places[node], saved.index)
        elif saved.history is not None:
            history = (self._places[saved.history[0]], saved.history[1])
        return ResultSaved(self._tensor(payload, *history), saved.is_output, saved.index)

    def _tensor(self, payload: LazyPayload, node: int, index: int) -> int:
        """The number of a tensor that is made."""
        storage = payload.storage
        key = (id(storage), payload.path, node, index)
        number = self._seen.get(key)
        if number is not None:
            return number
        for i, stand_in in enumerate(self.stand_ins):
            if storage is stand_in._data.storage:
                return self._add(key, self._view_of_operand(i, payload, node, index))
        if storage.device is not self.device:
            raise Unrecordable("it keeps what comes from elsewhere")
        base = self._bases.get(id(storage))
        is_view = bool(payload.path) or base is not None
        if base is None:
            mine = (-1, 0) if is_view else (node, index)
            recipe = Made(self._turn(storage.value), storage.order, -1, (), storage.type, None, *mine)
            base = self._bases[id(storage)] = self._add((id(storage), (), *mine), recipe)
        if not is_view:
            return base
        geometry = payload.geometry() if payload.path else None
        return self._add(key, Made(None, None, base, payload.path, payload.type, geometry, node, index))

    def _view_of_operand(self, number: int, payload: LazyPayload, node: int, index: int) -> Made:
        operand = self._operands[number]
        if operand.is_apart or not payload.path:
            raise Unrecordable("it keeps an operand, or a view of memory that was only read")
        view = ViewOfOperand(number, payload.path, operand)
        return Made(None, None, ~number, view.taken, view.type, view.geometry, node, index)

    def _add(self, key: Any, recipe: Made) -> int:
        self._seen[key] = len(self._made)
        self._made.append(recipe)
        return len(self._made) - 1


def _nodes_behind(outputs: Sequence[Tensor]) -> list[OpNode]:
    """The nodes of operators behind some tensors, the earliest first."""
    states = [t._autograd for t in outputs if t._autograd is not None]
    nodes: list[Any] = [
        node for node in nodes_behind([s.node for s in states if s.node is not None])
        if type(node) is not AccumulateGrad
    ]
    if any([not isinstance(n, OpNode) or n.tensor_hooks or n.pre_hooks or n.post_hooks for n in nodes]):
        raise Unrecordable("its history is more than operators")
    return sorted(nodes, key=lambda node: node.sequence)


class Composites:
    """The composites that were recorded for one device."""

    def __init__(self, device: LazyDevice) -> None:
        self._device = device
        self._recorded: set[Op] = set()
        self._failed: Counter[Op] = Counter()
        self.latest: Composite | None = None

    def run(self, rules: Rules, op: Op, args: Args) -> Any:
        """The operator's results, or NOT_RECORDED."""
        if op not in self._recorded and self._failed[op] >= HOPELESS:
            return NOT_RECORDED
        if op.effect not in ("pure", "raises") or default_hooks.stack or anomaly.enabled or modes.inference:
            return NOT_RECORDED
        operands = Operands()
        if not operands.look(self._device, args) or not operands.tensors:
            return NOT_RECORDED
        needs = tuple([t.requires_grad for t in operands.tensors]) if modes.grad else (False,) * len(operands.tensors)
        operands.looks.append(needs)
        composite: Composite | None = rules.find(op, operands.looks)
        if composite is NOT_RECORDED:
            composite = self._record(rules, op, args, operands, needs)
        if composite is None or not self._device.may_repeat(composite.calls):
            return NOT_RECORDED
        self.latest = composite
        return composite.replay(self._device, operands.tensors, rules.appended(composite, operands.values, ()))

    def _record(
        self, rules: Rules, op: Op, args: Args, operands: Operands, needs: tuple[bool, ...]
    ) -> Composite | None:
        if rules.is_full(op):
            return None
        recording = HistoryRecording(self._device.name, rules.make)
        before = modes.grad
        try:
            modes.grad = True in needs
            composite: Composite | None = recording.composite(
                op, args, rules.shown(operands), needs, rules.structures
            )
            self._recorded.add(op)
        except Exception:  # what is wrong is said where the operator runs as it is
            composite = None
            self._failed[op] += 1
        finally:
            modes.grad = before
        rules.keep(op, operands.looks, composite)
        return composite
