"""One capture from start to end: stand-ins in, the function run once under the recorder, a graph with its sources and effects out."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft import guards
from weft.autograd.function_context import FunctionCtx
from weft.autograd.hooks import hooks_on
from weft.compile.arguments import NO_HOOKS, TensorFacts, facts_of, leaf_of, strides_of, symbolic_dims, with_given
from weft.compile.assignments import Older, assigned_values, assignments, containers_in
from weft.compile.bound_state import BoundState
from weft.compile.caches import empty_caches
from weft.compile.capture import Capture
from weft.compile.entry import Entry
from weft.compile.gradients import GradSlot
from weft.compile.joint import JointRecord, is_spent, made_leaves, record_backward, unfinished, wants_own_grad
from weft.compile.leaks import held_symbol
from weft.compile.memory import Memory, shows_a_gradient
from weft.compile.number_math import STANDS_FOR, recorded_math
from weft.compile.numbers import SymFloat, is_live, operand_of
from weft.compile.program_io import (
    ArgumentSource,
    GradBuffer,
    GradEffect,
    GradFlag,
    NumberSource,
    NumberWrite,
    Return,
    ReturnArgument,
    ReturnConstant,
    ReturnFresh,
    ReturnGrad,
    ReturnNumber,
    ReturnState,
    ReturnView,
    Shown,
    Source,
    StateSource,
)
from weft.compile.random_state import symbolic_generators
from weft.compile.restart import Restart
from weft.compile.symbolic import Path, SymbolicPayload, SymbolicStorage
from weft.compile.wrappers import opened, sealed
from weft.ir.graph import Operand, Value
from weft.ops.geometry import Geometry
from weft.ops.op import OPS
from weft.ops.overrides import armed
from weft.ops.packet import aten
from weft.passes.partition import partition
from weft.runtime.generator import Generator
from weft.runtime.storage import root_of
from weft.support import pytree, registry
from weft.support.interrupts import to_the_end
from weft.support.progress import progress
from weft.tensor.device import Device
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import wrapper_classes
from weft.types import dims
from weft.types import dtype as dtypes
from weft.types.dims import Dim, Expr
from weft.types.dtype import DType
from weft.types.sym import SymInt

if TYPE_CHECKING:
    from weft.compile.driver import CompiledFunction

@dataclass
class Outcome:
    """What a capture found, before it is a program."""

    capture: Capture
    leaves: list[Any]
    bound: BoundState
    sources: list[Source | None] = field(default_factory=list)
    results: list[Operand] = field(default_factory=list)
    late: list[tuple[str, int]] = field(default_factory=list)
    settings: list[Callable[[], None]] = field(default_factory=list)
    assigned: list[guards.ObjectWrite] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)
    raised: dict[int, tuple[Any, int]] = field(default_factory=dict)
    made_leaves: list[int] = field(default_factory=list)

    def leaf_of(self, tensor: Tensor) -> int | None:
        """Which argument a tensor is; None if the function reaches it otherwise."""
        return leaf_of(tensor, self.leaves)

    def result(self, operand: Operand) -> int:
        """The position of a new result."""
        self.results.append(operand)
        return len(self.results) - 1


def kinds(leaves: Iterable[Any] = ()) -> guards.Kinds:
    """The classes that guards on Python state must know. What hangs on the call's leaves is guarded with their other facts."""
    arguments = {id(leaf) for leaf in leaves}

    def is_recorded(leaf: Any) -> bool:
        return id(leaf) in arguments or (isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload)

    return guards.Kinds(
        leaves=(Tensor, Generator), said_by_leaves=("requires_grad", "is_leaf", "grad_fn", "retains_grad"), optimizers=tuple(registry.opaque_classes), modules=tuple(registry.module_classes), equal=(DType, Device),
        symbols=(SymInt, SymFloat), made=(FunctionCtx,), is_recorded=is_recorded, stands_for=STANDS_FOR, inputs=(Tensor,), open_packages=("weft.nn.", "weft.optim."),
    )


def record_entry(owner: CompiledFunction, leaves: list[Any], spec: pytree.TreeSpec, backend: str | None) -> Entry:
    """Capture `owner.function` on the leaves of its arguments. Raises Restart when it must be tried again with something lifted."""
    capture = Capture(owner.name)
    capture.knows_gradients = owner.knows_gradients
    progress().stage("recording", growing=capture.builder.nodes)
    del leaves[spec.size :]
    outcome = Outcome(capture, leaves, BoundState(owner.bound_slots(), leaves))
    stand_ins, facts = _stand_ins(owner, outcome, leaves)
    args, kwargs = pytree.unflatten(stand_ins[: spec.size], spec)
    bound = outcome.bound.values(stand_ins)
    with capture.active(), _settings(outcome), symbolic_generators(capture) as random:
        if wrapper_classes or armed:
            args, kwargs = opened((args, kwargs))
            bound = [(slot, opened(value)) for slot, value in bound]
        with recorded_math(), _substitution(owner, capture, bound) as substitution, _groups() as groups:  # while the records are put back too: they hold the stand-ins
            result, recorded = guards.record(
                owner.function, args, kwargs, kinds=kinds(leaves), substitution=substitution, at_end=empty_caches,
            )
            try:
                if wrapper_classes or armed:
                    result = sealed(result)
                capture.settle_grads()
                checks = recorded.guards
                if bound:
                    checks = checks.without([slot for slot, _ in bound], [c for _, value in bound for c in containers_in(value)])
                named = _tensors_in(checks.holds_on_to())
                _restart_for_sharing(owner, outcome, leaves, named)
                outcome.assigned = assignments(recorded.writes, owner, (args, kwargs), bound)
                capture.refuse_histories()
                capture.refuse_hooks()
                _refuse_groups(capture, groups)
                number_writes = _number_writes(outcome, recorded)
                others = (result, args, kwargs, [value for _, value in bound])
                tree = (result, assigned_values(outcome.assigned, others, recorded.is_older, kinds())) if outcome.assigned else result
                returns, carriers, result_spec = _returns(outcome, tree, stand_ins)
                if outcome.assigned:
                    first, last = result_spec.children[0].size, result_spec.size
                    outcome.spent = [i for i, leaf in enumerate(carriers) if first <= i < last and is_spent(capture, leaf)]
                _state_writes(outcome, stand_ins)
                grad_effects = _grad_effects(outcome)
                _bind_late(outcome, [r for r, _ in returns], number_writes, [state.stream.offset for state in random])
                outcome.made_leaves = made_leaves(capture, carriers)
                joint = _joint(outcome, carriers)
            finally:
                to_the_end(recorded.rollback)
    if recorded.names_of_leaves:
        facts = [with_given(f, v, recorded.names_of_leaves) if type(f) is TensorFacts else f for f, v in zip(facts, leaves, strict=True)]
    outcome.raised = capture.raised()
    capture.restore()
    arguments = {id(leaf) for leaf in leaves}
    memory = Memory(capture.states.values(), named - arguments, [t for t in recorded.leaves if isinstance(t, Tensor) and id(t) not in arguments])
    _fill_sources(outcome)
    graph = capture.builder.graph(outcome.results, outcome.writes)
    return Entry.build(
        owner, graph, capture, outcome, facts, leaves, spec, checks, returns, result_spec, grad_effects, number_writes, random, memory, backend,
        joint,
    )


def _joint(outcome: Outcome, carriers: list[Any]) -> tuple[JointRecord, int, list[int]] | None:
    """The backward of returned tensors (or of what they are views of) that require grad, recorded behind the forward; None when there are none."""
    outputs = unfinished(outcome.capture, carriers)
    if not outputs:
        return None
    fixed = len(outcome.results)
    record, gradients = record_backward(outcome.capture, outputs, outcome.leaves, carriers)
    outcome.results.extend(gradients)
    if outcome.capture.env.finds_sizes:
        fixed += _bind_sizes(outcome, fixed, record)
    positions = [next(i for i, carrier in enumerate(carriers) if carrier is out) for out in outputs]
    return record, fixed, positions


# ---- arguments
def _stand_ins(owner: CompiledFunction, outcome: Outcome, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
    capture = outcome.capture
    shared = _shared_storages(leaves)
    facts: list[Any] = []
    stand_ins: list[Any] = []
    made: dict[int, Tensor] = {}
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            is_static = leaf._is_param or outcome.bound.key_of(i) in owner.static or id(root_of(leaf._data)) in shared or hooks_on(leaf) != NO_HOOKS
            facts.append(facts_of(leaf, is_static))
            if is_static:
                stand_ins.append(leaf)
                _bind_argument_state(capture, leaf, i, outcome.bound.key_of(i) in owner.static)
            else:
                if id(leaf) not in made:
                    made[id(leaf)] = _stand_in(outcome, leaf, i, facts[-1])
                stand_ins.append(made[id(leaf)])
        elif ("leaf", outcome.bound.key_of(i)) in owner.lifted and type(leaf) in (int, float):
            facts.append(type(leaf))
            stand_ins.append(capture.lift_number(f"arg{i}", functools.partial(leaves.__getitem__, i), leaf, type(leaf) is float, i))
        else:
            facts.append(None)
            stand_ins.append(leaf)
    return stand_ins, facts


def _bind_argument_state(capture: Capture, leaf: Tensor, i: int, is_fixed: bool) -> None:
    """An argument whose memory is shared (with another argument, or with state) is an input by storage."""
    fixed = {id(s): s.is_fixed for s in capture.states.values()}
    slot = capture.payload_of(leaf).storage.slot
    slot.is_fixed = fixed.get(id(slot), slot.is_fixed)  # meeting another argument over the same storage fixes nothing
    if slot.leaf is None:
        slot.leaf, slot.is_fixed = i, is_fixed
    slot.own.add(id(leaf))


def _restart_for_sharing(owner: CompiledFunction, outcome: Outcome, leaves: list[Any], named: set[int]) -> None:
    """State that turned out to be an argument's memory, or memory that as_strided looks at: capture again with that argument as the state it is.

    named: ids of what the function reaches elsewhere. An argument that is one of these is the same thing to the function by both names.
    """
    roots = {id(root_of(leaf._data)): i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf._data.size}
    found = {roots[id(s.storage.array)] for s in outcome.capture.states.values() if id(s.storage.array) in roots and s.leaf is None}
    found |= {source.leaf for source in map(outcome.sources.__getitem__, outcome.capture.by_memory) if isinstance(source, ArgumentSource)}
    found |= {i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and id(leaf) in named}
    keys = {outcome.bound.key_of(leaf) for leaf in found} - owner.static
    if keys:
        raise Restart(static=keys)
    added_to = [(real, outcome.leaf_of(real)) for real in (outcome.capture.real(g.tensor) for g in outcome.capture.grads.values() if g.has is not None)]
    if shows_a_gradient(added_to, leaves, {id(root_of(slot.array)) for slot in outcome.capture.states.values()}):
        raise Restart(knows_gradients=True)


def _tensors_in(values: Iterable[Any]) -> set[int]:
    """The ids of the tensors among these values, and in tuples among them."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, Tensor):
            found.add(id(value))
        elif isinstance(value, tuple):
            found |= _tensors_in(value)
    return found


def _shared_storages(leaves: list[Any]) -> set[int]:
    """Roots that several different tensor arguments show."""
    seen: dict[int, int] = {}
    shared: set[int] = set()
    for leaf in leaves:
        if not isinstance(leaf, Tensor) or type(leaf._data) is not np.ndarray or leaf._data.size == 0:
            continue
        root = id(root_of(leaf._data))
        if seen.setdefault(root, id(leaf)) != id(leaf):
            shared.add(root)
    return shared


def _stand_in(outcome: Outcome, leaf: Tensor, i: int, fact: TensorFacts) -> Tensor:
    capture = outcome.capture
    dims = symbolic_dims(capture, leaf._data.shape)
    taken = tuple([1 if axis in fact.expanded else d for axis, d in enumerate(dims)])
    strides = symbolic_dims(capture, strides_of(leaf._data)) if fact.is_strided else None
    geometry = None if strides is None else Geometry(taken, strides)
    out = capture.symbolic_argument(leaf, f"arg{i}", taken, fact.permutation, geometry, dims if fact.expanded else None)
    at = len(capture.builder.params) - 1
    _put(outcome.sources, at, ArgumentSource(i, dims, fact.permutation, strides, False, expanded=fact.expanded))
    if fact.requires_grad:
        out._state().requires_grad = True
    vars(out).update(vars(leaf))
    return out


def _put(sources: list[Any], at: int, source: Source) -> None:
    sources.extend([None] * (at + 1 - len(sources)))
    sources[at] = source


# ---- numbers
def _substitution(owner: CompiledFunction, capture: Capture, bound: list[tuple[guards.Slot, Any]]) -> guards.Substitution:
    pairs = list(bound)
    for slot in owner.lifted_slots():
        value = slot.get()
        if type(value) not in (int, float):
            continue
        stand_in = capture.lift_number(str(slot.text), slot.get, value, type(value) is float)
        pairs.append((slot, stand_in))
    return guards.Substitution(pairs)


@contextmanager
def _settings(outcome: Outcome) -> Iterator[None]:
    """Grad mode and the default dtype as the function leaves them, for every call to leave them so; the capture itself leaves them alone."""
    grad, dtype = modes.grad, dtypes.get_default()
    try:
        yield
        if modes.grad is not grad:
            outcome.settings.append(partial(setattr, modes, "grad", modes.grad))
        if dtypes.get_default() is not dtype:
            outcome.settings.append(partial(dtypes.set_default, dtypes.get_default()))
    finally:
        modes.grad = grad
        dtypes.set_default(dtype)


Groups = list[tuple[dict[str, Any], dict[str, Any]]]  # parameter groups, and their options before the capture


@contextmanager
def _groups() -> Iterator[Groups]:
    """The options of every optimizer alive, which are put back."""
    before = [(group, {k: v for k, v in group.items() if k != "params"}) for o in list(registry.optimizers) for group in o.param_groups]
    try:
        yield before
    finally:
        for group, options in before:
            for key in [k for k in group if k != "params" and k not in options]:
                del group[key]
            group.update(options)


def _refuse_groups(capture: Capture, groups: Groups) -> None:
    """Raises CaptureError if the function changes an option of an optimizer."""
    for group, options in groups:
        changed = next((k for k in {**options, **group} if k != "params" and group.get(k) is not options.get(k)), None)
        if changed is not None:
            raise capture.refuse(
                f"{capture.root.name} changes {changed!r} of an optimizer's parameter group from {options.get(changed)!r} to {group.get(changed)!r}; "
                "change it outside of the compiled function, which takes the new value up"
            )


def _number_writes(outcome: Outcome, recorded: guards.Recording) -> list[NumberWrite]:
    found = []
    for write in recorded.writes:
        if isinstance(write, guards.ObjectWrite):
            continue
        value = write.value
        position, dim = None, None
        if isinstance(value, SymFloat) and is_live(value):
            position = outcome.result(value.value)
        else:
            dim = operand_of(value)
        found.append(NumberWrite(write.target.put, position, dim))
    return found


# ---- results
def _returns(outcome: Outcome, result: Any, stand_ins: list[Any]) -> tuple[list[tuple[Return, int]], list[Any], pytree.TreeSpec]:
    """What becomes of each leaf of the result, with the first leaf that is the same tensor; behind them, of the tensors that returned views are views of.

    Also, for each, the tensor that carries its history (None for views, whose history follows from their base).
    """
    leaves, spec = pytree.flatten(result)
    positions: dict[int, int] = {}
    groups: dict[int, int] = {}
    returns: list[tuple[Return, int]] = []
    carriers = [leaf for leaf in leaves]
    for i, leaf in enumerate(leaves):
        group = groups.setdefault(id(leaf), i) if isinstance(leaf, Tensor) else i
        returns.append((_return(outcome, leaf, stand_ins, positions), group))
    for i, leaf in enumerate(leaves):
        path = _view_path(leaf)
        if path is None:
            continue
        root = groups.setdefault(id(leaf._view.base), len(returns))
        if root == len(returns):
            returns.append((_return(outcome, leaf._view.base, stand_ins, positions), root))
            carriers.append(leaf._view.base)
        returns[i], carriers[i] = (ReturnView(root, path, leaf._view.creation not in ("no_grad", "inference")), returns[i][1]), None
    return returns, carriers, spec


def _view_path(leaf: Any) -> Path | None:
    """The view operators that lead to a returned tensor from its base, where the base is one memory and no tensor says where to look."""
    if not isinstance(leaf, Tensor) or leaf._view is None or type(leaf._data) is not SymbolicPayload or wants_own_grad(leaf):
        return None
    base, path = leaf._view.base, leaf._view.path
    data = base._data
    if type(data) is SymbolicPayload and (data.path or data.storage is not leaf._data.storage):
        return None
    if any(isinstance(a, (Tensor, Value)) for _, args, _ in path for a in args):
        return None
    return path


def _return(outcome: Outcome, leaf: Any, stand_ins: list[Any], positions: dict[int, int]) -> Return:
    if isinstance(leaf, SymInt):
        return ReturnNumber(None, leaf.expr)
    if isinstance(leaf, SymFloat):
        return ReturnNumber(outcome.result(leaf.value), None) if is_live(leaf) else ReturnConstant(leaf.now())
    if not isinstance(leaf, Tensor):
        if isinstance(leaf, Older):
            return ReturnConstant(leaf.value)
        if isinstance(leaf, (Iterator, Coroutine, AsyncIterator)):
            raise outcome.capture.refuse(
                f"{outcome.capture.root.name} returns a {type(leaf).__name__}, which later calls would find used up; return a list of its items instead"
            )
        if held_symbol(leaf) is not None:
            raise outcome.capture.refuse(
                f"{outcome.capture.root.name} returns an object of type {type(leaf).__name__} that holds tensors made in this call; return them in a "
                "tuple, list, dict, named tuple or dataclass"
            )
        return ReturnConstant(leaf)
    for i, stand_in in enumerate(stand_ins):
        if stand_in is leaf:
            return ReturnArgument(i, None)
    returned = _return_grad(outcome, leaf)
    if returned is not None:
        return returned
    data = outcome.capture.payload_of(leaf) if outcome.capture.is_alias(leaf) else leaf._data
    if type(data) is np.ndarray:
        return ReturnState(leaf, None, None)
    assert isinstance(data, SymbolicPayload)
    storage = data.storage
    if data.path or storage.partner is not None:
        storage.ask()  # the caller may write what it gets: whether that is an alias hangs on these questions
    if storage.slot is not None:
        return ReturnState(None, storage.slot, _shown(data))
    for i, stand_in in enumerate(stand_ins):
        if isinstance(stand_in, Tensor) and type(stand_in._data) is SymbolicPayload and stand_in._data.storage is storage:
            return ReturnArgument(i, _shown(data))
    if id(storage) not in positions:
        positions[id(storage)] = outcome.result(_in_memory_order(outcome.capture, storage))
    return ReturnFresh(positions[id(storage)], _shown(data) if data.path or storage.order is not None else None)


def _return_grad(outcome: Outcome, leaf: Tensor) -> Return | None:
    """A returned tensor that is the `.grad` of a leaf, or shows its memory: the caller gets the object that the leaf has then."""
    data = leaf._data
    for slot in outcome.capture.grads.values():
        current = slot.current
        if not isinstance(current, Tensor) or current.requires_grad or leaf.requires_grad:
            continue
        if current is leaf:
            shown = None
        elif slot.touched and type(data) is type(current._data) is SymbolicPayload and data.storage is current._data.storage and not current._data.path:
            data.storage.ask()
            shown = _shown(data)
        else:
            continue
        real = outcome.capture.real(slot.tensor)
        return ReturnGrad(real, outcome.leaf_of(real), shown)
    return None


def _bind_late(outcome: Outcome, returns: list[Return], writes: list[NumberWrite], offsets: list[Dim]) -> None:
    """Numbers that outlive the program's run and hang on sizes that it finds: their symbols come out as results."""
    found = [*offsets, *(w.dim for w in writes), *(r.dim for r in returns if isinstance(r, ReturnNumber))]
    for r in returns:
        if isinstance(r, (ReturnFresh, ReturnState, ReturnArgument, ReturnGrad)) and r.shown is not None:
            found += [*r.shown.geometry.dims, *r.shown.geometry.strides, r.shown.geometry.offset]
    found += [size for r in returns if isinstance(r, ReturnView) for _, args, _ in r.path for size in _sizes_in(args)]
    capture = outcome.capture
    for name in sorted({s for d in found if isinstance(d, Expr) for s in d.symbols() if s not in capture.env.examples}):
        outcome.late.append((name, outcome.result(_size_value(capture, name))))


def _sizes_in(value: Any) -> Iterator[Dim]:
    """The symbolic numbers among a view's arguments."""
    if type(value) is Expr:
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from _sizes_in(part)


def _size_value(capture: Capture, name: str) -> Operand:
    """A size that the program finds, as a number that it can return."""
    value = capture.run_time.get(name)
    return value if value is not None else capture.operand(aten.full((), SymInt(dims.symbol(name), capture.env), dtype=dtypes.int64))


def _bind_sizes(outcome: Outcome, fixed: int, record: JointRecord) -> int:
    """Sizes that the forward finds and the backward goes by come out as results too, before the gradients. Returns how many these are."""
    capture, known = outcome.capture, {name for name, _ in outcome.late}
    halves = partition(capture.builder.graph(outcome.results, outcome.writes), fixed, record.tangents, record.start)
    names = sorted(set(halves.sizes.values()) - known)
    outcome.results[fixed:fixed] = [_size_value(capture, name) for name in names]
    outcome.late += [(name, fixed + i) for i, name in enumerate(names)]
    return len(names)


def _shown(data: SymbolicPayload) -> Shown:
    assert data.type.dtype is not None
    return Shown(data.geometry(), data.type.dtype.numpy)


def _in_memory_order(capture: Capture, storage: SymbolicStorage) -> Operand:
    """A storage's value with its dims from the outermost in memory inwards: results lie row-major."""
    if storage.order is None:
        return storage.value
    return capture.builder.emit(OPS["aten::permute"], (storage.value, storage.order)).output


def _state_writes(outcome: Outcome, stand_ins: list[Any]) -> None:
    """Storages whose value changed are written back into their inputs."""
    done: set[int] = set()
    for slot in outcome.capture.states.values():
        if slot.written:
            outcome.writes.append((outcome.result(slot.symbolic.value), slot.param))
    for stand_in in stand_ins:
        if not isinstance(stand_in, Tensor) or type(stand_in._data) is not SymbolicPayload:
            continue
        storage: SymbolicStorage = stand_in._data.storage
        if storage.generation and id(storage) not in done:
            done.add(id(storage))
            outcome.writes.append((outcome.result(storage.value), _param_of(outcome, storage)))


def _param_of(outcome: Outcome, storage: SymbolicStorage) -> int:
    at = storage.param
    assert at is not None
    source = outcome.sources[at]
    assert isinstance(source, ArgumentSource)
    outcome.sources[at] = replace(source, written=True, counter=id(storage))
    return at


def _grad_effects(outcome: Outcome) -> list[GradEffect]:
    capture = outcome.capture
    effects = []
    for slot in capture.grads.values():
        real = capture.real(slot.tensor)
        if not slot.touched:
            continue
        current, leaf = slot.current, outcome.leaf_of(real)
        if current is None:
            effects.append(GradEffect(slot, real, None, None, leaf))
            continue
        data = current._data
        if type(data) is np.ndarray:
            effects.append(GradEffect(slot, real, current, None, leaf))
            continue
        param = slot.param if slot.param is not None else _grad_buffer(capture, slot)
        _put(outcome.sources, param, GradBuffer(slot, real, leaf))
        if slot.has is not None:
            _put(outcome.sources, slot.has, GradFlag(slot, real, leaf))
        outcome.writes.append((outcome.result(data.read()), param))
        effects.append(GradEffect(slot, real, None, param, leaf))
    return effects


def _grad_buffer(capture: Capture, slot: GradSlot) -> int:
    capture.builder.param(slot.current._data.type, f"grad{len(capture.builder.params)}")
    return len(capture.builder.params) - 1


def _fill_sources(outcome: Outcome) -> None:
    capture = outcome.capture
    for state in capture.states.values():
        _put(outcome.sources, state.param, StateSource(state))
    for number in capture.numbers:
        if number.param is not None:
            _put(outcome.sources, number.param, NumberSource(number))
    for slot in capture.grads.values():
        real = capture.real(slot.tensor)
        if slot.param is not None and outcome.sources[slot.param : slot.param + 1] in ([], [None]):
            _put(outcome.sources, slot.param, GradBuffer(slot, real, outcome.leaf_of(real)))
            assert slot.has is not None
            _put(outcome.sources, slot.has, GradFlag(slot, real, outcome.leaf_of(real)))
    assert None not in outcome.sources, "a parameter of the graph has no source"
