"""Symbolic tensors: operators on them are recorded, views are paths from a base, writes give the base another value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import maxsize
from typing import Any

import numpy as np

from weft.autograd.node import sequence_numbers
from weft.autograd.views import follow, path_from_base
from weft.functionalizer.memory_format import is_permuted, order_like, result_orders
from weft.functionalizer.recorder import Calls
from weft.functionalizer.storage import Order
from weft.functionalizer.views import refuse_repeated, refuse_write, show
from weft.functionalizer.writes import Path, replay, write_path
from weft.ir.builder import Handle, type_of_operand
from weft.ir.graph import Value, map_operand
from weft.ir.opaque import STOP_GRADIENT, WITH_HISTORY
from weft.ir.python_calls import before_calls
from weft.ops.geometry import Geometry
from weft.ops.layout import ordered
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.passes.stop_gradients import OutputOf
from weft.record.numbers.specialize import specialized
from weft.record.numbers.sym_float import SymFloat, is_lifted, operand_of
from weft.record.outside import GuardedState
from weft.record.recorder import GraphRecorder, refusal
from weft.record.restart import Restart
from weft.record.symbolic import Nodes, SymbolicPayload, SymbolicStorage
from weft.record.writes import Writes
from weft.support.errors import ShapeError
from weft.tensor.dense import is_dense
from weft.tensor.modes import modes, no_grad
from weft.tensor.subclass import retyped
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import view_of, views_of
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.relation import ShapeGuard
from weft.types.sym import SymInt, wrap
from weft.types.tensor_type import TensorType, tensor_type

ndarray = np.ndarray


class SymbolicTensors:
    """The functionalizer of a capture: its values are those of the graph. What a concrete tensor is, `outside` says."""

    def __init__(self, recorder: GraphRecorder, outside: GuardedState, writes: Writes) -> None:
        self.recorder, self.outside, self.writes = recorder, outside, writes
        self.payload_of = outside.payload_of
        self.arguments: list[Tensor] = []  # the stand-ins
        histories = recorder.histories
        histories.before, histories.is_detached, histories.value_of = self._before, outside.is_alias, self.operand
        histories.is_argument = lambda tensor: id(tensor) in outside.stand_ins

    # ---- operators
    def run(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Record an operator; tensors out."""
        if op.view is not None:
            return self._view(op, args)
        if op.view_if_captured:
            return self._view_at(op, *args)
        node = self.recorder.emit(op, args, self.operand(args))
        number = next((v.type for v in node.outputs if not isinstance(v.type, TensorType)), None)
        if number is not None:
            raise refusal(f"{op.base}() answers Python with {number}, which is only known when the program runs")
        is_placed = op.is_placed or is_permuted(args, self.recorder.env)
        orders = result_orders(op, args, self.recorder.env) if is_placed else ()
        if orders:
            tensors = tuple(self.fresh(v, o) for v, o in zip(node.outputs, orders, strict=True))
            return tensors if op.schema.returns_list or len(tensors) != 1 else tensors[0]
        if op.schema.returns_list or len(node.outputs) != 1:
            return tuple(self.fresh(v) for v in node.outputs)
        return self.fresh(node.output)

    def order_of(self, value: Any) -> Order | None:
        """The order in memory of a dense tensor's dims; None for row-major, for gaps and for what is no tensor."""
        return (
            order_like(value, self.recorder.env) if isinstance(value, Tensor) and is_permuted(value, self.recorder.env)
            else None
        )

    def lay_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """What a `*_like` factory made, in its source's order of dims."""
        order = self.order_of(source)
        return tensor if order is None else self.fresh(self.payload_of(tensor).read(), order)

    def run_numbers(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Record an operator whose only routable arguments are lifted numbers (a factory with a lifted value)."""
        args = specialized(self.outside.python_state, op, args)
        return self.run(op, args) if any(is_lifted(a) for a in args) else call(op, args)

    def check_types(self, op: Op, args: tuple[Any, ...]) -> None:
        """Ask a type rule, whose result nobody needs; it raises the errors of wrong types, sizes and numbers."""
        with shape_env.using(self.recorder.env):
            op.type(*map(_seen_by_rule, args))  # type: ignore[misc]

    # ---- tensors and operands
    def fresh(self, value: Value, order: Order | None = None) -> Tensor:
        """A tensor around a new graph value, with a storage of its own whose dims lie in this order
        (None: row-major)."""
        kind = value.tensor_type
        storage = SymbolicStorage(
            self.recorder, value, kind, None if order is None else ordered(kind.shape, order), order
        )
        if self.recorder.histories.made is not None:
            self.recorder.histories.note_made(storage)
        return self._tensor(SymbolicPayload(storage, (), kind), storage)

    def lift_fresh(self, tensor: Tensor) -> Tensor:
        """A tensor made from Python data inside the function: a constant of the program, fresh at every call."""
        return self.fresh(self.recorder.builder.constant(tensor._data.copy(order="C")))

    def _tensor(self, payload: SymbolicPayload, storage: Any) -> Tensor:
        out = tensor_around(payload)
        out._storage = storage
        return out

    def operand(self, value: Any) -> Any:
        """The operand of a Python argument."""
        if isinstance(value, Tensor):
            return self.payload_of(value).read()
        kind = type(value)
        if kind is tuple or kind is list:
            return tuple([self.payload_of(v).read() if isinstance(v, Tensor) else self.operand(v) for v in value])
        if kind is SymFloat or kind is SymInt:
            return map_operand(operand_of(value), self.recorder.values)  # (a block that is run again has its own)
        if kind is Handle:
            return self.recorder.values.get(value.value, value.value)
        if kind is ndarray:
            return self.recorder.builder.constant(value)
        return value

    def symbolic_argument(
        self, tensor: Tensor, name: str, dims: tuple[Any, ...], permutation: tuple[int, ...] | None,
        geometry: Geometry | None = None, expanded: tuple[Any, ...] | None = None,
    ) -> Tensor:
        """The stand-in of a tensor argument: a parameter with these dims; `permutation` when the bytes lie in another
        order of dims; `geometry` when the caller's memory has gaps (the program gets a row-major copy); `expanded`:
        the dims that it shows of a parameter of size 1 there.
        """
        dtype = tensor.dtype
        if permutation is None:
            kind = tensor_type(dtype, dims)
            storage = SymbolicStorage(self.recorder, self.recorder.builder.param(kind, name), kind, geometry)
            storage.param = len(self.recorder.builder.params) - 1
            out = self._tensor(SymbolicPayload(storage, (), kind), storage)
        else:
            order = tuple(sorted(range(len(dims)), key=permutation.__getitem__))
            base_dims = tuple(dims[d] for d in order)
            kind = tensor_type(dtype, base_dims)
            storage = SymbolicStorage(self.recorder, self.recorder.builder.param(kind, name), kind)
            storage.param = len(self.recorder.builder.params) - 1
            base = self._tensor(SymbolicPayload(storage, (), kind), storage)
            out = self.run(aten.permute.default.op, (base, permutation))
        if expanded is not None:
            out = self.run(aten.expand.default.op, (out, expanded, False))
        out._view = None
        if type(tensor) is not Tensor:
            self.outside.note_class(type(tensor))
            out = retyped(out, type(tensor))
        self.outside.stand_ins[id(out)] = tensor
        self.arguments.append(out)
        self.outside.python_state.keep(out)
        return out

    # ---- histories
    def note_history(self, out: Any) -> None:
        """The tensors that a call gave have the history of the values that they have now."""
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            data = tensor._data if isinstance(tensor, Tensor) else None
            if type(data) is SymbolicPayload:
                self.recorder.histories.note_given(tensor, data.read() if data.path else data.storage.value)

    def note_view(self, op: Op, args: tuple[Any, ...], node: Any, out: Any) -> None:
        """A view operator gave views with this history. What a custom Function gave, and views of it, have that of its
        call, where others of the same memory need not."""
        histories, (edge, *_) = self.recorder.histories, node.edges
        views = out if isinstance(out, (tuple, list)) else (out,)
        if self.recorder.depth or edge is None or self.has_wrappers((args[0], *views)):
            return
        histories.note_views(node, views)
        note = histories.own_history(edge)
        if note is not False:
            source = self.payload_of(args[0])
            seen = self.fresh(self._seen(source.read(), note), source.storage.order if not source.path else None)
            with no_grad():
                again = call(op, (seen, *args[1:]))
            outputs = again if isinstance(again, (tuple, list)) else (again,)
            histories.note_views_of_call(node, [self.operand(x) for x in outputs])

    def note_function(self, node: Any, inputs: Sequence[Tensor], outputs: Sequence[Any]) -> None:
        """A custom Function was called with these tensors. Within blocks, and of wrappers, nothing is noted."""
        if self.recorder.depth == 0 and not self.has_wrappers((*inputs, *outputs)):
            self.recorder.histories.note_function(
                node, [(x, self.operand(x)) for x in inputs],
                [self.operand(x) if isinstance(x, Tensor) else None for x in outputs],
            )

    def has_wrappers(self, values: Sequence[Any]) -> bool:
        """Whether some are tensors that are no values of the graph."""
        return any(
            isinstance(x, Tensor) and type(x._data) is not SymbolicPayload and not is_dense(x) for x in values
        )

    def _before(self, tensor: Tensor) -> Value | OutputOf | bool:
        """What a leaf or a view shows of the value that it, or its base, has the history of: that at the beginning for
        what is from outside. True for a leaf that the function made, whose gradients end there; False where the value
        is that of now."""
        state, shown = tensor._autograd, self.payload_of(tensor)
        storage = shown.storage
        is_there = id(tensor) in self.outside.stand_ins or self.outside.is_outside(tensor)
        if not is_there and state is not None and state.requires_grad and state.node is None:
            return True
        param = storage.param if storage.slot is None else storage.slot.param
        begun = None if param is None else self.recorder.root.params[param]
        if begun is before_calls(storage.value):
            return False
        view = tensor._view
        then = False if view is None or tensor._node is None else self.recorder.histories.behind(view.base)
        if view is not None and type(then) is Value:
            base = self.payload_of(view.base)
            shows_that = then is base.read()
            return not shows_that and self.operand(
                follow(self.fresh(then, base.storage.order), path_from_base(tensor))
            )
        if view is not None and type(then) is OutputOf:
            base = self.payload_of(view.base)
            seen = self.fresh(self._seen(base.read(), then), base.storage.order)
            return self.operand(follow(seen, path_from_base(tensor)))  # type: ignore[no-any-return]
        if then is True or not is_there or begun is None:
            return then
        return replay(Nodes(self.recorder.builder, {}), begun, shown.path)

    def of_formula(self, gradients: Iterable[Any]) -> list[Any]:
        """What a formula gave, for what follows it: no gradient flows through what it computed without history."""
        return [self._of_formula(g) if isinstance(g, Tensor) else g for g in gradients]

    def _of_formula(self, tensor: Tensor) -> Tensor:
        value = self.operand(tensor)
        note = self.recorder.histories.of_formula(tensor, value)
        return self.fresh(self._seen(value, True), self.order_of(tensor)) if note is True else tensor

    # ---- views
    def _view(self, op: Op, args: tuple[Any, ...]) -> Any:
        source: Tensor = args[0]
        payload = self.payload_of(source)
        storage = payload.storage
        rest = tuple(operand_of(a) for a in args[1:])
        is_free = op.view is not None and op.view.is_free
        param = None if storage.slot is not None else storage.param
        if is_free and param is not None:
            self.recorder.by_memory.add(param)
        try:
            shown = show(op, payload, rest, self.recorder.env)
        except ShapeError:
            if param in self.outside.argument_keys and (is_free or op.type is not None):
                # what it asks for may be so in the argument's memory
                raise Restart(static={self.outside.argument_keys[param]}) from None
            raise
        if shown.results is None:
            return self._copy_of_view(op, payload, rest, shown.questions)
        storage.questions.extend(shown.questions)
        views = [SymbolicPayload(storage, path, kind, g) for path, kind, g in shown.results]
        out = views_of(source, source.storage(), views, op, rest)
        if self.recorder.histories.made is not None and self.recorder.depth == 0:
            self._note_views_of_formula(op, source, rest, out)
        return out

    def _note_views_of_formula(self, op: Op, source: Tensor, rest: tuple[Any, ...], out: Any) -> None:
        """Where a formula records no nodes of autograd: its views have the history that their source has."""
        histories, views = self.recorder.histories, out if isinstance(out, (tuple, list)) else (out,)
        value = self.operand(source)
        note = histories.of_formula(source, value)
        if modes.grad is False and histories.in_grad_mode:
            note = True
        if note is True or note is False:
            notes = [note] * len(views)
        else:
            seen = self.fresh(self._seen(value, note))
            with no_grad():
                again = call(op, (seen, *rest))
            notes = [self.operand(x) for x in (again if isinstance(again, (tuple, list)) else (again,))]
        histories.note_views_of_formula(views, notes)

    def _view_at(self, op: Op, source: Tensor, dim: int, index: Tensor) -> Tensor:
        """The view of a slice at a place that is known when the program runs: a symbol for where it starts."""
        # later writes to the index do not move the view
        payload, place = self.payload_of(source), self.fresh(self.operand(index))
        g = payload.geometry()
        start = self.recorder.env.fresh("u")
        size = wrap(g.dims[dim], self.recorder.env)
        counted = place if place.dtype is dt.int64 else place.to(dt.int64)
        self.recorder.run_time[str(start)] = self.operand(
            aten.checked_index(aten.where(counted < 0, counted + size, counted), size)
        )
        shown = Geometry(
            (*g.dims[:dim], *g.dims[dim + 1 :]), (*g.strides[:dim], *g.strides[dim + 1 :]),
            g.offset + start * g.strides[dim],
        )
        kind = tensor_type(payload.type.dtype, shown.dims)
        view = SymbolicPayload(
            payload.storage, (*payload.path, (op, (dim, self.operand(place)), 0)), kind, shown
        )
        return view_of(source, source.storage(), view, op, (dim, place), 0)

    def _copy_of_view(self, op: Op, payload: SymbolicPayload, rest: tuple[Any, ...], asked: list[ShapeGuard]) -> Tensor:
        out = self.fresh(self.recorder.builder.emit(op, (payload.read(), *rest)).output)
        if asked:
            out._storage.questions.extend(asked)
            out._storage.partner = payload.storage
            payload.storage.questions.extend(asked)
        return out

    # ---- writes
    def write(self, op: Op, args: tuple[Any, ...]) -> None:
        """An in-place operator: its functional value goes into the base."""
        self.recorder.end_repeats()
        target: Tensor = args[0]
        payload = self.payload_of(target)
        geometry = payload.storage.geometry
        if payload.storage.has_gaps and geometry is not None and (payload.path or not op.is_splat):
            refuse_repeated(geometry, True)
        if payload.path:
            refuse_write(op, payload)
        # opened here: drawing moves the generator on, in Python's order
        if op.effect == "random" and op.decompose is not None:
            drawn: Value = self.operand(op.decompose(*args))
            self.store(target, payload, drawn)
            return
        node = self.recorder.emit(op, args, self.operand(args))
        history = self.recorder.histories.of_base(target) if node in self.recorder.histories.of else False
        self.store(target, payload, node.output, op.is_splat, history)

    def store(
        self, target: Tensor, payload: SymbolicPayload, value: Value, is_splat: bool = False,
        history: Value | OutputOf | bool = False,
    ) -> None:
        """Put a value where a tensor lies. is_splat: all of its elements are equal (a splat). history: of a value with
        one, what would be noted of an operand that shows the base."""
        self.recorder.end_repeats()
        storage = payload.storage
        if storage.doubles:
            storage.part_ways()
        if self.recorder.open:
            self.recorder.open[-1].note(target, payload)
        if payload.path or value.tensor_type.dtype is not payload.type.dtype:
            value = self._written(payload, value, is_splat, history)
        if not storage.goes_on:
            self.recorder.overwritten[storage.value] = maxsize if storage.is_outside else next(sequence_numbers)
        storage.write(value)
        if storage.slot is not None:
            storage.slot.written = True
        self.writes.note(target)

    def _written(
        self, payload: SymbolicPayload, value: Value, is_splat: bool, history: Value | OutputOf | bool
    ) -> Value:
        """The value of a whole storage with another one where a view of it lies."""
        base = payload.storage.value
        if history is not False:
            base = self._seen(base, history)
        with self.recorder.builder.active():
            new = Handle(value, self.recorder.builder)
            if value.tensor_type.dtype is not payload.type.dtype:
                new = aten._to_copy(new, payload.type.dtype)
            whole: Handle = write_path(
                Calls(), Handle(base, self.recorder.builder), self._handled(payload.path), new, is_splat)
        return whole.value

    def _seen(self, value: Value, note: Value | OutputOf | bool) -> Value:
        """A value with the history that would be noted of an operand that shows it."""
        if note is True:
            return self.recorder.builder.emit(STOP_GRADIENT, (value,)).output
        earlier = note if type(note) is Value else value
        node = self.recorder.builder.emit(WITH_HISTORY, (value, earlier), variant=note)
        if type(note) is OutputOf:
            self.recorder.histories.of[node] = (False, note)
        return node.output

    def _handled(self, path: Path) -> Path:
        """A path whose values are operators' arguments."""
        return tuple([
            (op, tuple([Handle(a, self.recorder.builder) if type(a) is Value else a for a in args]), index)
            for op, args, index in path
        ])


def _seen_by_rule(value: Any) -> Any:
    """What a type rule sees of an argument: sizes and numbers as symbols."""
    if isinstance(value, Tensor):
        return value.type_
    return tuple(map(_seen_by_rule, value)) if type(value) is tuple else type_of_operand(operand_of(value))
