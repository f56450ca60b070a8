"""What a split function defers its operators to: a trace of its own, the memory that it reads and writes, and what
happens at a cut. Programs run at once: whoever cuts needs what they give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import ref

import numpy as np

from weft.functionalizer.memory_format import is_permuted, result_orders
from weft.functionalizer.storage import Order
from weft.lazy.device import LazyDevice
from weft.lazy.executor import Executor, Job
from weft.lazy.payload import LazyStorage
from weft.lazy.split.memory import Home, is_lent
from weft.lazy.split.payload import Family, SplitPayload
from weft.lazy.values import Array, Deferred
from weft.ops.layout import ordered
from weft.ops.op import Op
from weft.ops.route import defaults
from weft.runtime.storage import root_of
from weft.support.knobs import knobs
from weft.support.locations import user_location
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

ndarray = np.ndarray


class Cuts:
    """Why and where the calls of a split function were cut, and how often."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def note(self, what: str) -> None:
        """One more cut, by the user's line that is running."""
        where = user_location(2)
        self.found[what if where is None else f"{where}: {what}"] += 1


class AtOnce(Executor):
    """Runs every job where it is asked for."""

    def submit(self, job: Job) -> None:
        job.run()


class SplitDevice(LazyDevice):
    """Where the operators of one call of a split function wait; calls that follow use it again."""

    def __init__(self, cuts: Cuts, native: str | None = None) -> None:
        super().__init__("cpu")
        self.native = native  # what programs are compiled by; None: as the knob says
        self.executor = AtOnce()
        self.cuts = cuts
        self.homes: dict[int, Home] = {}
        self.families: list[ref[Family]] = []
        self.made: list[ref[Tensor]] = []

    # ---- tensors
    def fresh(self, value: Deferred, order: Order | None = None) -> Tensor:
        """A tensor with memory of its own around a value."""
        family = Family(self, value, order)
        self.families.append(ref(family))
        out = Tensor(SplitPayload(family, (), value.type_))
        self.made.append(ref(out))
        return out

    def note(self, tensor: Tensor) -> Tensor:
        """A tensor with a payload that waits: it becomes a plain one at the cut."""
        self.made.append(ref(tensor))
        return tensor

    def home_of(self, tensor: Tensor) -> Home:
        """The memory that a plain tensor shows."""
        home = self.homes.get(id(root_of(tensor._data)))
        if home is None:
            lent = is_lent(tensor)  # (asked while nobody here holds the array)
            root = root_of(tensor._data)
            home = self.homes[id(root)] = Home(self, root, lent or root.base is not None or not root.flags.forc)
        return home

    # ---- cuts
    def cut_for(self, what: str) -> None:
        """Cut the trace, since somebody asks for a value."""
        if self.trace.nodes or self.homes or self.families:
            self.cuts.note(what)
            self.cut()

    def cut(self, count: bool = True) -> None:
        """Compute everything that somebody holds; all tensors are plain ones then. Raises what a program raised."""
        with self.trace.lock, _by_itself():
            try:
                self._run()
                problem = self._settle()
            finally:
                self.homes, self.families, self.made = {}, [], []
        if problem is not None:
            raise problem

    def _run(self) -> None:
        homes = [h for h in self.homes.values() if h.is_written]
        holders: dict[int, LazyStorage] = {}  # whose memory may be overwritten: nothing else reads it
        for home in homes:
            assert home.family is not None
            home.family.update = None
            home.views.clear()
            if not home.parts:
                holders.setdefault(id(home.family.value), home.family)
        for made in self.made:
            tensor = made()
            if tensor is not None and type(tensor._data) is SplitPayload:
                tensor._data._memo = None
        waiting: list[Any] = self.trace.waiting()
        wanted = list({id(s.value): s.value for s in waiting}.values())
        waiting.clear()
        try:
            if wanted:
                with nullcontext() if self.native is None else knobs(backend=self.native):
                    self._compute(wanted, holders)
            else:
                self.trace.restart()
        except BaseException as error:
            for found in self.families:
                family = found()
                if family is not None:
                    family.error = error
            raise

    def _settle(self) -> BaseException | None:
        problem: BaseException | None = None
        taken = set(self.homes)
        for found in self.families:
            family = found()
            if family is not None and family.memory is None:
                problem = _own(family, taken) or problem
        for home in self.homes.values():
            try:
                home.settle()
            except BaseException as error:
                problem = error
        for made in self.made:
            tensor = made()
            if tensor is not None and type(tensor._data) is SplitPayload and tensor._data.storage.error is None:
                tensor._data = tensor._data.dense("cut")
        return problem

    # ---- orders in memory
    def orders_of(self, op: Op, args: tuple[Any, ...]) -> tuple[Order | None, ...]:
        """The order of dims that each result has in eager mode; () where all are row-major."""
        for a in args:
            if isinstance(a, Tensor):
                data = a._data
                if not (data.flags.c_contiguous if type(data) is ndarray else data.permuted is False):
                    break
            elif type(a) is tuple:
                break
        else:
            return ()
        if not is_permuted(args, None):
            return ()
        with _by_itself():
            return result_orders(op, args, None)


@contextmanager
def _by_itself() -> Iterator[None]:
    """Within the block operators are computed as they come, whatever holds for the user's."""
    state = (modes.grad, modes.special, modes.capture, defaults.stack)
    modes.grad, modes.special, modes.capture, defaults.stack = False, None, None, ()
    try:
        yield
    finally:
        modes.grad, modes.special, modes.capture, defaults.stack = state


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
    made = np.empty(array.size, array.dtype)
    size = array.dtype.itemsize
    out: Array = np.ndarray(array.shape, made.dtype, made, 0, tuple([s * size for s in geometry.strides]))
    out[...] = array
    return out
