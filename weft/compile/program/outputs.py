"""What a call gets back: the tensors, views and numbers that a program's results become, and the places that they are
assigned to.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weft.autograd.views import follow
from weft.compile.program.again import Again, joined
from weft.compile.program.argument_writes import ArgumentGradient, ArgumentPlace, LogPlace
from weft.compile.program.call_leaves import CallLeaves, memo_of
from weft.compile.program.call_plan import Symbols, number_of, target_of
from weft.compile.program.container_identity import container_at
from weft.compile.program.kept_up import KeptUp
from weft.guards import ObjectWrite
from weft.programs.argument_histories import NOTHING, Before, HistoryChanges, SpentBackward
from weft.programs.higher_order import as_it_was, is_written
from weft.programs.joint import JointProgram
from weft.programs.program_io import (
    EarlierGradient,
    Return,
    ReturnArgument,
    ReturnConstant,
    ReturnContainer,
    ReturnFresh,
    ReturnGrad,
    ReturnNumber,
    ReturnState,
    ReturnView,
    Shown,
)
from weft.record.gradients import present_grad
from weft.record.wrappers import Desugared, resugar
from weft.support import pytree
from weft.tensor.history import ViewOf
from weft.tensor.modes import modes, set_grad_enabled
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dims as dm
from weft.types.dims import Expr


@dataclass(eq=False)
class Outputs:
    """The results of a program as its caller sees them.

    returns: for each leaf what it is, and the first leaf that is the same tensor. leaves_grad: grad mode as the
    function leaves it, if it changes it. assigned: places that get what the function assigned to them. spent:
    assigned tensors, and those that assigned ones show, through which the function ran backward. made_leaves: results
    that are leaves of the function's own making; retained: others whose gradients are kept; gradients: results, and
    those that are their gradients; earlier: gradients of the call's beginning that it gives. late: symbols that the
    program's run binds, and the results that hold them. changes: of the histories of arguments.
    """

    returns: list[tuple[Return, int]]
    spec: pytree.TreeSpec
    leaves_grad: bool | None
    assigned: Sequence[ObjectWrite]
    spent: Sequence[int]
    late: Sequence[tuple[str, int]]
    made_leaves: Sequence[int]
    retained: Sequence[int]
    gradients: Sequence[tuple[int, int]]
    earlier: Sequence[EarlierGradient]
    changes: HistoryChanges
    joint: JointProgram | None
    sources: list[Any]

    def __post_init__(self) -> None:
        self.shared: list[int] | None = None  # positions of results to copy, known once the program has run
        views = [(i, r, group) for i, (r, group) in enumerate(self.returns) if type(r) is ReturnView]
        self.writes_containers = any(isinstance(write.target, ArgumentPlace) for write in self.assigned)
        self.gives_containers = self.writes_containers or any(type(r) is ReturnContainer for r, _ in self.returns)
        self.gives_wrappers = self.spec.holds(Desugared)  # taken apart
        self.is_joined = any(type(r) is ReturnConstant and type(r.value) is Again for r, _ in self.returns)
        self.views = [view for view in views if view[1].creation is None]
        self.of_functions = [view for view in views if view[1].creation is not None]
        fresh = [
            r.position for r, _ in self.returns if type(r) is ReturnFresh and r.shown is None and r.position is not None
        ]
        read = () if self.joint is None else self.joint.gradients.read
        # what gradients that are differentiated again read of inputs that the program writes
        self.overwritten = [i for i in read if i < len(self.sources) and is_written(self.sources[i])]
        self.all_fresh = fresh if len(set(fresh)) == len(self.returns) else None

    def names(self, tensors: Container[int]) -> bool:
        """Whether a tensor from outside that is returned as it is has one of these ids."""
        return any(type(r) is ReturnState and id(r.tensor) in tensors for r, _ in self.returns)

    def separate(self, results: list[Any], inputs: list[Any], symbols: Symbols) -> None:
        """Copy results that are memory of an input or of another one, and bind the symbols that the run has found."""
        for position in self._shared(results, inputs) if self.shared is None else self.shared:
            results[position] = results[position].copy(order="C")
        for name, position in self.late:
            symbols[name] = int(results[position])

    def remembered(self, leaves: list[Any], inputs: list[Any]) -> Before:
        """What the program is about to overwrite. Raises StateError where eager mode refuses to write an argument."""
        changes = self.changes
        gradients = [present_grad(target_of(one, leaves)) for one in self.earlier]
        is_recorded = modes.grad or self.joint is not None
        if not is_recorded or not (self.overwritten or changes.written or changes.detached or changes.reshaped):
            return Before({}, {}, gradients) if gradients else NOTHING
        changes.check(leaves)
        values = {i: as_it_was(self.sources[i], leaves, inputs[i]) for i in self.overwritten}
        return Before(values, changes.edges(leaves), gradients)

    def make(
        self, leaves: list[Any], inputs: list[Any], results: list[Any], symbols: Symbols, kept_up: KeptUp,
        before: Before,
    ) -> Any:
        """The call's result. Assignments are made too, but for those that are `kept_up` already. before: what was
        `remembered`."""
        fresh = self.all_fresh
        if fresh is None:
            returned = self._rebuild(leaves, results, symbols, before)
        else:
            returned = [tensor_around(results[i]) for i in fresh]
        for i in self.made_leaves:
            returned[i]._state().requires_grad = True
        self.changes.settle(leaves, partial(_numbers, symbols=symbols))
        shown = self._bare(returned, symbols) if self.of_functions else ()
        try:
            if self.joint is not None:
                self.joint.attach(self.sources, leaves, inputs, results, symbols, returned, before)
            for tensor, view in shown:
                tensor._view, tensor._state().version = view, tensor._version
        finally:  # hooks that take what is saved may end the call: the step has been made, and its state is whole
            result = self._finished(returned, symbols, kept_up, leaves)
        return result

    def _finished(
        self, returned: list[Any], symbols: Symbols, kept_up: KeptUp, leaves: list[Any]
    ) -> Any:
        """The call's result, once all that was assigned is in its place."""
        self._spend(ReturnFresh, returned)
        if self.views:
            self._follow(self.views, returned, symbols)
        self._spend(ReturnView, returned)
        self._give_gradients(returned)
        if modes.inference:
            self._mark(returned)
        if self.leaves_grad is not None:
            modes.grad = self.leaves_grad
        build = joined if self.is_joined else pytree.unflatten
        if not self.assigned:
            return build(returned, self.spec)
        result, values = build(returned, self.spec)
        if self.gives_wrappers:
            result, values = resugar((result, values), memo_of(leaves))
        # (where they stand before the first assignment: an object may hold another one behind it)
        written = self._written(leaves) if self.writes_containers else ()
        for at in range(len(kept_up.writes), len(self.assigned)):
            place = self.assigned[at].target
            if isinstance(place, ArgumentPlace):
                place = place.place_in(written[at])
            elif isinstance(place, ArgumentGradient):
                place = place.place_for(leaves)
            elif isinstance(place, LogPlace):
                place = place.place_now()
            kept_up.put(self.assigned[at], place, values[at])
        return result

    def _written(self, leaves: list[Any]) -> list[Any]:
        """For each assignment into a container of the call's arguments, that container (None for others): where it
        stands before the first one is made."""
        assert isinstance(leaves, CallLeaves)
        if leaves.written is None:
            targets = [write.target for write in self.assigned]
            leaves.written = [t.container(leaves.tree) if isinstance(t, ArgumentPlace) else None for t in targets]
        return leaves.written

    def _spend(self, kind: type[Return], tensors: list[Any]) -> None:
        """Give results of a kind the history that the function has run backward through; views of them have it too."""
        for i in self.spent:
            if type(self.returns[i][0]) is kind:
                SpentBackward.put_on(tensors[i])

    def _give_gradients(self, tensors: list[Any]) -> None:
        """Results have the gradients that the function gave them, and go on keeping those that come."""
        for i, at in self.gradients:
            tensors[i]._state().grad = tensors[at]
        for i in self.retained:
            if tensors[i].requires_grad:  # else its history is spent, and nothing comes
                tensors[i].retain_grad()

    def _mark(self, tensors: list[Any]) -> None:
        """What a call in inference mode makes is an inference tensor; a view is what its base is."""
        for tensor, (kind, _) in zip(tensors, self.returns, strict=True):
            if type(kind) is ReturnFresh and isinstance(tensor, Tensor):
                tensor.storage().is_inference = True

    def _bare(self, tensors: list[Any], symbols: Symbols) -> list[tuple[Tensor, ViewOf]]:
        """Make the returned views that custom Functions gave, each a tensor of its own until it has its history; and
        say what each is a view of."""
        self._follow(self.of_functions, tensors, symbols)
        shown = []
        for i, view, group in self.of_functions:
            if group == i:
                tensors[i]._view.creation = view.creation
                shown.append((tensors[i], tensors[i]._view))
                tensors[i]._view = None
        return shown

    def _follow(self, views: Sequence[tuple[int, ReturnView, int]], tensors: list[Any], symbols: Symbols) -> None:
        """Make returned views of what they are views of."""
        for i, view, group in views:
            if group < i:
                tensors[i] = tensors[group]
                continue
            path = tuple((op, _numbers(args, symbols), index) for op, args, index in view.path)
            with set_grad_enabled(view.is_recorded and view.earlier is None):
                tensors[i] = follow(tensors[view.root], path)
            if view.earlier is not None:
                tensors[i]._view.creation = view.earlier

    def _shared(self, results: list[Any], inputs: list[Any]) -> list[int]:
        """Results that the caller gets and that are an input's array or another result's (equal computations are made
        once): they are copied.
        """
        taken = {id(x) for x in inputs}
        positions = []
        for position in sorted({r.position for r, _ in self.returns if type(r) is ReturnFresh}):
            if isinstance(results[position], np.ndarray) and id(results[position]) in taken:
                positions.append(position)
            taken.add(id(results[position]))
        self.shared = positions
        return positions

    def _rebuild(self, leaves: list[Any], results: list[Any], symbols: Symbols, before: Before) -> list[Any]:
        rebuilt: list[Any] = []
        bases: dict[int, Tensor] = {}
        for returned, group in self.returns:
            if type(returned) is EarlierGradient:
                rebuilt.append(before.gradients[returned.number])
                continue
            rebuilt.append(
                rebuilt[group] if group < len(rebuilt) else self._returned(returned, leaves, results, symbols, bases)
            )
        return rebuilt  # (views, and tensors that only they show, follow once there is a history)

    def _returned(
        self, returned: Return, leaves: list[Any], results: list[Any], symbols: Symbols, bases: dict[int, Tensor]
    ) -> Any:
        kind = type(returned)
        if kind is ReturnView:
            return None
        if kind is ReturnConstant:
            return returned.value  # type: ignore[union-attr]
        if kind is ReturnContainer:
            place: Any = returned.slot  # type: ignore[union-attr]
            tree = leaves.tree if place is None else place.get()  # type: ignore[attr-defined]
            return container_at(tree, returned.path)  # type: ignore[union-attr, arg-type]
        if kind is ReturnFresh:
            base = bases.get(returned.position)  # type: ignore[union-attr, arg-type]
            if base is None:
                base = bases[returned.position] = tensor_around(results[returned.position])  # type: ignore[union-attr, index]
            elif returned.shown is None:  # type: ignore[union-attr]
                return _same_memory(base)  # a detached tensor beside its source
            return base if returned.shown is None else _seen_through(base, returned.shown, symbols)  # type: ignore[union-attr]
        if kind is ReturnArgument:
            leaf = leaves[returned.leaf]  # type: ignore[union-attr, index]
            return leaf if returned.shown is None else _seen_through(leaf, returned.shown, symbols)  # type: ignore[union-attr]
        if kind is ReturnGrad:
            gradient = target_of(returned, leaves).grad  # type: ignore[arg-type]
            if returned.shown is None or gradient is None:  # type: ignore[union-attr]
                return gradient
            return _seen_through(gradient, returned.shown, symbols)  # type: ignore[union-attr]
        if kind is ReturnState:
            if returned.tensor is not None:  # type: ignore[union-attr]
                return returned.tensor  # type: ignore[union-attr]
            slot = returned.slot  # type: ignore[union-attr]
            owner = slot.tensor if slot.leaf is None else leaves[slot.leaf]  # type: ignore[union-attr]
            return _seen_through(owner, returned.shown, symbols, from_storage=True)  # type: ignore[union-attr, arg-type]
        assert isinstance(returned, ReturnNumber)
        if returned.position is None:
            return number_of(returned.dim, symbols)
        number = results[returned.position]
        return number.item() if isinstance(number, np.ndarray) else number


def _same_memory(base: Tensor) -> Tensor:
    """Another tensor over a tensor's memory."""
    out = tensor_around(base._data)
    out._storage = base.storage()
    return out


def _numbers(value: Any, symbols: Symbols) -> Any:
    """An argument with the call's numbers for its symbols."""
    if type(value) is tuple:
        return tuple([_numbers(v, symbols) for v in value])
    return dm.evaluate(value, symbols) if type(value) is Expr else value


def _seen_through(base: Tensor, shown: Shown, symbols: Symbols, from_storage: bool = False) -> Tensor:
    """A tensor over base's storage that shows what the function's view did (from base's first element, or from the
    storage's).
    """
    data, geometry = base._data, shown.geometry
    storage = base.storage()
    size = shown.dtype.itemsize
    start = 0 if from_storage else storage.offset_of(data) * data.dtype.itemsize
    dims = tuple(dm.evaluate(d, symbols) for d in geometry.dims)
    strides = tuple(dm.evaluate(s, symbols) * size for s in geometry.strides)
    if 0 in dims:  # there may be no memory that could be shown
        out = tensor_around(np.empty(dims, shown.dtype))
    else:
        place = start + dm.evaluate(geometry.offset, symbols) * size
        out = tensor_around(np.ndarray(dims, shown.dtype, storage.array, place, strides))
    out._storage = storage
    return out
