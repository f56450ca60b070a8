"""The runs of compiled forwards within a backward call: what each takes, once it is known which gradients arrive."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from weft.autograd.accumulate import accumulator_of
from weft.autograd.node import Node
from weft.autograd.saved import SavedTensor
from weft.compiled_autograd.forms import FLOAT, FLOATS, HANDS_ON, INTS, OBJECTS, SIZES, TENSORS, Copied
from weft.programs.inlining import Inlined, Whole
from weft.tensor.tensor import Tensor

Saved = tuple[SavedTensor, Node]  # where a tensor was saved, so that its version can be looked at again
Arriving = tuple[bool, ...]  # which gradients of results there are
LISTS = (TENSORS, SIZES, INTS, FLOATS, OBJECTS)
NO_LISTS: dict[str, list[Any]] = {name: [] for name in LISTS}  # of a call without programs


class _Spent(NamedTuple):
    """A run that is done: its form, and what it added to the lists, without tensors and objects."""

    form: Copied
    values: tuple[list[Any], ...]


class ProgramRuns:
    """The runs in the order in which they are asked for, and lists of what they take."""

    def __init__(self, others: Mapping[Any, int]) -> None:
        """others: the places of tensors that other nodes saved, by identity."""
        self._others = others
        self.lists: dict[str, list[Any]] = {name: [] for name in LISTS}
        self.saved: list[Saved | None] = []  # beside the tensors
        self._places: dict[Any, int] = {}
        self._runs: dict[Any, Inlined | _Spent | str | None] = {}  # by node, gradients and needs
        self._added: dict[Any, _Spent] = {}  # since the lists were empty

    def restart(self) -> None:
        """Empty the lists: the runs are asked for from the first one on."""
        for values in self.lists.values():
            values.clear()
        self.saved.clear()
        self._places.clear()
        self._added.clear()

    def form(self, node: Any, arriving: Arriving, needs: tuple[bool, ...]) -> Copied | str | None:
        """The form of a run for gradients of some results, which gives those that are needed: a body to copy, HANDS_ON,
        or None where it is called. What stands beside it is added to the lists."""
        question = (node, arriving, needs)
        if question not in self._runs:
            self._runs[question] = _run_of(node, arriving, needs)
        run = self._runs[question]
        lists = self.lists
        if isinstance(run, _Spent):
            for name, values in zip(LISTS, run.values, strict=True):
                lists[name] += values
            self.saved += [None] * len(run.values[0])
            self._added[question] = run
            return run.form
        if not isinstance(run, Inlined):
            return run
        marks = [len(values) for values in lists.values()]
        taken = tuple([
            self._tensor(x, None if packed is None else (packed, node)) if isinstance(x, Tensor) else FLOAT
            for x, packed in run.taken
        ])
        lists[FLOATS] += [x for x, _ in run.taken if not isinstance(x, Tensor)]
        for symbol, number in zip(run.body.symbols, run.numbers, strict=True):
            lists[SIZES if is_size(symbol) else INTS].append(number)
        edges = tuple([(edge, self._given(part)) for edge, part in run.edges.items()])
        form = Copied(run.body, taken, run.tangents, edges)
        tensors, sizes, ints, floats, objects = [
            values[mark:] for values, mark in zip(lists.values(), marks, strict=True)
        ]
        self._added[question] = _Spent(
            form, ([None] * len(tensors), sizes, ints, floats, [None] * len(objects))
        )
        return form

    def _tensor(self, tensor: Any, saved: Saved | None) -> int:
        identity = identity_of(tensor)
        at = self._others.get(identity)
        if at is not None:
            return at
        at = self._places.get(identity)
        if at is None:
            at = self._places[identity] = len(self.saved)
            self.lists[TENSORS].append(tensor)
            self.saved.append(saved)
        return -1 - at

    def _given(self, part: int | Whole) -> Any:
        """The form of a gradient: a result of the body by number, or a wrapper of several, by its parts."""
        if type(part) is not Whole:
            return part
        parts = tuple([self._given(p) for p in part.parts])
        self.lists[OBJECTS].append(part.node)
        return parts

    def let_go(self) -> None:
        """Keep no tensors: a graph has them now."""
        for name in (TENSORS, OBJECTS):
            self.lists[name][:] = [None] * len(self.lists[name])
        self.saved = [None] * len(self.saved)
        self._places.clear()
        self._runs.update(self._added)

    def keep_only(self, finished: Collection[Node]) -> None:
        """Runs of other nodes are asked for anew."""
        self._runs = {question: run for question, run in self._runs.items() if question[0] in finished}


def _run_of(node: Any, arriving: Arriving, needs: tuple[bool, ...]) -> Inlined | str | None:
    grads = tuple([True if there else None for there in arriving])
    hands_on = node.hands_on(grads, needs)
    if hands_on or True not in needs:
        node.pass_on(grads)
        return HANDS_ON if hands_on else None
    return node.inlined(grads, needs)  # type: ignore[no-any-return]


def is_size(symbol: str) -> bool:
    """Whether a symbol of a body is a size (never negative); others are numbers."""
    return symbol[0] == "s"


def identity_of(tensor: Any) -> Any:
    """What makes two saved tensors one: payload and history."""
    state = tensor._autograd
    if state is None:
        return id(tensor._data)
    if state.node is None and state.requires_grad:
        return (id(tensor._data), id(accumulator_of(tensor)))  # (a detached leaf of the same memory is another one)
    return (id(tensor._data), id(state.node), state.index, state.requires_grad)
