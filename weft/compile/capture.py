"""Capture: the mode in which operators on tensors are recorded into a builder instead of computed.

Writes become scatters into the base's value; concrete tensors become state inputs by storage; backward is recorded through opaque calls.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from weft.autograd import engine
from weft.autograd.hooks import hooks_on, keep_hooks
from weft.autograd.views import write_path
from weft.compile.blocks.memory import OpenBlock
from weft.compile.evaluator import OpaqueEvaluator
from weft.compile.layout import is_permuted, order_like, ordered, result_orders
from weft.compile.lifted import LiftedNumbers
from weft.compile.miss_text import LOCATED
from weft.compile.numbers import SymFloat, is_lifted, operand_of
from weft.compile.random_state import RandomState
from weft.compile.state import StateSlot, choose_base, type_of_array
from weft.compile.symbolic import Order, Path, SymbolicPayload, SymbolicStorage
from weft.compile.wrapper_state import WrapperState
from weft.ir.builder import Builder, Handle
from weft.ir.graph import Operand, Value
from weft.ops.geometry import Geometry, contiguous, within
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.ops.route import call, default_route
from weft.support.errors import CaptureError, ShapeError, StateError, WeftError
from weft.support.locations import Location, is_internal, user_location
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dims, shape_env
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.shape_env import ShapeEnv
from weft.types.sym import SymInt, wrap
from weft.types.tensor_type import TensorType, tensor_type

ndarray = np.ndarray
_SELECT_AT = OPS["aten::select_at"]




_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python\d[\d.]*)[/\\]|^<frozen")


def _raised_at(error: BaseException) -> Location | None:
    """The user's line that led to an error: the innermost frame of its traceback that is neither weft's nor a library's."""
    found, step = None, error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not is_internal(file) and not _LIBRARY.search(file):
            found = Location(file, step.tb_lineno)
        step = step.tb_next
    return found


class _Identities:
    """A set of objects by identity (tensors compare element by element)."""

    def __init__(self, ids: set[int]) -> None:
        self.ids = ids

    def __contains__(self, value: object) -> bool:
        return id(value) in self.ids


class Capture(LiftedNumbers, WrapperState):
    """One run of a function with symbolic tensors."""

    def __init__(self, name: str, env: ShapeEnv | None = None) -> None:
        self.env = env or ShapeEnv()
        self.builder = Builder(name, self.env)
        self.builder.track_locations = True
        self.root = self.builder  # has the parameters; `builder` is that of the innermost open block
        self.depth = 0  # how many blocks are open
        self.open: list[OpenBlock] = []
        self.values: dict[Value, Operand] = {}  # in the backward of a block: what stands for the values of the forward one
        self.lengths: dict[Value, Dim] = {}  # by the number of steps of a loop: how many rows it stacks
        self.states: dict[int, StateSlot] = {}
        self.wants_grad: dict[int, tuple[Tensor, bool, Location | None]] = {}
        self.stand_ins: dict[int, Tensor] = {}
        self.evaluator = OpaqueEvaluator(self)
        self.makers: dict[tuple[int, str], Callable[[Tensor], Tensor]] = {}  # by parameter and name: how an optimizer makes state that is missing
        self.by_memory: set[int] = set()  # arguments that as_strided looks at: their whole memory counts, not only the elements that they show
        self.run_time: dict[str, Value] = {}  # symbols bound while the program runs, of which a 0-dim value is known
        self._versions: list[tuple[Any, int]] = []  # for each write, the storage and its version before
        self._histories: list[tuple[Tensor, Any, Location | None]] = []
        self._hooked: dict[int, tuple[Tensor, Any, Location | None]] = {}
        self._undo: list[Callable[[], None]] = []
        self._keep: list[Any] = []
        self._sources: dict[int, Tensor] = {}  # of detached tensors made in the function, by id: the tensor from outside
        self.random: list[RandomState] = []
        LiftedNumbers.__init__(self)
        WrapperState.__init__(self)

    # ---- the mode
    @contextmanager
    def active(self) -> Iterator[Capture]:
        """Record what runs inside. After an exception, everything touched is as before."""
        previous = modes.capture
        modes.capture = self
        try:
            with shape_env.using(self.env), engine.install(self.evaluator):
                yield self
        except BaseException as error:
            self.roll_back()
            if isinstance(error, WeftError):
                self._explain(error, _raised_at(error))
            raise
        finally:
            modes.capture = previous
            self.settle_numbers()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Compute for real within a block (optimizer state is made this way)."""
        previous, env = modes.capture, shape_env.current_env()
        modes.capture = None
        try:
            with shape_env.using(None):
                yield
        finally:
            modes.capture = previous
            del env

    def restore(self) -> None:
        """Put versions and histories of concrete tensors back: the program that was captured will act, the capture has not."""
        self.return_borrowed()
        for storage, by in self.raised().values():
            storage.version -= by  # (other threads may have raised it meanwhile)
        self._versions.clear()
        for tensor, state, _ in reversed(self._histories):
            tensor._autograd = state

    def roll_back(self) -> None:
        """Undo everything the capture did, optimizer state made meanwhile included."""
        self.restore()
        for undo in reversed(self._undo):
            undo()

    def on_roll_back(self, undo: Callable[[], None]) -> None:
        """Call `undo` should the capture fail."""
        self._undo.append(undo)

    @contextmanager
    def block(self) -> Iterator[tuple[Builder, OpenBlock]]:
        """Record into a nested block. What it writes of outer memory is undone where it ends."""
        outer, values = self.builder, self.values
        with outer.inner() as inner:
            inner.track_locations = outer.track_locations
            self.builder = inner
            self.depth += 1
            self.open.append(OpenBlock(self))
            try:
                yield inner, self.open[-1]
            finally:
                self.open.pop().undo()
                self.builder, self.values = outer, values
                self.depth -= 1

    def length_of(self, trip: Operand) -> Dim:
        """How many rows a loop of so many steps stacks."""
        if not isinstance(trip, Value):
            return trip  # type: ignore[no-any-return]
        found = self.lengths.get(trip)
        if found is None:
            found = self.lengths[trip] = self.env.fresh("u")
        return found

    # ---- operators
    def run(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Record an operator; tensors out."""
        if op.view is not None:
            return self._view(op, args)
        if op is _SELECT_AT:
            return self._select_at(*args)
        node = self.builder.emit(op, self.operand(args))
        if node.outputs and not isinstance(node.outputs[0].type, TensorType):
            raise self.refuse(f"{op.base}() answers Python with {node.outputs[0].type}, which is only known when the program runs")
        orders = self._orders(op, args) if is_permuted(args, self.env) else ()
        if orders:
            made = tuple(self.fresh(v, o) for v, o in zip(node.outputs, orders, strict=True))
            return made if op.schema.returns_list or len(made) != 1 else made[0]
        if op.schema.returns_list or len(node.outputs) != 1:
            return tuple(self.fresh(v) for v in node.outputs)
        return self.fresh(node.output)

    def _orders(self, op: Op, args: tuple[Any, ...]) -> tuple[Order | None, ...]:
        """The order of dims that each result has in eager."""
        grad, modes.grad = modes.grad, False
        try:
            with self.paused():
                return result_orders(op, args, self.env)
        finally:
            modes.grad = grad

    def order_of(self, value: Any) -> Order | None:
        """The order in memory of a dense tensor's dims; None for row-major, for gaps and for what is no tensor."""
        return order_like(value, self.env) if isinstance(value, Tensor) and is_permuted(value, self.env) else None

    def lay_out_like(self, made: Tensor, source: Tensor) -> Tensor:
        """What a `*_like` factory made, in its source's order of dims."""
        order = order_like(source, self.env) if is_permuted(source, self.env) else None
        return made if order is None else self.fresh(self.payload_of(made).read(), order)

    def run_numbers(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Record an operator whose only routable arguments are lifted numbers (a factory with a lifted value)."""
        if op.base == "arange":  # how long it is hangs on the values
            args = tuple([float(a) if type(a) is SymFloat else a for a in args])
        return self.run(op, args) if any(is_lifted(a) for a in args) else call(op, args)

    def fresh(self, value: Value, order: Order | None = None) -> Tensor:
        """A tensor around a new graph value, with a storage of its own whose dims lie in this order (None: row-major)."""
        kind = value.tensor_type
        storage = SymbolicStorage(self, value, kind, None if order is None else ordered(kind.shape, order))
        storage.order = order
        return self._tensor(SymbolicPayload(storage, (), kind), storage)

    def _tensor(self, payload: SymbolicPayload, storage: Any) -> Tensor:
        out = Tensor(payload)
        out._storage = storage
        return out

    def operand(self, value: Any) -> Any:
        """The operand of a Python argument."""
        if isinstance(value, Tensor):
            return self.payload_of(value).read()
        kind = type(value)
        if kind is tuple or kind is list:
            return tuple([self.operand(v) for v in value])
        if kind is SymFloat or kind is SymInt:
            return operand_of(value)
        if kind is Handle:
            return self.values.get(value.value, value.value)
        if kind is ndarray:
            return self.builder.constant(value)
        return value

    def payload_of(self, tensor: Tensor) -> SymbolicPayload:
        """The symbolic payload of a tensor; a concrete one becomes a state input."""
        data = tensor._data
        if type(data) is not SymbolicPayload:
            return self._state_payload(tensor)
        if data.storage.capture is not self:
            data.materialize("its value")
        return data

    # ---- views
    def _view(self, op: Op, args: tuple[Any, ...]) -> Any:
        from weft.layers.eager import view_of  # the one place that says what a view remembers

        source: Tensor = args[0]
        payload = self.payload_of(source)
        rest = tuple(operand_of(a) for a in args[1:])
        asked: dict[Any, Any] = {}
        shape = self._geometry(op, payload, rest, asked)
        if shape is None:
            return self._copy_of_view(op, payload, rest, asked)
        shapes = shape if isinstance(shape, tuple) else (shape,)
        made = []
        for i, g in enumerate(shapes):
            kind = tensor_type(self._view_dtype(op, payload, rest), g.dims)
            path = self._from_base(op, payload, g) if op.base == "as_strided" else self._path(op, payload, rest, i)
            view = SymbolicPayload(payload.storage, path, kind, g)
            made.append(view_of(source, source.storage(), view, op, rest, i))
        if asked:
            payload.storage.questions.extend(asked.values())
        return tuple(made) if isinstance(shape, tuple) else made[0]

    def _select_at(self, source: Tensor, dim: int, index: Tensor) -> Tensor:
        """The view of a slice at a place that is known when the program runs: a symbol for where it starts."""
        from weft.layers.eager import view_of  # the one place that says what a view remembers

        payload, place = self.payload_of(source), self.fresh(self.operand(index))  # later writes to the index do not move the view
        g = payload.geometry()
        start = self.env.fresh("u")
        size = wrap(g.dims[dim], self.env)
        counted = place if place.dtype is dt.int64 else place.to(dt.int64)
        self.run_time[str(start)] = self.operand(aten.checked_index(aten.where(counted < 0, counted + size, counted), size))
        shown = Geometry((*g.dims[:dim], *g.dims[dim + 1 :]), (*g.strides[:dim], *g.strides[dim + 1 :]), g.offset + start * g.strides[dim])
        kind = tensor_type(payload.type.dtype, shown.dims)
        view = SymbolicPayload(payload.storage, (*payload.path, (_SELECT_AT, (dim, self.operand(place)), 0)), kind, shown)
        return view_of(source, source.storage(), view, _SELECT_AT, (dim, place), 0)

    def _path(self, op: Op, payload: SymbolicPayload, rest: tuple[Any, ...], index: int) -> Path:
        """The path to a view. Where the storage's dims have an order of their own, a view in other dims is a reshape to whoever lays the value out anew."""
        if payload.storage.order is not None and op.base == "view" and not op.schema.overload:
            op = OPS["aten::reshape"]
        return *payload.path, (op, rest, index)

    def _from_base(self, op: Op, payload: SymbolicPayload, shown: Geometry) -> Path:
        """The path of as_strided, which speaks of the storage: its base shown so, whatever views there were on the way."""
        if payload.storage.order is not None:
            raise self.refuse("as_strided of a tensor whose dims do not lie row-major in memory; take it from x.contiguous()")
        return ((op, (shown.dims, shown.strides, shown.offset), 0),)

    def _view_dtype(self, op: Op, payload: SymbolicPayload, rest: tuple[Any, ...]) -> Any:
        if op.type is None:
            return payload.type.dtype
        result = op.type(payload.type, *rest)
        return (result[0] if isinstance(result, tuple) else result).dtype

    def _geometry(self, op: Op, payload: SymbolicPayload, rest: tuple[Any, ...], asked: dict[Any, Any]) -> Any:
        """The view's geometry. For reshape, which may copy, what was asked about strides matters only if an alias is written later."""
        assert op.view is not None
        if op.base == "as_strided":
            shown, start = op.view.geometry(payload.geometry(), *rest), payload.geometry().offset
            return self._within(payload.storage, shown if rest[2] is None else replace(shown, offset=shown.offset + start))
        if op.base != "reshape":
            return op.view.geometry(payload.geometry(), *rest)
        op.view.geometry(contiguous(payload.geometry().dims), *rest)  # sizes must fit in any case: these questions are guards
        known = dict(self.env.guards)
        shape = op.view.geometry(payload.geometry(), *rest)
        for relation, guard in list(self.env.guards.items()):
            if relation not in known:
                asked[relation] = guard
                del self.env.guards[relation]
        return shape

    def _within(self, storage: SymbolicStorage, g: Geometry) -> Geometry:
        """A geometry that names its own strides, once it is asked whether it stays within the storage."""
        if storage.param is not None and storage.slot is None:
            self.by_memory.add(storage.param)
        return within(g, dims.product(storage.type.shape))

    def _copy_of_view(self, op: Op, payload: SymbolicPayload, rest: tuple[Any, ...], asked: dict[Any, Any]) -> Any:
        if op.base == "view":
            raise ShapeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). "
                "Use .reshape(...) instead."
            )
        node = self.builder.emit(op, (payload.read(), *rest))
        out = self.fresh(node.output)
        if asked:
            out._storage.questions.extend(asked.values())
            out._storage.partner = payload.storage
            payload.storage.questions.extend(asked.values())
        return out

    # ---- writes
    def write(self, op: Op, args: tuple[Any, ...]) -> None:
        """An in-place operator: its functional value goes into the base."""
        target: Tensor = args[0]
        payload = self.payload_of(target)
        if payload.storage.param is not None and not payload.storage.is_row_major and (payload.path or op.base not in ("fill", "zero")):
            self._refuse_repeated(payload.storage.geometry)
        if payload.path and op.base not in ("fill", "zero"):
            g = payload.geometry()
            self._refuse_repeated(Geometry(g.dims, tuple([0 if stride == 0 else 1 for stride in g.strides])))  # (what is 0 by structure: no question)
        if op.effect == "random" and op.decompose is not None:  # opened here: drawing moves the generator on, in Python's order
            drawn: Value = self.operand(op.decompose(*args))
            self.store(target, payload, drawn)
            return
        node = self.builder.emit(op, self.operand(args))
        self.store(target, payload, node.output)

    def _refuse_repeated(self, shown: Geometry | None) -> None:
        """An argument that shows elements several times is not written, as in eager mode (one value for all of them is no harm)."""
        if shown is not None and any(shape_env.equal(stride, 0) and not shape_env.equal(dim, 1) for dim, stride in zip(shown.dims, shown.strides, strict=True)):
            raise StateError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor "
                "before performing the operation."
            )

    def store(self, target: Tensor, payload: SymbolicPayload, value: Value) -> None:
        """Put a value where a tensor lies."""
        storage = payload.storage
        if self.open:
            self.open[-1].note(target, payload)
        with self.builder.active():
            new = Handle(value, self.builder)
            if value.tensor_type.dtype is not payload.type.dtype:
                new = aten._to_copy(new, payload.type.dtype)
            whole = write_path(Handle(storage.value, self.builder), self._handled(payload.path), new)
        storage.set(whole.value)
        if storage.slot is not None:
            storage.slot.written = True
        self._remember_history(target)
        self._raise_version(target)

    def _handled(self, path: Path) -> Path:
        """A path whose values are operators' arguments."""
        return tuple([(op, tuple([Handle(a, self.builder) if type(a) is Value else a for a in args]), index) for op, args, index in path])

    def _remember_history(self, target: Tensor) -> None:
        """What a write may change about tensors that exist outside of the function: their history."""
        for tensor in (target,) if target._view is None else (target, target._view.base):
            if type(tensor._data) is ndarray:
                self._histories.append((tensor, copy.copy(tensor._autograd), user_location(3)))

    def refuse_histories(self) -> None:
        """A tensor from outside must not come out of the call with a history: the program keeps none. Raises CaptureError."""
        for tensor, before, where in self._histories:
            node = None if tensor._autograd is None else tensor._autograd.node
            if node is not (None if before is None else before.node):
                raise CaptureError(
                    f"{where}: a compiled function writes a value that requires grad into a tensor of shape {list(tensor.shape)} that exists outside "
                    "of it; the tensor would keep the history of this call. Write value.detach(), or write within weft.no_grad()."
                )

    def note_hooks(self, tensor: Tensor) -> None:
        """A hook is about to be registered: one on a tensor from outside must be gone when the function ends.

        Raises CaptureError within a block for a tensor made outside of it: whether there is a hook would hang on a value.
        """
        if self.depth and self.payload_of(tensor).storage.depth < self.depth:
            raise self.refuse(
                "a branch or loop body registers a hook on a tensor that was made outside of it; register it outside, or on a tensor made in the body"
            )
        if (type(tensor._data) is ndarray or id(tensor) in self.stand_ins) and id(tensor) not in self._hooked:
            before = hooks_on(tensor)
            self._hooked[id(tensor)] = (tensor, before, user_location(3))
            self.on_roll_back(lambda: keep_hooks(tensor, before))

    def refuse_hooks(self) -> None:
        """Raises CaptureError for a hook that the function leaves on a tensor from outside: later calls would not register it."""
        for tensor, before, where in self._hooked.values():
            if hooks_on(tensor) != before:
                raise CaptureError(
                    f"{where}: a compiled function registers a hook on a tensor of shape {list(tensor.shape)} that exists outside of it; later calls "
                    "would not register it again. Register it outside, or remove it before the function ends."
                )

    def keeps_data(self, tensor: Tensor, value: Tensor) -> bool:
        """Whether `tensor.data = value` leaves a tensor from outside the memory that it has, as `tensor.data -= x` does (which wrote before it assigns).

        Raises CaptureError if it would have other memory.
        """
        if type(tensor._data) is not ndarray and id(tensor) not in self.stand_ins:
            return False
        mine, other = self.payload_of(tensor), self.payload_of(value)
        if other.storage is not mine.storage or other.path != mine.path:
            raise self.refuse(
                f"a compiled function gives a tensor of shape {list(tensor.shape)} that exists outside of it other memory; write into it with "
                "tensor.copy_(value) within weft.no_grad()"
            )
        return True

    def _raise_version(self, target: Tensor) -> None:
        counted = target._storage
        self._versions.append((counted, counted.version))
        counted.version += 1

    @property
    def written(self) -> int:
        """How many writes to tensors that exist outside of the function there were."""
        return len(self._histories)

    def forget_writes(self, counters: Sequence[tuple[Any, int]], written: int) -> None:
        """Put counters back to earlier versions: the writes since then, after `written` others, are made elsewhere."""
        del self._histories[written:]
        kept = {id(counted): version for counted, version in counters}
        self._versions = [(counted, before) for counted, before in self._versions if before < kept.get(id(counted), before + 1)]
        for counted, version in counters:
            counted.version = version

    def raised(self) -> dict[int, tuple[Any, int]]:
        """By how much the function raises versions: for each storage, by id, the storage and the difference."""
        found: dict[int, tuple[Any, int]] = {}
        for storage, _ in self._versions:
            found[id(storage)] = (storage, found.get(id(storage), (storage, 0))[1] + 1)
        return found

    def has_written(self, storage: Any, version: int) -> bool:
        """Whether the function itself wrote a storage since it had that version, not a call in another thread."""
        return any(counted is storage and before >= version for counted, before in self._versions)

    def keep_version(self, storage: Any) -> None:
        """A version counter that is about to be raised once while the function is captured is put back: the program will act, the capture has not."""
        self._versions.append((storage, storage.version))

    # ---- state
    def _state_payload(self, tensor: Tensor) -> SymbolicPayload:
        if id(tensor) not in self.wants_grad:
            self.wants_grad[id(tensor)] = (tensor, tensor.requires_grad, user_location(3))
        storage = tensor.storage()
        key = storage.address if storage.nbytes else id(storage)
        source = self._sources.get(id(tensor), tensor)
        slot = self.states.get(key)
        if slot is None:
            slot = self._new_state(source)
            self.states[key] = slot
        elif slot.leaf is not None and not self._is_argument(source, slot):
            slot.is_fixed = True  # an argument's memory that the function also reaches from elsewhere
        slot.members.setdefault(id(source), (source, source._data))
        return self._over_slot(tensor, slot)

    def note_alias(self, alias: Tensor, source: Tensor) -> None:
        """A detached tensor that the function made of one from outside: whoever asks where it lies asks for the source."""
        self._sources[id(alias)] = self._sources.get(id(source), source)
        self._keep.append(alias)

    def is_alias(self, tensor: Tensor) -> bool:
        """Whether the function made a tensor by detaching one from outside."""
        return id(tensor) in self._sources

    def _is_argument(self, tensor: Tensor, slot: StateSlot) -> bool:
        """Whether a concrete tensor is one of the arguments that show a storage, or was made from one inside the function."""
        return tensor in self.arguments_over(slot) or (tensor._view is not None and tensor._view.base in self.arguments_over(slot))

    def arguments_over(self, slot: StateSlot) -> _Identities:
        """The arguments that show a storage."""
        return _Identities(slot.own)

    def _new_state(self, tensor: Tensor) -> StateSlot:
        if type(tensor._data) is not ndarray:
            raise self.refuse(f"a tensor of shape {list(tensor.shape)} on the {tensor.device} device has no values that a compiled function could read")
        array, is_flat = choose_base(tensor)
        kind = type_of_array(array)
        value = self.root.param(kind, f"state{len(self.states)}")
        symbolic = SymbolicStorage(self, value, kind, contiguous(array.shape))
        symbolic.builder, symbolic.depth = self.root, 0
        slot = StateSlot(tensor.storage(), tensor, array, symbolic, len(self.root.params) - 1, is_flat)
        symbolic.slot = slot
        self._keep.append(tensor)
        return slot

    def _over_slot(self, tensor: Tensor, slot: StateSlot) -> SymbolicPayload:
        data = tensor._data
        kind = type_of_array(data)
        if data.shape == slot.array.shape and data.flags.c_contiguous and data.dtype == slot.array.dtype:
            return SymbolicPayload(slot.symbolic, (), kind)
        size = data.dtype.itemsize
        strides = tuple(s // size for s in data.strides)
        offset = tensor.storage().offset_of(data)
        step = (OPS["aten::as_strided"], (tuple(data.shape), strides, offset), 0)
        return SymbolicPayload(slot.symbolic, (step,), kind, Geometry(data.shape, strides, offset))

    def lift_fresh(self, tensor: Tensor) -> Tensor:
        """A tensor made from Python data inside the function: a constant of the program, fresh at every call."""
        return self.fresh(self.builder.constant(tensor._data.copy(order="C")))

    # ---- arguments
    def symbolic_argument(
        self, tensor: Tensor, name: str, dims: tuple[Any, ...], permutation: tuple[int, ...] | None, geometry: Geometry | None = None,
        expanded: tuple[Any, ...] | None = None,
    ) -> Tensor:
        """The stand-in of a tensor argument: a parameter with these dims; `permutation` when the bytes lie in another order of dims; `geometry`
        when the caller's memory has gaps (the program gets a row-major copy); `expanded`: the dims that it shows of a parameter of size 1 there."""
        dtype = tensor.dtype
        if permutation is None:
            kind = tensor_type(dtype, dims)
            storage = SymbolicStorage(self, self.builder.param(kind, name), kind, geometry)
            storage.param = len(self.builder.params) - 1
            out = self._tensor(SymbolicPayload(storage, (), kind), storage)
        else:
            order = tuple(sorted(range(len(dims)), key=permutation.__getitem__))
            base_dims = tuple(dims[d] for d in order)
            kind = tensor_type(dtype, base_dims)
            storage = SymbolicStorage(self, self.builder.param(kind, name), kind)
            storage.param = len(self.builder.params) - 1
            base = self._tensor(SymbolicPayload(storage, (), kind), storage)
            out = self.run(OPS["aten::permute"], (base, permutation))
        if expanded is not None:
            out = self.run(OPS["aten::expand"], (out, expanded, False))
        out._view = None
        self.stand_ins[id(out)] = tensor
        self._keep.append(out)
        return out

    def locate(self, error: WeftError) -> None:
        """Put the user's line before an error's text, and what its symbols stand for behind it."""
        self._explain(error, user_location(2))

    def _explain(self, error: WeftError, where: Location | None) -> None:
        text = str(error)
        if where is None or not error.args or not isinstance(error.args[0], str) or LOCATED.match(text):
            return
        named = [f"{s} = {n}" for s, n in self.env.examples.items() if re.search(rf"\b{s}\b|{s}x|x{s}", text)]
        meaning = f" (here {', '.join(named)})" if named else ""
        error.args = (f"{where}: {text}{meaning}", *error.args[1:])

    def refuse(self, what: str) -> CaptureError:
        """The error for something that a compiled function may not do, with the user's line."""
        where = user_location(2)
        return CaptureError(f"{where}: {what}" if where else what)

    def refuse_value(self, tensor: Tensor, what: str) -> None:
        """The error for asking a tensor for what is only known when the program runs; also of state, whose value a later call changes."""
        if type(tensor._data) is ndarray or type(tensor._data) is SymbolicPayload:
            self.payload_of(tensor).materialize(what)

    @contextmanager
    def factories_here(self) -> Iterator[None]:
        """Send factories of rules to the builder."""
        with default_route(self.builder.call):
            yield

    def result_path(self, tensor: Tensor) -> tuple[SymbolicStorage, Path]:
        """Where a tensor lies: its storage and the path from the base."""
        payload = self.payload_of(tensor)
        return payload.storage, payload.path
