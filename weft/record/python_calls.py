"""Calls of Python in a captured program: hooks whose code does what no program can repeat (prints, values, foreign
code). The program stops at such a call, and goes on after it.

What the function has done so far is there when the hook runs: what was written, gradients, versions and generators
are made real at the call, by the values that it notes.
"""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.hooks import hooks_of_tensor
from weft.autograd.node import Node, RemovableHandle
from weft.guards.watching import unwatched
from weft.ir.graph import Value
from weft.ir.python_calls import PYTHON_CALL, READ_AFTER, python_call_types
from weft.ops.packet import aten
from weft.record.closures import call_closed, without_tensors
from weft.record.function_calls import FunctionCalls
from weft.record.gradients import UNREAD, GradSlot, LeafGradients
from weft.record.numbers.random_state import RandomState
from weft.record.numbers.sym_float import operand_of
from weft.record.outside import GuardedState
from weft.record.python_call import Caller, Context, NotCallable, PythonCall, Size, Table, ValueArgument, line_of
from weft.record.recorder import GraphRecorder
from weft.record.symbolic import SymbolicPayload, SymbolicStorage
from weft.record.tensors import SymbolicTensors
from weft.record.user_code import is_called, is_same_at_each_call, plain_function, reachable
from weft.record.writes import Writes
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.support.handlers import is_watched
from weft.support.locations import is_internal, user_location
from weft.tensor.dense import is_dense
from weft.tensor.flattening import is_traceable_wrapper_subclass
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import is_wrapper
from weft.types.sym import SymInt

if TYPE_CHECKING:
    from weft.guards import Midway, Switch


class PythonCalls:
    """The calls of one capture. codes: of the functions that are called; midway: what is known of Python's state
    while the function runs; gone, missing: by the number of a call, the tensors (by id) whose gradient it takes away,
    and the results (by place) that are None."""

    def __init__(
        self, recorder: GraphRecorder, tensors: SymbolicTensors, outside: GuardedState, gradients: LeafGradients,
        writes: Writes, random: list[RandomState],
    ) -> None:
        """random: the generators that the function draws from."""
        self.recorder, self.tensors, self.outside, self.gradients = recorder, tensors, outside, gradients
        self.writes, self.random = writes, random
        self.ran: Callable[[], Iterable[Any]] = tuple  # the nodes of autograd that have run backward
        self.codes: Sequence[CodeType] = ()
        self.gone: AbstractSet[tuple[int, int]] = frozenset()
        self.missing: AbstractSet[tuple[int, int]] = frozenset()
        self.functions = FunctionCalls(self)
        self.recorded: list[PythonCall] = []
        self.midway: Midway | None = None
        self.in_memory: dict[int, Any] = {}  # by parameter, the value that was made real there
        self.shared: dict[SymbolicStorage, int] = {}  # what Python was given, or gave, each with a number
        self.closed = ""
        self.switches: Sequence[Switch] = ()  # what is known to change in Python's state at the calls
        self.first = RemovableHandle.fresh_number()  # hooks with a later one are the function's

    def begin(self, midway: Midway) -> None:
        """The function is about to run."""
        self.midway = midway

    def end(self) -> None:
        """The function has run. What is known of Python's state goes: the capture stays with the program, and the
        objects that the function met would stay with it, also those that weak references led to."""
        self.midway = None
        self.shared.clear()

    @contextmanager
    def without_writes(self) -> Iterator[None]:
        """Within the block (a branch or loop body) the function may not change Python's state: Python runs it once
        while it is recorded, but whether, and how often, it runs is known only when the program runs.

        Raises CaptureError with the line of the change.
        """
        midway = self.midway
        before = {} if midway is None else midway.writes()
        yield
        write = None if midway is None else midway.first_write_since(before)
        if write is not None:
            raise CaptureError(
                f"{write.where}: a branch of weft.cond, or the body of a loop, changes {write.target.text}, which "
                "existed before. Whether it runs is known only when the program runs: return the value from the "
                "branch or body, and assign what weft.cond, weft.scan or weft.while_loop returns"
            )

    def refuse_calls(self, why: str) -> None:
        """No hook may be called, from here on either. Raises NotCallable if one is."""
        self.closed = why
        if self.recorded:
            raise NotCallable(f"{self.recorded[0].where}: a hook is called, and {why}")

    def refuse_draws(self, why: str) -> None:
        """Something draws, and the graph cannot know how much. Raises NotCallable."""
        where = user_location(2)
        raise NotCallable(f"{where}: {why}" if where else why)

    def hooks(self, table: Table, caller: Caller, replaced: int | None) -> list[Callable[..., Any]]:
        """What runs for each hook of a table."""
        if not self.codes:
            return list(table.values())
        return [
            _Call(self, caller, hook, None if number >= self.first else table, place, replaced)
            if self.is_called(hook) else hook
            for place, (number, hook) in enumerate(table.items())
        ]

    def note_saved(self, node: Node, saved: Any) -> None:
        """A node is about to read what it has saved: hooks that were called since must have left that alone."""
        calls = [call for call in self.recorded if node.sequence < call.sequence]
        if calls:
            for leaf in pytree.flatten(saved)[0]:
                if isinstance(leaf, Tensor):
                    storage = self.tensors.payload_of(leaf).storage
                    for call in calls:
                        call.saved.add(storage)

    def is_called(self, hook: Any) -> bool:
        """Whether a hook is called when the program runs."""
        return is_called(hook, self.codes)

    def are_called(self, tensor: Tensor) -> bool:
        """Whether the program calls every hook of a tensor."""
        hooks = hooks_of_tensor(tensor) if self.recorded else []
        return bool(hooks) and all(self.is_called(hook) for hook in hooks)

    def record(self, call: PythonCall, likes: Sequence[Any]) -> list[Any]:
        """The call as a node. likes: what comes back, each as its dims and dtype, or as the number of something given
        that it is like; None where nothing does. Gives what stands for it. Raises NotCallable."""
        self._refuse(call)
        values = self._take(call)
        number = len(self.recorded)
        call.likes = [None if (number, i) in self.missing else like for i, like in enumerate(likes)]
        call.places = [i for i, like in enumerate(likes) if like is not None]
        written = self._make_real(call)
        results = tuple([like for like in call.likes if like is not None])
        node = self.recorder.builder.emit_raw(
            PYTHON_CALL, (number, tuple(values), tuple(written), results),
            python_call_types(tuple([v.type for v in values]), results), where=call.where,
        )
        self._switch()
        self.recorded.append(call)
        self._read_again(call, number)
        outputs = iter(node.outputs)
        stand_ins = [None if like is None else self.tensors.fresh(next(outputs)) for like in call.likes]
        self._share([leaf for leaf in stand_ins if leaf is not None])
        return stand_ins

    def _take(self, call: PythonCall) -> list[Any]:
        """The program's values among what a call is given, which are stood for."""
        values: list[Any] = []
        for i, leaf in enumerate(call.arguments):
            if self.is_value(leaf):
                data = leaf._data
                call.arguments[i] = ValueArgument(len(values), bool(data.path) and data.storage.is_outside)
                values.append(self.tensors.operand(leaf))
                self._share([leaf])
            elif type(leaf) is SymInt:
                call.arguments[i] = Size(operand_of(leaf))
        return values

    def _share(self, tensors: Sequence[Tensor]) -> None:
        """Python has these tensors from now on, but for views, of which it has copies."""
        for data in [tensor._data for tensor in tensors]:
            if not data.path:
                self.shared.setdefault(data.storage, len(self.shared))

    def _read_again(self, call: PythonCall, number: int) -> None:
        """What Python may have written is read again after it: all memory from outside, and what it has been given."""
        places = {slot.symbolic: slot.param for slot in self.outside.states.values()}
        places |= {storage: storage.param for storage in self._arguments() if storage.slot is None}
        gradient_slots = [slot for slot, param in call.known if param is not None and not is_dense(slot.current)]
        places |= {slot.current._data.storage: slot.param for slot in gradient_slots}
        own = {storage: -1 - at for storage, at in self.shared.items() if storage not in places}
        for storage, place in (places | own).items():
            value = storage.value
            node = self.recorder.builder.emit_raw(
                READ_AFTER, (value, number, place), (value.type,), where=call.where
            )
            storage.replace(node.output)
            if place in self.in_memory:
                self.in_memory[place] = node.output
        for slot in gradient_slots:
            slot.note_call()

    def _switch(self) -> None:
        assert self.midway is not None
        for switch in self.switches:
            if switch.call == len(self.recorded):
                switch.slot.put(switch.new)
                self.midway.take_up(switch.slot)

    def is_value(self, leaf: Any) -> bool:
        """Whether an argument is a value of the program, and no tensor from outside."""
        return (
            isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload
            and id(leaf) not in self.outside.stand_ins
        )

    # ---- what cannot be
    def _refuse(self, call: PythonCall) -> None:
        function = plain_function(call.hook)
        assert function is not None and self.midway is not None
        why = None
        if self.closed:
            why = f"where {self.closed}"
        elif self.recorder.depth:
            why = "within a branch or loop body"
        elif modes.grad:
            why = "while the backward is recorded"
        elif self.outside.has_wrappers or any(map(is_traceable_wrapper_subclass, call.arguments)):
            why = "beside tensor subclasses"
        elif is_internal(function.__code__.co_filename) or _asks_engine(call.hook):
            why = "that asks for the backward call that is running, or gives a tensor other memory"
        elif call.table is None and not all(is_same_at_each_call(held, self.midway.is_older) for held in _held(call)):
            why = "that holds objects of this call"
        elif is_watched():
            why = "within try"
        elif self.midway.has_written():
            why = "behind a change of Python's state"
        elif any(storage.is_written and storage.has_gaps for storage in self._arguments()):
            why = "behind a write to an argument whose memory has gaps"
        elif self.recorder.env.has_unbacked:
            why = "behind sizes that the program finds"
        if why is not None:
            raise NotCallable(f"{call.where}: a hook is called {why}")

    def _arguments(self) -> list[Any]:
        return [t._data.storage for t in self.tensors.arguments]

    # ---- what is there when the hook runs
    def _make_real(self, call: PythonCall) -> list[Any]:
        """The values that are to be in their places, noted with the call."""
        values: list[Any] = []
        for slot in self.outside.states.values():
            value = slot.symbolic.value
            if slot.written and self.in_memory.get(slot.param) is not value:
                values.append(value)
                call.written.append(slot.param)
                self.in_memory[slot.param] = value
        for storage in self._arguments():
            if storage.is_written and self.in_memory.get(storage.param) is not storage.value:
                values.append(storage.value)
                call.written.append(storage.param)
                self.in_memory[storage.param] = storage.value
        for gradient in list(self.gradients.slots.values()):
            self._make_gradient_real(call, gradient, values)
        variables = [node.variable for node in self.ran() if isinstance(node, AccumulateGrad)]
        call.passed = {id(variable) for variable in variables}
        call.raised = self.writes.raised()
        call.random = [state.copy() for state in self.random]
        return values

    def _make_gradient_real(self, call: PythonCall, slot: GradSlot, values: list[Any]) -> None:
        if slot.zeroed and slot.current is UNREAD:
            call.zeroed.append(slot)
            slot.zeroed = False
        current = slot.current
        if slot.is_changed():
            if current is None:
                call.grads.append((slot, None))
            else:
                value = self._own_value(call, current)
                param = self.gradients.buffer_of(slot)
                values.append(value)
                call.written.append(param)
                call.grads.append((slot, param))
                self.in_memory[param] = value
            slot.note_call()
        if slot.at_call is None:
            return
        if (len(self.recorded), id(self.gradients.real(slot.tensor))) in self.gone:
            slot.current = None
            slot.note_call()
        call.known.append((slot, None if slot.current is None else slot.param))

    def _own_value(self, call: PythonCall, gradient: Tensor) -> Any:
        data = gradient._data
        if is_wrapper(gradient):
            raise NotCallable(f"{call.where}: a hook is called where a .grad is a {type(gradient).__name__}")
        if is_dense(gradient) or data.path or data.storage.slot is not None or data.storage.order is not None:
            raise NotCallable(f"{call.where}: a hook is called where a .grad shows other memory")
        # what flowed in stays itself, whatever becomes of `.grad`
        builder = self.recorder.builder
        own: Value = builder.operand(aten.clone(builder.handle(data.read())))
        data.storage.replace(own)
        return own


class _Call:
    """Stands for a hook while a function is captured: called with the program's values, it records the call."""

    def __init__(
        self, calls: PythonCalls, caller: Caller, hook: Any, table: Table | None, place: int, replaced: int | None
    ) -> None:
        self.calls, self.caller, self.hook, self.table, self.place = calls, caller, hook, table, place
        self.replaced = replaced
        self.__name__ = getattr(hook, "__name__", type(hook).__name__)

    def _is_of_call(self, value: Any) -> bool:
        """Whether a tensor is the program's, or an argument's."""
        return self.calls.is_value(value) or (
            isinstance(value, Tensor) and id(value) in self.calls.outside.stand_ins
        )

    def __call__(self, *arguments: Any) -> Any:
        return unwatched(self._record, arguments)

    def _record(self, arguments: tuple[Any, ...]) -> Any:
        hook, places, held = without_tensors(self.hook, self._is_of_call) if self.table is None else (self.hook, [], [])
        caller = functools.partial(call_closed, self.caller, places) if held else self.caller
        leaves, spec = pytree.flatten((*arguments, held) if held else arguments)
        call = PythonCall(caller, hook, self.table, self.place, leaves, spec, line_of(self.hook))
        call.replaced = self.replaced
        if self.replaced is None:
            self.calls.record(call, ())
            return None
        numbers = itertools.count()
        kept, inner = pytree.flatten(arguments[self.replaced])
        likes = [next(numbers) if self.calls.is_value(leaf) else None for leaf in kept]
        return pytree.unflatten(self.calls.record(call, likes), inner)


def _held(call: PythonCall) -> list[Any]:
    """The function itself, and what it is given that is no tensor."""
    return [call.hook, *[leaf for leaf in call.arguments if not isinstance(leaf, (Tensor, SymInt, Context))]]


def _asks_engine(hook: Any) -> bool:
    """Whether a hook asks for the running backward call, or gives a tensor other memory: of that the parts behind it
    would see what autograd does not."""
    codes = [function.__code__ for function in reachable([hook])]
    return any("queue_callback" in code.co_names for code in codes) or any(
        step.opname == "STORE_ATTR" and step.argval == "data" for code in codes for step in dis.get_instructions(code)
    )
