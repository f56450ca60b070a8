"""Tensors that exist outside of the function, as state of the program: each storage is a guarded input, every tensor
over it a view.

Another policy for concrete tensors (each a plain input) needs `payload_of` and the methods of the protocol, and nothing
else changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from weft.autograd.hooks import hooks_at, hooks_on, keep_hooks, keep_hooks_at, retain_no_more
from weft.autograd.node import Edge, Node, sequence_numbers
from weft.autograd.record import arrival_edge, gradient_edge
from weft.ops import overrides
from weft.ops.geometry import Geometry, contiguous
from weft.ops.packet import aten
from weft.record.flags import ChangedFlags
from weft.record.numbers.lifted import LiftedNumbers
from weft.record.recorder import GraphRecorder, refusal
from weft.record.repeats.pending import take_recorded
from weft.record.state import StateSlot, choose_base, row_of, type_of_array
from weft.record.symbolic import SymbolicPayload, SymbolicStorage
from weft.record.writes import ArgumentChange, Writes
from weft.support import pytree
from weft.support.errors import OR_SPLIT, CaptureError, ValuesThatWait
from weft.support.locations import Location, user_location
from weft.tensor.dense import is_dense
from weft.tensor.flattening import inner_tensors, is_traceable_wrapper_subclass
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import DISPATCH
from weft.types.sym import SymInt

_RULES = (overrides.NAME, DISPATCH)


def _rules_of(kind: type) -> tuple[Any, ...]:
    """What a class derived from Tensor says of operators and functions."""
    return tuple([getattr(kind, name, None) for name in _RULES])


class LastingHook(CaptureError):
    """The function leaves a hook on a tensor that exists outside of it."""


class _Identities:
    """A set of objects by identity (tensors compare element by element)."""

    def __init__(self, ids: set[int]) -> None:
        self.ids = ids

    def __contains__(self, value: object) -> bool:
        return id(value) in self.ids


class InplaceView(NamedTuple):
    """A call of a method like transpose_() on an argument. records: whether grad mode was on."""

    method: str
    args: Any
    options: Any
    records: bool


class GuardedState:
    """The storages that a function reaches, the tensors that led there, and what may not happen to them.

    stand_ins: the user's tensor behind each symbolic argument, by id. argument_keys: by parameter, the place of the
    argument among a call's. argument_leaves: by parameter, the argument and its place among the call's leaves. wholes:
    by the ids of leaves that were put together of arguments, the wrappers that the caller has.
    """

    def __init__(self, recorder: GraphRecorder, writes: Writes, python_state: LiftedNumbers) -> None:
        self.recorder, self.writes, self.python_state = recorder, writes, python_state
        self.states: dict[int, StateSlot] = {}
        self.wants_grad: dict[int, tuple[Tensor, bool, Location | None]] = {}
        self.stand_ins: MutableMapping[int, Tensor] = {}
        self.wholes: dict[int, Tensor] = {}
        self.argument_keys: dict[int, Any] = {}
        self.argument_leaves: dict[int, tuple[int, Tensor]] = {}
        self.histories: dict[Any, Tensor] = {}  # the tensors from outside that have one, by where their gradients flow
        # of concrete tensors by id: the array that they showed, and how the program sees it
        self.unheard: list[Tensor] = []  # those of them by which gradients are asked for that nobody else hears
        self._met: dict[int, tuple[Any, SymbolicPayload]] = {}
        # of detached tensors made in the function, by id: the tensor from outside
        self._sources: dict[int, Tensor] = {}
        self._hooked: dict[int, tuple[Tensor, Any, Location | None]] = {}
        self._hooked_histories: dict[Edge, tuple[Tensor, tuple[int, ...], Location | None]] = {}
        self._older_nodes: set[Node] = set()  # histories of arguments
        self._begin = next(sequence_numbers)  # of nodes of the capture
        self._retaining: set[int] = set()  # the ids of those among them that kept their gradients before
        self.flags = ChangedFlags()
        self._wrappers: set[int] = set()
        self._assembled: dict[int, Tensor] = {}  # objects of subclasses that stand for arguments, by id
        self._classes: set[type] = set()
        # of stand-ins by id, and the nodes that they left
        self.inplace_views: dict[int, list[InplaceView]] = {}
        self.view_nodes: set[Node] = set()

    def payload_of(self, tensor: Tensor) -> SymbolicPayload:
        """The symbolic payload of a tensor; a concrete one becomes a state input."""
        data = tensor._data
        if type(data) is not SymbolicPayload:
            met = self._met.get(id(tensor))
            return met[1] if met is not None and met[0] is data else self._state_payload(tensor)
        if data.storage.recorder is not self.recorder:
            take_recorded(tensor)
            data = tensor._data
        if data.storage.recorder is not self.recorder:
            data.materialize("its value")
        return data  # type: ignore[no-any-return]

    def _state_payload(self, tensor: Tensor) -> SymbolicPayload:
        if id(tensor) not in self.wants_grad:
            self.wants_grad[id(tensor)] = (
                tensor, self.flags.before(tensor), self.recorder.builder.where or user_location(3)
            )
            if tensor.requires_grad and not tensor.is_leaf:
                self.histories[gradient_edge(tensor)] = tensor
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
        payload = self._over_slot(tensor, slot)
        self._met[id(tensor)] = (tensor._data, payload)  # (`wants_grad` keeps the tensor, so that no other has its id)
        return payload

    def _is_argument(self, tensor: Tensor, slot: StateSlot) -> bool:
        """Whether a concrete tensor is one of the arguments that show a storage, or was made from one inside the
        function.
        """
        return (
            tensor in self.arguments_over(slot)
            or (tensor._view is not None and tensor._view.base in self.arguments_over(slot))
        )

    def arguments_over(self, slot: StateSlot) -> _Identities:
        """The arguments that show a storage."""
        return _Identities(slot.own)

    def _new_state(self, tensor: Tensor) -> StateSlot:
        if not is_dense(tensor):
            if tensor._data.has_bytes:
                raise ValuesThatWait(f"a tensor on the {tensor.device} device: its values wait")
            raise refusal(
                f"a tensor of shape {list(tensor.shape)} on the {tensor.device} device has no values that a compiled "
                "function could read"
            )
        array, is_flat = choose_base(tensor)
        kind = type_of_array(array)
        value = self.recorder.root.param(kind, f"state{len(self.states)}")
        symbolic = SymbolicStorage(self.recorder, value, kind, contiguous(array.shape))
        symbolic.builder, symbolic.depth = self.recorder.root, 0
        slot = StateSlot(tensor.storage(), tensor, array, symbolic, len(self.recorder.root.params) - 1, is_flat)
        symbolic.slot = slot
        self.python_state.keep(tensor)
        return slot

    def _over_slot(self, tensor: Tensor, slot: StateSlot) -> SymbolicPayload:
        data = tensor._data
        kind = type_of_array(data)
        if data.shape == slot.array.shape and data.flags.c_contiguous and data.dtype == slot.array.dtype:
            return SymbolicPayload(slot.symbolic, (), kind)
        size = data.dtype.itemsize
        strides = tuple(s // size for s in data.strides)
        offset = tensor.storage().offset_of(data)
        step = (aten.as_strided.default.op, (tuple(data.shape), strides, offset), 0)
        path = (*row_of(slot.array, kind.dtype), step)
        return SymbolicPayload(slot.symbolic, path, kind, Geometry(data.shape, strides, offset))

    # ---- detached tensors
    def note_alias(self, alias: Tensor, source: Tensor) -> None:
        """A detached tensor that the function made of one from outside: whoever asks where it lies
        asks for the source."""
        self.recorder.end_repeats()
        self._sources[id(alias)] = self._sources.get(id(source), source)
        self.python_state.keep(alias)

    def is_alias(self, tensor: Tensor) -> bool:
        """Whether the function made a tensor by detaching one from outside."""
        return id(tensor) in self._sources

    def is_made(self, tensor: Tensor) -> bool:
        """Whether the function made a tensor, of what it computed or by detaching one from outside."""
        if type(tensor._data) is SymbolicPayload:
            return id(tensor) not in self.stand_ins
        return self.is_alias(tensor) and (tensor._autograd is None or not tensor._autograd.is_of_part)

    def is_of_made_class(self, value: Any) -> bool:
        """Whether the function made an object of another class than Tensor (a Parameter, say)."""
        return isinstance(value, Tensor) and type(value) is not Tensor and self.is_made(value)

    def take_over(self, tensor: Tensor) -> bool:
        """Let the capture say how a detached tensor lies that the function made; False for a tensor that exists outside
        of it.
        """
        if self.is_alias(tensor) and is_dense(tensor):
            tensor._data = self.payload_of(tensor)
        return not is_dense(tensor) and id(tensor) not in self.stand_ins

    # ---- what may not happen
    def refuse_value(self, tensor: Tensor, what: str) -> None:
        """The error for asking a tensor for what is only known when the program runs; also of state, whose value a
        later call changes.
        """
        if is_dense(tensor) or type(tensor._data) is SymbolicPayload:
            self.payload_of(tensor).materialize(what)

    def refuse_elements(self, what: str) -> None:
        """The error for a read or write of the elements of a storage without a tensor, which later calls would not
        repeat."""
        error = self.recorder.refused = refusal(
            f"a compiled function asks for {what}, which a program does not repeat: use an operator of the tensor, or "
            f"move this line out of the compiled function.{OR_SPLIT}"
        )
        raise error

    def may_reshape(self, tensor: Tensor, what: str) -> None:
        """Raises CaptureError where the method `what` would change the shape or strides of a tensor from outside that
        is no argument, or one of several arguments that share memory, where this hangs on a value, or where a history
        would not know of it.
        """
        self.recorder.end_repeats()
        if id(tensor) not in self.stand_ins or self.recorder.depth or (tensor.requires_grad and not modes.grad):
            self.refuse_reshaping(tensor, what)

    def note_inplace_view(self, tensor: Tensor, what: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """An argument's stand-in has other strides: its call is made again on what each call is given."""
        self.recorder.end_repeats()
        if id(tensor) in self.stand_ins:
            plain, named = pytree.map_leaves(lambda a: a.expr if isinstance(a, SymInt) else a, (args, dict(options)))
            self.inplace_views.setdefault(id(tensor), []).append(InplaceView(what, plain, named, modes.grad))
            node = None if tensor._autograd is None else tensor._autograd.node
            if node is not None:
                self.view_nodes.add(node)

    def refuse_reshaping(self, tensor: Tensor, what: str) -> None:
        """Raises CaptureError where the method `what` would change the shape or strides of a tensor from outside."""
        self.recorder.end_repeats()
        if not self.take_over(tensor):
            raise self._kind(tensor)(
                f"{what}: a compiled function changes the shape or strides of a tensor of shape {list(tensor.shape)} "
                f"that exists outside of it; use the functional form ({what[:-1]}) and return its result"
            )

    def keeps_data(self, tensor: Tensor, value: Tensor) -> bool:
        """Whether `tensor.data = value` leaves a tensor from outside the memory that it has, as `tensor.data -= x` does
        (which wrote before it assigns).

        Raises CaptureError if it would have other memory.
        """
        self.recorder.end_repeats()
        if not is_dense(tensor) and id(tensor) not in self.stand_ins:
            self._sources.pop(id(tensor), None)  # what it was made of does not lie there any more
            if is_dense(value):
                self.note_alias(tensor, value)
            return False
        mine, other = self.payload_of(tensor), self.payload_of(value)
        if other.storage is not mine.storage or other.path != mine.path:
            raise refusal(
                f"a compiled function gives a tensor of shape {list(tensor.shape)} that exists outside of it other "
                "memory; write into it with tensor.copy_(value) within weft.no_grad()", kind=self._kind(tensor),
            )
        return True

    def _is_for_argument(self, tensor: Tensor) -> bool:
        """Whether a tensor is what the function sees of an argument, which may be another one at each call."""
        return id(tensor) in self.stand_ins or id(tensor) in self.wholes or id(tensor) in self._assembled

    def _kind(self, tensor: Tensor) -> type[CaptureError]:
        """What a change of a tensor from outside is refused with: for an argument, by running the call as written."""
        is_argument = self._is_for_argument(tensor) or any(id(tensor) in slot.own for slot in self.states.values())
        return ArgumentChange if is_argument else CaptureError

    def note_hooks(self, tensor: Tensor) -> None:
        """A hook is about to be registered: one on a tensor from outside must be gone when the function ends.

        Raises CaptureError within a block for a tensor made outside of it: whether there is a hook would hang on a
        value.
        """
        take_recorded(tensor)  # (it keeps the gradient in the history that it has from now on)
        if self.recorder.depth and self.payload_of(tensor).storage.depth < self.recorder.depth:
            raise refusal(
                "a branch or loop body registers a hook on a tensor that was made outside of it; register it outside, "
                "or on a tensor made in the body"
            )
        is_outside = self.is_outside(tensor) or self._is_for_argument(tensor)
        if is_outside and id(tensor) not in self._hooked:
            if tensor.retains_grad:
                self._retaining.add(id(tensor))
            else:
                self.writes.on_roll_back(lambda: retain_no_more(tensor))
            before = hooks_on(tensor)
            self._hooked[id(tensor)] = (tensor, before, user_location(3))
            self.writes.on_roll_back(lambda: keep_hooks(tensor, before))
        if is_outside and not tensor.is_leaf:
            self._note_hooks_of_history(tensor)

    def _note_hooks_of_history(self, tensor: Tensor) -> None:
        """A hook is about to be registered on a tensor that has a history from before the call, as which it counts for
        others too."""
        edge = arrival_edge(tensor)
        if edge is None or edge in self._hooked_histories:
            return
        if edge[0] in self._older_nodes or edge[0].sequence < self._begin:
            before = hooks_at(edge)
            self._hooked_histories[edge] = (tensor, before, user_location(4))
            self.writes.on_roll_back(lambda: keep_hooks_at(edge, before))

    def note_histories(self, tensors: Iterable[Any]) -> None:
        """What stands for arguments as the call finds them: a history that one has is older."""
        states = [tensor._autograd for tensor in tensors if isinstance(tensor, Tensor)]
        self._older_nodes.update([state.node for state in states if state is not None and state.node is not None])

    def refuse_hooks(self) -> None:
        """Raises CaptureError for a hook that the function leaves on a tensor from outside: later calls would not
        register it. On an argument, which may be another one at each call, it is what the call is for, and so is
        retain_grad().
        """
        for tensor, before, where in self._hooked.values():
            if tensor.retains_grad and not self._retained_before(tensor):
                raise ArgumentChange(
                    f"{where}: a compiled function calls retain_grad() on a tensor of shape {list(tensor.shape)} that "
                    "exists outside of it"
                )
            if hooks_on(tensor) != before:
                raise self._lasting_hook(tensor, where)
        for edge, (tensor, numbers, where) in self._hooked_histories.items():
            if hooks_at(edge) != numbers:
                raise self._lasting_hook(tensor, where)

    def _lasting_hook(self, tensor: Tensor, where: Location | None) -> CaptureError:
        kind = ArgumentChange if self._is_for_argument(tensor) else LastingHook
        return kind(
            f"{where}: a compiled function registers a hook on a tensor of shape {list(tensor.shape)} that "
            "exists outside of it; later calls would not register it again. Register it outside, "
            "or remove it before the function ends."
        )

    def _retained_before(self, tensor: Tensor) -> bool:
        real = self.stand_ins.get(id(tensor))
        return id(tensor) in self._retaining if real is None else real.retains_grad

    def note_flag(self, tensor: Tensor, flag: bool) -> None:
        """requires_grad of a tensor is about to be set: that of one from outside every call of the program sets.
        Raises CaptureError within a block, and for an argument that takes part as itself.
        """
        self.recorder.end_repeats()
        if id(tensor) in self._assembled and tensor.requires_grad is not flag:
            kind = type(tensor).__name__
            raise refusal(f"a compiled function sets requires_grad of a {kind} that it takes", kind=ArgumentChange)
        if not self.is_outside(tensor) or self.is_alias(tensor):
            return
        if self.recorder.depth:
            raise refusal(
                "a branch or loop body sets requires_grad of a tensor that was made outside of it; whether the block "
                "runs is known only when the program runs"
            )
        if self._kind(tensor) is ArgumentChange:
            what = "a compiled function sets requires_grad of an argument whose memory others have"
            raise refusal(what, kind=ArgumentChange)
        if id(tensor) not in self.wants_grad:
            self.wants_grad[id(tensor)] = (tensor, tensor.requires_grad, user_location(3))
        self.flags.note(tensor)

    def note_asked(self, tensor: Tensor) -> None:
        """The function is about to know requires_grad of a tensor, which nothing need be computed of: that of one from
        outside must be the same at every call."""
        if is_dense(tensor) and id(tensor) not in self.wants_grad and not self.is_alias(tensor):
            self.wants_grad[id(tensor)] = (tensor, self.flags.before(tensor), user_location(3))

    # ---- writes that are not recorded
    def note_write(self, storage: Any) -> None:
        """A version counter is about to be raised by something that the function does not record."""
        self.writes.note_write(storage)

    def has_written(self, storage: Any, version: int = 0) -> bool:
        """Whether the function itself wrote a storage since it had that version."""
        return self.writes.has_written(storage, version)

    # ---- wrappers
    def note_assembled(self, objects: Iterable[Tensor]) -> None:
        """These objects of tensor subclasses stand for the caller's, which enter the program as their parts."""
        self._assembled.update({id(t): t for t in objects})

    def refuse_assigned(self, holders: Iterable[object]) -> None:
        """Raises ArgumentChange for an attribute of an argument of a subclass that the function has set: what it sees
        is another object than the caller's."""
        for holder in holders:
            if id(holder) in self._assembled:
                raise ArgumentChange(
                    f"a compiled function sets an attribute of a {type(holder).__name__} that is an argument"
                )

    def note_wrapper(self, wrapper: Tensor) -> None:
        """Guard what a wrapper from outside is made of: its class's code saw that, and will not look again."""
        if id(wrapper) in self._wrappers or not is_traceable_wrapper_subclass(wrapper):
            return
        self._wrappers.add(id(wrapper))
        self.python_state.keep(wrapper)
        names, context = inner_tensors(wrapper)
        inner = [getattr(wrapper, name) for name in names]
        if not self.is_outside(wrapper):
            return  # made inside of the function
        wants = self.flags.before(wrapper)
        self.python_state.keep(inner)

        def holds() -> bool:
            now, seen = inner_tensors(wrapper)
            return (
                now == names and seen == context
                and all(getattr(wrapper, n) is t for n, t in zip(names, inner, strict=True))
                and (wrapper.requires_grad is wants)
            )

        def change() -> str:
            now, seen = inner_tensors(wrapper)
            if wrapper.requires_grad is not wants:
                return f"requires_grad of a {type(wrapper).__name__} was {wants}, is now {not wants}"
            return (
                f"a {type(wrapper).__name__} was made of {names} and {context!r}, "
                f"is now made of {'other ' if now == names else ''}{now} and {seen!r}"
            )

        self.python_state.guard(("wrapper", id(wrapper)), change, holds)

    def note_class(self, kind: type[Tensor]) -> None:
        """Guard what a class derived from Tensor says of operators and functions."""
        if kind in self._classes:
            return
        self._classes.add(kind)
        rules = _rules_of(kind)

        def change() -> str:
            name = next(name for name, a, b in zip(_RULES, rules, _rules_of(kind), strict=True) if a != b)
            return f"{name} of {kind.__name__} was another one"

        self.python_state.guard(("class", id(kind)), change, lambda: _rules_of(kind) == rules)

    @property
    def has_wrappers(self) -> bool:
        """Whether the function met wrappers."""
        return bool(self._wrappers)

    def argument_of(self, tensor: Tensor) -> tuple[int, Tensor] | None:
        """The argument that a tensor is, as the call gave it, with its place among the leaves; None for any other."""
        payload = self.payload_of(tensor)
        storage = payload.storage
        if payload.path or storage.slot is not None or storage.param is None:
            return None
        is_as_given = storage.value is self.recorder.root.params[storage.param]
        return self.argument_leaves.get(storage.param) if is_as_given else None

    def let_arguments_go(self) -> None:
        """Keep the call's arguments alive no longer than the caller does: a program is there for all calls."""
        self.stand_ins = WeakValueDictionary(self.stand_ins)
        self.argument_leaves.clear()

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor exists outside of the function: it has bytes, or its inner tensors have."""
        if is_traceable_wrapper_subclass(tensor):
            return all(self.is_outside(getattr(tensor, n)) for n in inner_tensors(tensor)[0])
        return is_dense(tensor)
