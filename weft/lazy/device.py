"""A lazy device: its trace, and what happens when values are asked for. The trace is cut, what is wanted of it is
found among earlier plans or planned, and the program for its sizes is run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary, ref

import weft.lazy.metrics as metrics
from weft.functionalizer.memory_format import is_permuted, order_like, result_orders
from weft.functionalizer.storage import Order
from weft.lazy.calls import needed_for, values_in
from weft.lazy.closures import StepClosures
from weft.lazy.executor import Executor, Job
from weft.lazy.payload import LazyPayload, LazyStorage, fresh
from weft.lazy.programs import Plan, Specialized, Writes, unbacked_in
from weft.lazy.recorded import Recorded
from weft.lazy.tiers import Line, Lines
from weft.lazy.trace import INDEX_BITS, Trace
from weft.lazy.values import Array, Cell, Deferred, Latch
from weft.ops.op import Op
from weft.programs.store import ProgramStore
from weft.support import limits
from weft.support.garbage import collection_held
from weft.support.interrupts import to_the_end
from weft.support.locations import user_location
from weft.tensor.backend import Backend
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.unbacked import UnbackedSize, alive, unknown_in

if TYPE_CHECKING:
    from weft.lazy.rules import Rules


class LazyDevice:
    """One lazy device. name: "lazy", "lazy:1", ...; backend: what runs operators on its tensors; rules: those that are
    recorded for it, None while one is being recorded.
    """

    backend: Backend
    rules: Rules | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.trace = Trace(name)
        self.trace.compute, self.trace.bytes_of = self.compute, self.bytes_of
        self.programs: ProgramStore[Any, Specialized] = ProgramStore(limits.STEPS, limits.PROGRAMS_OF_A_STEP)
        self.lines = Lines(Line)
        self.executor = Executor()
        self.closures = StepClosures()
        self.addressed: WeakValueDictionary[int, LazyStorage] = WeakValueDictionary()  # by the identity of their values
        _devices.add(self)

    # ---- tensors
    def shown(self, tensor: Tensor | LazyPayload) -> LazyPayload | None:
        """What a tensor (or a payload) shows of the device's values; None if it is none of its tensors."""
        data = tensor._data if isinstance(tensor, Tensor) else tensor
        return data if isinstance(data, LazyPayload) and data.storage.device is self else None

    def fresh(self, value: Deferred, order: Order | None = None) -> Tensor:
        """A tensor with memory of its own around a value."""
        return fresh(self, value, order)

    def note(self, tensor: Tensor) -> Tensor:
        """A tensor that was made from others."""
        return tensor

    def may_repeat(self, calls: Recorded) -> bool:
        """Whether a rule's calls may wait together, here and now."""
        return True

    # ---- asking for values
    def bytes_of(self, value: Deferred, what: str) -> Array:
        """The bytes of a value, which is computed if it is not. Raises what its computation raises."""
        if value.cell is None:
            with self.trace.lock, collection_held():
                if value.cell is None:
                    metrics.synced(cause_of(what), 1)
                    self._compute(*self._and_what_it_needs([value]))
        assert value.cell is not None
        try:
            return value.cell.read()
        finally:
            if value.cell.error is not None:
                self.executor.forget(value.cell.error)

    def compute(self, values: Sequence[Deferred], what: str) -> None:
        """Compute these values, and no others that are not needed for them."""
        with self.trace.lock, collection_held():
            pending = list({id(v): v for v in values if v.cell is None}.values())
            if pending:
                metrics.synced(cause_of(what), len(pending))
                self._compute(*self._and_what_it_needs(pending))

    def cut(self, count: bool = True) -> None:
        """Compute everything that somebody holds, and begin a new trace."""
        with self.trace.lock, collection_held():  # a finalizer would trace on
            waiting: list[LazyStorage] = self.trace.waiting()
            holders = {id(s.value): s for s in reversed(waiting)}
            if count and holders:
                metrics.count("SyncedTensorsWithIR", len(holders))
            self._compute([s.value for s in holders.values()], holders, waiting)

    def leave_default_dtype(self) -> None:
        """Compute what was called under a default dtype while it is the default: a program may run by it in part."""
        self.cut(False)
        self.executor.wait()

    def make_room(self) -> None:
        """Before another call waits: run those that do if they have become many."""
        if self.trace.is_long():
            self.cut(False)

    def forget(self) -> None:
        """Forget all programs: what comes is traced as if for the first time."""
        with self.trace.lock:
            self.programs.forget()
            self.lines = Lines(Line)
            self.trace.forget()
            if self.rules is not None:
                self.rules.forget()

    def _and_what_it_needs(self, wanted: list[Deferred]) -> tuple[list[Deferred], dict[int, LazyStorage]]:
        """These values, and those that are computed on the way and that are needed again: somebody holds them, or calls
        that wait on read them. (A loop that reads its loss and ends no step would do all earlier steps at each read.)
        Also the storages that hold some.
        """
        trace = self.trace
        for value in wanted:
            trace.bring(value)
        needed = set(needed_for(trace.nodes, wanted))
        by_id = {id(v): v for v in wanted}
        holders: dict[int, LazyStorage] = {}
        waiting: list[Deferred] = []
        for storage in trace.waiting():
            value = storage.value
            node = value.node
            if node is None or node.epoch != trace.epoch or node.position not in needed:
                waiting.append(value)
                continue
            by_id.setdefault(id(value), value)
            holders.setdefault(id(value), storage)
        for value in waiting:
            trace.bring(value)
        for position in needed_for(trace.nodes, waiting):
            if position not in needed:
                for value in values_in(trace.nodes[position].args):
                    if value.node is not None and value.node.position in needed:
                        by_id.setdefault(id(value), value)
        return list(by_id.values()), holders

    def _compute(
        self, wanted: list[Deferred], holders: dict[int, LazyStorage], everybody: Sequence[LazyStorage] | None = None
    ) -> None:
        """Compute these values. holders: for bases of storages, by the value's identity, the storage; everybody: all
        storages that wait, where all of their values are wanted.
        """
        trace, epoch = self.trace, self.trace.epoch
        for value in [v for v in wanted if v.node is not None and v.node.epoch != epoch]:
            trace.bring(value)
        if alive[0]:
            if any([v.type_.is_symbolic for v in trace.inputs]):
                wanted = [v for v in wanted if not _hangs_on_failure(trace, v)]
            while alike := _others_of(unbacked_in(wanted), trace, wanted):  # their sizes are numbers from now on
                wanted += alike
        places = {v.node.position << INDEX_BITS | v.index: v for v in wanted}  # type: ignore[union-attr]
        order = sorted(places)
        wanted = [places[place] for place in order]
        sizes = unbacked_in(wanted) if alive[0] else []
        key = (*order, *[place_of(size) for size in sizes])
        plan = self.plan(key, wanted, sizes)
        numbers = plan.numbers(trace)
        cells: list[Any] = [trace.inputs[slot].cell for slot in plan.inputs]
        spare = _earlier_values(plan, trace, wanted, holders)
        for storage in holders.values():
            storage.lasts = True
        done = Latch()  # (other threads may read a cell before its program is there)
        outputs = [Cell(None, done) for _ in wanted]
        writes: Writes = ()
        job: Job | None = None
        try:
            self._hand_over(wanted, outputs, everybody)
            if not wanted:
                return
            writes = tuple([(i, slot) for i, slot, value, _ in spare if value() is None])
            program = plan.program(
                numbers, writes, lambda: cause_of(f"a step of {len(plan.calls)} calls"),
                lambda: {slot for _, slot, _, lasts in spare if lasts})
            job = Job(program, cells, numbers, outputs, sizes)
            self._submit(job)
        except BaseException:  # what the values wait for has gone by now, so that they must come all the same
            to_the_end(lambda: self._hand_over(wanted, outputs, everybody))
            to_the_end(lambda: self._see_to(job, plan, writes, cells, numbers, outputs, sizes))
            raise

    def _hand_over(
        self, wanted: list[Deferred], outputs: list[Cell], everybody: Sequence[LazyStorage] | None
    ) -> None:
        """From now on values wait for their cells, and the trace is a new one. (It may be done twice.)"""
        for value, cell in zip(wanted, outputs, strict=True):
            value.cell, value.node = cell, None
        if everybody is None:
            self.trace.restart()
        else:
            for storage in everybody:
                storage.update = None  # (as is_waiting() does)
            self.trace.restart(())

    def _see_to(
        self, job: Job | None, plan: Plan, writes: Writes, cells: list[Any], numbers: list[Any], outputs: list[Cell],
        sizes: Sequence[UnbackedSize],
    ) -> None:
        """Have a program's results come, though it could not be made, or an interrupt came on its way."""
        if not outputs or outputs[0].done is None:
            return
        done = outputs[0].done
        self.executor.wait()
        if done.is_set():
            return
        try:
            job = job or Job(plan.interpreted(numbers, writes), cells, numbers, outputs, sizes)
            job.run()
            if job.sizes:
                job.settle()
                self.trace.restart()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            for cell in outputs:
                cell.error = error
            done.set()

    def plan(
        self, key: Any, wanted: list[Deferred], sizes: Sequence[UnbackedSize], failing: Collection[int] = ()
    ) -> Plan:
        """What is wanted of the trace in its state, with the programs of whatever computes the same."""
        plan: Plan | None = self.trace.state.programs.get(key)
        if plan is None:
            plan = Plan(self.trace, wanted, failing, sizes)
            computes = plan.key()
            if not self.programs.has_room(computes):
                self.forget()
            plan.variants, plan.lines = self.programs.variants(computes), self.lines
            self.trace.state.programs[key] = plan
        return plan

    def _submit(self, job: Job) -> None:
        """Run a program; one that finds sizes, to its end: what waits goes by their numbers."""
        self.executor.submit(job)
        if job.sizes:
            job.settle()
            self.trace.restart()

    # ---- orders in memory
    def orders_of(self, op: Op, args: tuple[Any, ...]) -> tuple[Order | None, ...]:
        """The order of dims that each result has in eager mode; () where all are row-major."""
        if not op.is_placed and not (self._may_be_permuted(args) and is_permuted(args, None)):
            return ()
        return result_orders(op, args, None)

    def _may_be_permuted(self, args: tuple[Any, ...]) -> bool:
        """Whether it takes a closer look at the arguments."""
        return any([type(a) is tuple or (isinstance(a, Tensor) and not self._is_row_major(a._data)) for a in args])

    def _is_row_major(self, data: Any) -> bool:
        """Whether a payload surely lies so."""
        return type(data) is LazyPayload and data.permuted is False

    def laid_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """What a `*_like` factory made, in its source's order of dims."""
        payload = tensor._data
        if type(payload) is not LazyPayload:
            return tensor
        return fresh(self, payload.read(), order_like(source, None))


def device_of(payload: LazyPayload) -> LazyDevice:
    """The device of a lazy tensor."""
    device = payload.storage.device
    assert isinstance(device, LazyDevice)
    return device


_devices: WeakSet[LazyDevice] = WeakSet()


def _leave_default_dtype() -> None:
    for device in list(_devices):
        device.leave_default_dtype()


def _begin_default_dtype() -> None:
    for device in list(_devices):
        with device.trace.lock:
            device.trace.restart()


dt.before_default_change(_leave_default_dtype)
dt.on_default_change(_begin_default_dtype)


def position(value: Deferred) -> int:
    """The place of a value in its trace."""
    assert value.node is not None
    return value.node.position << INDEX_BITS | value.index


def place_of(size: UnbackedSize) -> tuple[int, int]:
    """What has a size: a call's result, unless that was computed without success."""
    return (-1 if size.value.node is None else position(size.value)), size.axis


def _hangs_on_failure(trace: Trace, value: Deferred) -> bool:
    """Whether a value waits for one that could not be computed, so that nobody knows its sizes: it has the same error.
    """
    for position in needed_for(trace.nodes, [value]):
        for read in values_in(trace.nodes[position].args):
            if read.cell is not None and read.type_.is_symbolic:
                value.cell, value.node = read.cell, None
                return True
    return False


def _others_of(sizes: Sequence[UnbackedSize], trace: Trace, wanted: Sequence[Deferred]) -> list[Deferred]:
    """The values that find the same sizes, where values wait for them that are not wanted now."""
    if not sizes:
        return []
    left = [s.value for s in trace.waiting() if s.value.node is not None]
    read = [v for i in needed_for(trace.nodes, left) for v in values_in(trace.nodes[i].args)]
    wanted_ids = {id(v) for v in wanted}
    others = {id(v): v for v in (*left, *read) if v.node is not None and id(v) not in wanted_ids}
    return [v for v in others.values() if v.type_.is_symbolic and _finds(v, sizes)]


def _finds(value: Deferred, sizes: Sequence[UnbackedSize]) -> bool:
    """Whether a call finds sizes of its result, and has them from none of its operands."""
    assert value.node is not None
    operand_sizes = [size for v in values_in(value.node.args) for size in unknown_in(v.type_.shape)]
    return any([size in sizes and size not in operand_sizes for size in unknown_in(value.type_.shape)])


def _earlier_values(
    plan: Plan, trace: Trace, wanted: list[Deferred], holders: dict[int, LazyStorage]
) -> list[tuple[int, int, ref[Deferred], bool]]:
    """Results that may take the memory of an input, should nobody read that any more: the earlier value of the same
    storage. (Two storages may have had one value; only one of them gets its memory.) The last: whether the storage
    lasts.
    """
    spare: list[tuple[int, int, ref[Deferred], bool]] = []
    places, slots = plan.places.copy(), trace.turns
    for i, value in enumerate(wanted):
        storage = holders.get(id(value))
        earlier = None if storage is None else storage.settled
        if storage is None or earlier is None:
            continue
        before = earlier()
        if before is not None and before.type_ is value.type_:
            place = places.pop(slots.get(id(before)), None)
            if place is not None:
                spare.append((i, place, earlier, storage.lasts))
    return spare


def cause_of(what: str) -> str:
    """What happens, with the user's line in front."""
    where = user_location(3)
    return what if where is None else f"{where}: {what}"
