"""What a split function defers its operators to: a trace of its own, the memory that it reads and writes, and what
happens at a cut. Programs run at once: whoever cuts needs what they give.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from weakref import ref

import numpy as np

import weft.lazy.metrics as metrics
from weft.functionalizer.storage import Order
from weft.lazy.backend import Lazy
from weft.lazy.device import LazyDevice, cause_of, place_of, position
from weft.lazy.executor import Run
from weft.lazy.payload import LazyPayload
from weft.lazy.programs import Plan, Specialized
from weft.lazy.recorded import Recorded
from weft.lazy.rules import Rules
from weft.lazy.split.failures import Repeated, Written, fail
from weft.lazy.split.memory import Home, is_lent, order_in
from weft.lazy.split.payload import Family, ReadOnce, SplitPayload
from weft.lazy.tiers import CallByCall
from weft.lazy.values import Array, Cell, Deferred, Node, computed
from weft.ops.layout import ordered
from weft.runtime.storage import root_of
from weft.support import limits
from weft.support.errors import WeftError
from weft.support.garbage import collection_held
from weft.support.handlers import is_watched
from weft.support.interrupts import to_the_end
from weft.support.knobs import knobs
from weft.tensor.dense import is_dense
from weft.tensor.modes import by_itself
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.unbacked import UnbackedSize, alive, unknown_in

LONGEST = 1 << 14  # calls that may wait; then the function is cut


class Trial:
    """How much a call computes: how many results of operators there are, and their elements."""

    def __init__(self) -> None:
        self.results = self.elements = 0

    def note(self, nodes: Sequence[Node]) -> None:
        """The operators of one program."""
        for node in nodes:
            rule = node.op
            for types in [call.types for call in rule.calls] if type(rule) is Recorded else [node.types]:
                for kind in types:
                    self.results += 1
                    self.elements += math.prod([d for d in kind.shape if isinstance(d, int)])

    @property
    def is_small(self) -> bool:
        """Whether operators are as well run at once: the time that it takes to trace them is more than what a program
        saves."""
        return self.elements <= self.results * limits.ELEMENTS_WORTH_WAITING


class Cuts:
    """Why and where the calls of a split function were cut, and how often. trial: while calls are looked at, which are
    not worth a program yet."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.trial: Trial | None = None

    def note(self, what: str) -> str:
        """One more cut, by the user's line that is running."""
        cause = cause_of(what)
        self.found[cause] += 1
        return cause


class ProgramRun:
    """A program with what it is run on. nodes: the calls that it was made of; places: of the values wanted of it, and
    of those whose sizes are.
    """

    def __init__(
        self, program: Specialized | CallByCall, arrays: list[Array], numbers: list[Any], wanted: list[Deferred],
        sizes: Sequence[UnbackedSize], nodes: list[Node],
    ) -> None:
        self.arrays, self.wanted, self.nodes, self.sizes = arrays, wanted, nodes, sizes
        self._run, self.is_done = Run(program, numbers), False
        self.places = {id(value): position(value) for value in (*wanted, *[size.value for size in sizes])}
        for value in wanted:
            value.cell, value.node = Cell(), None

    def run(self) -> None:
        """Compute what is wanted. Raises what the program raises, and an interrupt when it `is_done`."""
        to_the_end(self._compute)

    def _compute(self) -> None:
        results = self._run.results(self.arrays)
        for value, result in zip(self.wanted, results, strict=False):  # (sizes are behind them)
            assert value.cell is not None
            value.cell.array = result
        for size, number in zip(self.sizes, results[len(self.wanted) :], strict=True):
            size.settle(int(number))
        self.is_done = True


class SplitDevice(LazyDevice):
    """Where the operators of one call of a split function wait; calls that follow use it again."""

    def __init__(self, cuts: Cuts, native: str | None = None) -> None:
        super().__init__("cpu")
        self.native = native  # what programs are compiled by; None: as the knob says
        self.cuts = cuts
        self.rules = Rules(self, Lazy)
        self.homes: dict[int, Home] = {}
        self.families: list[ref[Family]] = []
        self.made: list[ref[Tensor]] = []
        self.failing: list[int] = []  # calls that may refuse their values
        self.writes: dict[int, list[Written]] = {}  # by the identity of the family
        self.reads_older = False  # whether calls may read memory as values that were found before the last cut

    # ---- tensors
    def fresh(self, value: Deferred, order: Order | None = None) -> Tensor:
        """A tensor with memory of its own around a value."""
        family = Family(self, value, order)
        self.families.append(ref(family))
        out = tensor_around(SplitPayload(family, (), value.type_))
        self.made.append(ref(out))
        return out

    def note(self, tensor: Tensor) -> Tensor:
        """A tensor with a payload that waits: it becomes a plain one at the cut."""
        self.made.append(ref(tensor))
        return tensor

    def shown(self, tensor: Tensor | LazyPayload) -> SplitPayload | None:
        """What a tensor shows: a plain one that shows a part of memory, or lent memory, is read as it is now."""
        data: Any = tensor._data if isinstance(tensor, Tensor) else tensor
        if type(data) is SplitPayload:
            return data if data.waits and data.storage.device is self else None
        if not isinstance(tensor, Tensor) or not is_dense(tensor):
            return None
        home = self.homes.get(id(data)) or self.home_of(tensor)
        if data is home.root and home.whole is not None:
            return home.whole
        if not home.is_lent and (home.is_written or order_in(data, home.root) is not None):
            return home.view(data)
        return ReadOnce(Family(self, home.read(data))) if data.flags.c_contiguous else None

    def leave_default_dtype(self) -> None:
        """Cut: what waits was called under the default dtype that goes."""
        self.cut_for("another default dtype")

    def make_room(self) -> None:
        """The back end cuts, where it can say why."""

    def may_repeat(self, calls: Recorded) -> bool:
        """Whether a rule's calls may wait: not what may refuse its values within the user's `try`."""
        if not calls.may_raise:
            return True
        if is_watched():
            return False
        self.failing.append(len(self.trace.nodes))  # the entry that comes
        return True

    def home_of(self, tensor: Tensor) -> Home:
        """The memory that a plain tensor shows."""
        home = self.homes.get(id(root_of(tensor._data)))
        if home is None:
            lent = is_lent(tensor)  # (asked while nobody here holds the array)
            root = root_of(tensor._data)
            lent = lent or root.base is not None or not root.flags.forc
            home = self.homes[id(root)] = Home(self, root, lent, tensor._is_param)
        return home

    def is_lent(self, tensor: Tensor) -> bool:
        """Whether others may write the memory of a plain tensor now: who borrowed it may have let it go meanwhile."""
        if self.home_of(tensor).is_lent:
            del self.homes[id(root_of(tensor._data))]
        return self.home_of(tensor).is_lent

    # ---- what may fail
    def note_failing(self) -> None:
        """The call that was traced last may refuse its values when it runs: it runs whoever wants its results."""
        position = len(self.trace.nodes) - 1
        if not self.failing or self.failing[-1] != position:
            self.failing.append(position)

    def note_write(self, family: Family) -> None:
        """A family was given another value."""
        value = family.value
        place = value if value.node is None else position(value)
        self.writes.setdefault(id(family), []).append((len(self.trace.nodes), place))

    # ---- cuts
    def cut_for(self, what: str) -> None:
        """Cut the trace, since somebody asks for a value."""
        if self.trace.nodes or self.homes or self.families:
            metrics.synced(self.cuts.note(what), len(self.trace.storages))
            self.cut()

    def compute(self, values: Sequence[Deferred], what: str) -> None:
        """Cut the trace, since sizes of these values are asked for."""
        if any([value.cell is None for value in values]):
            self.cut_for(what)
            self.reads_older = True  # a call that asked is traced all the same

    def bytes_of(self, value: Deferred, what: str) -> Array:
        """The bytes of a value behind a cut. Raises what its computation raised."""
        return value.read()

    def cut(self, count: bool = True) -> None:
        """Compute everything that somebody holds; all tensors are plain ones then. Raises what a program raised."""
        with self.trace.lock, collection_held(), by_itself():
            try:
                problem = self._run()
                problem = self._settle() or problem
            finally:
                self.homes, self.families, self.made, self.failing, self.writes = {}, [], [], [], {}
                self.reads_older = False
        if problem is not None:
            raise problem

    def _run(self) -> BaseException | None:
        """Run the program; what it raised."""
        homes = [h for h in self.homes.values() if h.is_written]
        for tensor_ref in self.made:
            tensor = tensor_ref()
            if tensor is not None and type(tensor._data) is SplitPayload:
                tensor._data._memo = None
        waiting: list[Any] = self.trace.waiting()
        wanted = list({id(s.value): s.value for s in waiting}.values())
        waiting.clear()
        sizes = self._sizes_found() if alive[0] else []
        if not wanted and not self.failing and not sizes:
            self.trace.restart()
            return None
        try:
            with nullcontext() if self.native is None else knobs(backend=self.native):
                run = self._prepared(wanted, sizes, homes)
                try:
                    run.run()
                except BaseException as error:
                    return error if run.is_done else self._recover(run, homes, error)
        except BaseException as error:
            for family_ref in self.families:
                family = family_ref()
                if family is not None:
                    family.error = error
            for value in (*wanted, *[size.value for size in sizes if not size.is_known]):
                fail(value, error)
            self.trace.restart()
            raise
        return None

    def _sizes_found(self) -> list[UnbackedSize]:
        """The sizes that calls find: whoever goes by one may ask for it when memory is no longer as it was."""
        shapes = [kind.shape for node in self.trace.nodes for kind in node.types if kind.is_symbolic]
        return list(unknown_in(tuple(shapes)))

    def _prepared(self, wanted: list[Deferred], sizes: list[UnbackedSize], homes: list[Home]) -> ProgramRun:
        trace = self.trace
        for value in wanted:
            trace.bring(value)
        wanted.sort(key=position)
        key = (tuple(map(position, wanted)), tuple(self.failing), tuple(map(place_of, sizes)))
        plan = self.plan(key, wanted, sizes, self.failing)
        numbers = plan.numbers(trace)
        arrays = [trace.inputs[slot].read() for slot in plan.inputs]
        writes = self._overwritten(plan, wanted, homes)
        homes_by_root = self.homes

        def lasting() -> list[int]:
            roots = [homes_by_root.get(id(root_of(array))) for array in arrays]
            return [i for i, home in enumerate(roots) if home is not None and home.lasts]

        trial = self.cuts.trial
        if trial is not None:
            trial.note(trace.nodes)
        program = plan.program(
            numbers, writes, lambda: cause_of(f"a step of {len(plan.calls)} calls"), lasting, is_trial=trial is not None
        )
        run = ProgramRun(program, arrays, numbers, wanted, sizes, trace.nodes)
        trace.restart()
        return run

    def _overwritten(self, plan: Plan, wanted: list[Deferred], homes: list[Home]) -> tuple[tuple[int, int], ...]:
        """Results that are put where an input lies: memory that nothing else shows as it was before."""
        families = [family for family in (family_ref() for family_ref in self.families) if family is not None]
        kept = {id(family.value) for family in families}
        kept |= {id(home.family.value) for home in self.homes.values() if home.family is not None}
        slots = self.trace.turns
        inputs = {
            id(h.family.value): slots.get(id(h.first)) for h in homes
            if h.family is not None and not h.parts and id(h.first) not in kept
        }
        overwritten = []
        for i, value in enumerate(wanted):
            slot = inputs.pop(id(value), None)
            if slot in plan.inputs and self.trace.inputs[slot].type_ is value.type_ and self._is_read_once(slot):
                overwritten.append((i, plan.inputs.index(slot)))
        return tuple(overwritten)

    def _is_read_once(self, slot: int) -> bool:
        """Whether no other input lies in the memory of this one."""
        inputs = self.trace.inputs
        root = root_of(inputs[slot].read())
        return not self.reads_older or all([
            i == slot or root_of(value.read()) is not root for i, value in enumerate(inputs)
        ])

    def _recover(self, run: ProgramRun, homes: list[Home], error: BaseException) -> BaseException:
        """Have every family show what it showed before the call that failed. The error, as eager mode has it."""
        before = Repeated(self.trace, run.nodes, run.places)
        for home in homes:
            family = home.family
            assert family is not None
            earlier = before.latest(self.writes[id(family)])
            family.value = computed(self.trace, home.base if earlier is None else np.array(earlier, order="C"))
        for weak in self.families:
            family = weak()
            if family is not None and id(family.value) in run.places:
                earlier = before.value(run.places[id(family.value)])
                if earlier is None:
                    earlier = before.latest(self.writes.get(id(family), ()))
                if earlier is None:
                    family.error = error
                else:
                    family.value = computed(self.trace, np.array(earlier, order="C"))
        for size in run.sizes:
            before.settle(size, error)
        return before.error if isinstance(before.error, WeftError) else error

    def _settle(self) -> BaseException | None:
        """Give every family its bytes, and make plain tensors; what cannot be read."""
        problem: BaseException | None = None
        taken = set(self.homes)
        for family_ref in self.families:
            family = family_ref()
            if family is not None and family.memory is None and family.error is None:
                problem = _own(family, taken) or problem
        written = [home.written(self.homes) for home in self.homes.values()]  # all are read before any is put
        for home, now in zip(self.homes.values(), written, strict=True):
            home.settle(now)
        for tensor_ref in self.made:
            tensor = tensor_ref()
            if tensor is not None and type(tensor._data) is SplitPayload and tensor._data.storage.error is None:
                tensor._data = tensor._data.dense("cut")
        return problem

    def _is_row_major(self, data: Any) -> bool:
        return data.permuted is False if isinstance(data, SplitPayload) else bool(data.flags.c_contiguous)


def _own(family: Family, taken: set[int]) -> BaseException | None:
    """Give a family memory that no other has; what its computation raised, if it did."""
    try:
        array = family.value.read()
    except BaseException as error:
        family.error = error
        return error
    if family.order is not None:
        array = _laid_out(array, ordered(family.type.shape, family.order))
    elif id(root_of(array)) in taken or array.base is not None:
        array = array.copy()
    taken.add(id(array))
    family.settle(array)
    return None


def _laid_out(array: Array, geometry: Any) -> Array:
    """A copy of the elements that lies as a geometry says."""
    memory = np.empty(array.size, array.dtype)
    size = array.dtype.itemsize
    out: Array = np.ndarray(array.shape, memory.dtype, memory, 0, tuple([s * size for s in geometry.strides]))
    out[...] = array
    return out
