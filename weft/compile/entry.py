"""Entry: one captured program with its guards. `match` says whether a call fits (and binds its symbols), `run` makes the call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from weft.autograd.hooks import hooks_on
from weft.autograd.node import RemovableHandle
from weft.autograd.saved import default_hooks
from weft.autograd.views import follow
from weft.compile.arguments import (
    TensorFacts,
    expanded_dims,
    facts_of,
    layout_of,
    leaf_of,
    sharing_pattern,
    shown_once,
    strides_of,
    with_given,
)
from weft.compile.bound_state import BoundState
from weft.compile.call_plan import Effects, Inputs, Symbols, number_of, target_of
from weft.compile.capture import Capture
from weft.compile.executable import Compiled, Interpreted, make_executable
from weft.compile.gradients import present_grad
from weft.compile.joint import JointProgram, SpentBackward
from weft.compile.lifted import StateGuard
from weft.compile.memory import Memory, Place, shows_a_gradient
from weft.compile.program_io import (
    ArgumentSource,
    GradBuffer,
    GradEffect,
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
)
from weft.compile.quick_match import quick_match
from weft.compile.random_state import RandomState
from weft.compile.state import base_like
from weft.compile.wrappers import opened
from weft.guards import ObjectWrite
from weft.guards.values import MISSING, same
from weft.ir.graph import Graph
from weft.ops.overrides import armed
from weft.runtime.program import Interrupted
from weft.runtime.storage import root_of
from weft.support import pytree, registry
from weft.support.interrupts import to_the_end
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import wrapper_classes
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.shape_env import ShapeEnv

if TYPE_CHECKING:
    from weft.compile.driver import CompiledFunction

ndarray = np.ndarray


@final
@dataclass
class Miss:
    """Why a program does not fit a call. `depth` orders misses by how far the check came; `lift`: the numbers that changed; `leaf`: the argument's leaf
    that the text is about."""

    text: str
    depth: int
    lift: tuple[tuple[Any, Any], ...] = ()
    leaf: int | None = None


@dataclass(eq=False)
class Entry:
    """One program. Made by recording.record_entry."""

    owner: CompiledFunction
    graph: Graph
    capture: Capture
    sources: list[Any]
    facts: list[Any]
    constants: list[Any]
    spec: pytree.TreeSpec
    guards: Any
    returns: list[tuple[Return, int]]
    result_spec: pytree.TreeSpec
    executable: Interpreted | Compiled
    grad_mode: bool
    default_dtype: Any
    shape_check: Callable[..., bool]
    shape_names: tuple[str, ...]
    inputs: Inputs
    effects: Effects
    random: list[RandomState]
    memory: Memory
    bound: BoundState
    joint: JointProgram | None = None
    sharing: tuple[tuple[int, int], ...] = ()
    shared: list[int] | None = None  # positions of results to copy, known once the program has run
    settings: Sequence[Callable[[], None]] = ()  # modes as the function leaves them
    assigned: Sequence[ObjectWrite] = ()  # places that get what the function assigned to them
    spent: Sequence[int] = ()  # assigned tensors through which the function ran backward
    late: Sequence[tuple[str, int]] = ()  # symbols that the program's run binds, and the results that hold them
    made_leaves: Sequence[int] = ()  # results that are leaves of the function's own making
    seconds_total: float = 0.0  # of capture and compilation
    seconds_compile: float = 0.0

    @classmethod
    def build(
        cls, owner: CompiledFunction, graph: Graph, capture: Capture, outcome: Any, facts: list[Any], leaves: list[Any], spec: pytree.TreeSpec,
        guards: Any, returns: list[tuple[Return, int]], result_spec: pytree.TreeSpec, grad_effects: list[GradEffect],
        number_writes: list[NumberWrite], random: list[RandomState], memory: Memory, backend: str | None, joint: Any = None,
    ) -> Entry:
        """Compile the graph and put the guards together (passes may add questions about sizes, so the check is made last)."""
        program = None
        if joint is not None:
            record, fixed, positions = joint
            program = JointProgram.build(graph, record, fixed, positions, backend)
            graph = program.halves.forward
        start = time.perf_counter()
        executable = make_executable(graph, backend)
        seconds = time.perf_counter() - start
        check, names = shape_check(capture.env)
        constants = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        entry = cls(
            owner, graph, capture, outcome.sources, facts, constants, spec, guards, returns, result_spec, executable, modes.grad, dt.get_default(),
            check, names, Inputs(outcome.sources), Effects(graph, outcome.sources, grad_effects, number_writes, random, outcome.raised, memory),
            random, memory, outcome.bound, program, sharing_pattern(leaves), None, outcome.settings, outcome.assigned, outcome.spent, outcome.late,
            outcome.made_leaves,
        )
        entry.seconds_compile = seconds
        entry._prepare(leaves)
        return entry

    def _prepare(self, leaves: list[Any]) -> None:
        """Sort the guards on state once."""
        states = list(self.capture.states.values())
        self.by_argument: list[Any] = [s for s in states if s.leaf is not None]
        self.outside = self.memory.outside
        self.accumulated = [(g.tensor, g.leaf) for g in self.sources if type(g) is GradBuffer and g.slot.has is not None]
        reads = [(self.capture.real(g.tensor), g.present) for g in self.capture.grads.values() if g.present is not None]
        self.presence = [(leaf_of(tensor, leaves), tensor, present) for tensor, present in reads]
        arguments = {i for s in states for i in s.own}  # their hooks are checked with their other facts
        self.hooks = [(t, hooks_on(t)) for i, (t, _, _) in self.capture.wants_grad.items() if i not in arguments]
        self.saving = default_hooks.stack
        self.hooks_everywhere = _hooks_everywhere()
        self.hook_changes = RemovableHandle.changes
        self.spent = [i for i in self.spent if type(self.returns[i][0]) is ReturnFresh]
        numbers = self.capture.numbers
        self.outer_numbers = [(n.key, n.getter) for n in numbers if n.leaf is None]
        self.leaf_numbers: list[Any] = [(n.key, n.leaf) for n in numbers if n.leaf is not None]
        self.sizes = [
            (source.leaf, tuple((i, str(d)) for i, d in enumerate(source.dims) if type(d) is Expr))
            for source in self.sources if type(source) is ArgumentSource
        ]
        self.views = [(i, r, group) for i, (r, group) in enumerate(self.returns) if type(r) is ReturnView]
        self.strides = [
            (source.leaf, tuple(map(str, source.strides)))
            for source in self.sources if type(source) is ArgumentSource and source.strides is not None
        ]
        is_plain = not (self.by_argument or self.strides or self.leaf_numbers) and self.sharing == tuple((i, i) for i in range(len(leaves)))
        self.quick = quick_match(self.facts, self.sizes, self.outside) if is_plain else None
        fresh = [r.position for r, _ in self.returns if type(r) is ReturnFresh and r.shown is None and r.position is not None]
        self.all_fresh = fresh if len(set(fresh)) == len(self.returns) else None

    # ---- guards
    def match(self, leaves: list[Any], spec: pytree.TreeSpec) -> Symbols | Miss:
        """The values of the program's symbols for this call, or why it does not fit."""
        if spec is not self.spec and spec != self.spec:
            return Miss(f"the structure of the arguments was {self.spec!r}, is now {spec!r}", 0)
        if modes.grad is not self.grad_mode:
            return Miss(f"grad mode was {self.grad_mode}, is now {modes.grad}", 1)
        if dt.get_default() is not self.default_dtype:
            return Miss(f"the default dtype was {self.default_dtype}, is now {dt.get_default()}", 1)
        if default_hooks.stack != self.saving:
            return Miss(f"{len(self.saving)} saved_tensors_hooks were in force, are now {len(default_hooks.stack)} (or others)", 1)
        if self.bound.places:
            problem = self.bound.take(leaves)
            if problem is not None:
                return Miss(problem, 4)
        elif len(leaves) > self.bound.given:  # what another program looked for
            del leaves[self.bound.given :]
        sizes = self.quick(leaves) if self.quick is not None else None
        if sizes is not None and self.guards.check() and self._match_state(leaves) is None:
            return self._bound(sizes)
        missed = self._match_leaves(leaves)
        if missed is not None:
            return self._named(missed)
        if not self.guards.check():
            return self._python_miss()
        missed = self._match_state(leaves)
        if missed is not None:
            return missed
        return self._bind(leaves)

    def _named(self, miss: Miss) -> Miss:
        """A miss about a leaf that is no argument, by the name of its place."""
        name = None if miss.leaf is None else self.bound.name_of(miss.leaf)
        return miss if name is None else Miss(f"{name} {miss.text}", 4, miss.lift)

    def _match_leaves(self, leaves: list[Any]) -> Miss | None:
        for i, (leaf, fact) in enumerate(zip(leaves, self.facts, strict=True)):
            if type(fact) is TensorFacts:
                if not isinstance(leaf, Tensor):
                    return Miss(f"was a {fact.describe()}, is now {type(leaf).__name__}", 2, leaf=i)
                if not fits(leaf, fact):
                    return Miss(f"was a {fact.describe()}, is now a {_as_asked(leaf, fact).describe()}", 2, leaf=i)
            elif fact is not None:
                if type(leaf) is not fact:
                    return Miss(f"was {fact.__name__}, is now {type(leaf).__name__}", 2, leaf=i)
            elif not same_constant(leaf, self.constants[i]):
                return Miss(f"was {self.constants[i]!r}, is now {leaf!r}", 3, self._changed_numbers(leaves), i)
        return self._match_sharing(leaves)

    def _match_sharing(self, leaves: list[Any]) -> Miss | None:
        pattern = sharing_pattern(leaves)
        if pattern != self.sharing:
            return Miss("arguments share memory (or are the same object) in another way than before", 3)
        for leaf in leaves:
            if isinstance(leaf, Tensor) and (id(root_of(leaf._data)) in self.outside or id(leaf) in self.outside):
                return Miss("an argument now shares memory with state of the function, or is a tensor that it reaches elsewhere", 3)
        for slot in self.by_argument:
            leaf = leaves[slot.leaf]
            if slot.is_fixed and leaf.storage() is not slot.storage:
                return Miss("is another tensor, and the function also reaches the first one from elsewhere", 3, leaf=slot.leaf)
            if base_like(leaf, slot) is None:
                return Miss("lies in its memory in another way", 3, leaf=slot.leaf)
        return None

    def _python_miss(self) -> Miss:
        found = self.guards.first_miss()
        if found is None:
            return Miss("Python state changed", 4)
        targets = [m.lift_target for m in self.guards.misses() if m.lift_target is not None] if found.lift_target is not None else []
        return Miss(str(found), 4, tuple([(target.key, target) for target in targets]))

    def _changed_numbers(self, leaves: list[Any]) -> tuple[tuple[Any, Any], ...]:
        """The arguments that are other numbers of the same type than in the capture; () if anything else about the first that differs changed."""
        pairs = [(i, a, b) for i, (a, b, fact) in enumerate(zip(leaves, self.constants, self.facts, strict=True)) if fact is None and not same_constant(a, b)]
        numbers = [(("leaf", self.bound.key_of(i)), None) for i, a, b in pairs if type(a) in (int, float) and type(a) is type(b)]
        return tuple(numbers) if numbers and numbers[0][0][1] == self.bound.key_of(pairs[0][0]) else ()

    def _match_state(self, leaves: list[Any]) -> Miss | None:
        for at, tensor, present in self.presence:
            if at is not None and leaves[at] is not tensor:
                if present:
                    return Miss("was a tensor whose .grad the function reads, is now another tensor", 5, leaf=at)
                tensor = leaves[at]
            if (present_grad(tensor) is not None) is not present:
                was, now = ("there", None) if present else (None, "there")
                return Miss(f"{self._where(tensor)}.grad of a tensor of shape {list(tensor.dims)} was {was}, is now {now}", 5)
        for tensor, wanted, where in self.capture.wants_grad.values():
            state = tensor._autograd
            if (state is not None and state.requires_grad) is not wanted and tensor.requires_grad is not wanted:
                return Miss(f"{where}: requires_grad of a tensor of shape {list(tensor.dims)} was {wanted}, is now {not wanted}", 5)
        if RemovableHandle.changes != self.hook_changes:
            if _hooks_everywhere() != self.hooks_everywhere:
                return Miss(f"the number of hooks on every module {_counted(self.hooks_everywhere, _hooks_everywhere())}", 5)
            for tensor, known in self.hooks:
                found = hooks_on(tensor)
                if found != known:
                    return Miss(f"{self._where(tensor)}the number of hooks of a tensor of shape {list(tensor.dims)} {_counted(known, found)}", 5)
            self.hook_changes = RemovableHandle.changes
        for state_guard in self.capture.state_guards.values():
            if not state_guard.check() and not self._renew(state_guard):
                return Miss(state_guard.miss(), 5)
        if self.accumulated and shows_a_gradient(self.accumulated, leaves, self.outside):
            self.owner.knows_gradients = True
            return Miss("a .grad that is added to now shares memory with another tensor that the function uses", 5)
        return None if self.memory.is_in_place() else self._go_along(leaves)

    def _renew(self, guard: StateGuard) -> bool:
        """Go with tensors that others took the places of (the state of an optimizer that was restored), if the program holds for those."""
        renewed = None if guard.renewal is None else guard.renewal.renewed()
        if guard.renewal is None or renewed is None or any(type(r) is ReturnState and id(r.tensor) in renewed for r, _ in self.returns):
            return False
        if not self.memory.replace(renewed):
            return False
        self.inputs.take_state()
        wants = self.capture.wants_grad
        wants.update({id(new): (new, *wants.pop(old)[1:]) for old, new in renewed.items() if old in wants})
        self.hooks = [(renewed.get(id(tensor), tensor), known) for tensor, known in self.hooks]
        self.capture.release(renewed)
        guard.renewal.settle()
        return True

    def _go_along(self, leaves: list[Any]) -> Miss | None:
        """Go with tensors that were given other memory, if the program holds there."""
        place = self.memory.follow()
        if place is not None:
            return Miss(self._where(place.tensor) + _moved(place), 5)
        self.inputs.take_state()
        return self._match_sharing(leaves)  # the arguments were compared with the memory before

    def _where(self, tensor: Tensor) -> str:
        """The line at which the function used a tensor, before a text."""
        used = self.capture.wants_grad.get(id(tensor))
        return "" if used is None or used[2] is None else f"{used[2]}: "

    def _bind(self, leaves: list[Any]) -> Symbols | Miss:
        symbols: Symbols = {}
        for leaf, names in self.sizes:
            shape = leaves[leaf]._data.shape
            for i, name in names:
                symbols[name] = shape[i]
        for leaf, strided in self.strides:
            symbols.update(zip(strided, strides_of(leaves[leaf]._data), strict=False))
        for key, leaf in self.leaf_numbers:
            symbols[key] = leaves[leaf]
        return self._bound(symbols)

    def _bound(self, symbols: Symbols) -> Symbols | Miss:
        """The sizes of a call with its other symbols; or a Miss, if the program does not hold for them."""
        for key, getter in self.outer_numbers:
            symbols[key] = getter()
        for state in self.random:
            state.bind(symbols)
        if self.shape_names and not self.shape_check(*[symbols[n] for n in self.shape_names]):
            return Miss(self._shape_miss(symbols), 6)
        for number_guard in self.capture.number_guards:
            if not number_guard.holds(symbols):
                return Miss(number_guard.miss(symbols), 6)
        return symbols

    def _shape_miss(self, symbols: Symbols) -> str:
        for guard in self.capture.env.guards.values():
            if not guard.holds(symbols):
                where = f"{guard.where}: " if guard.where else ""
                names = {n.key: f"{n.name} ({n.key})" for n in self.capture.numbers}
                used = sorted(guard.relation.expr.symbols())
                old, new = (", ".join(str(values[s]) for s in used) for values in (self.capture.env.examples, symbols))
                be = ("was", "is") if len(used) == 1 else ("were", "are")
                return f"{where}{', '.join(names.get(s, f'size {s}') for s in used)} {be[0]} {old}, {be[1]} now {new}; the program needs {guard}"
        return "sizes changed"

    # ---- the call
    def run(self, leaves: list[Any], symbols: Symbols) -> Any:
        """Run the program on a call that fits."""
        inputs, grads = self.inputs.gather(leaves, symbols)
        interrupt: Interrupted | None = None
        try:
            results = self.executable.run(inputs, symbols)
        except Interrupted as stop:
            results, interrupt = stop.results, stop
        kept_up: list[ObjectWrite] = []
        try:
            made = self._finish(leaves, inputs, results, symbols, grads, kept_up)
        except KeyboardInterrupt:  # the program has written its state: what belongs to that follows, and the step has been made
            to_the_end(lambda: self._finish(leaves, inputs, results, symbols, grads, kept_up))
            raise
        if interrupt is not None:
            raise interrupt
        return made

    def _finish(
        self, leaves: list[Any], inputs: list[Any], results: list[Any], symbols: Symbols, grads: dict[int, Tensor | None], kept_up: list[ObjectWrite]
    ) -> Any:
        """Everything behind the program's run. It may be done twice, but for the assignments that are `kept_up` already."""
        for position in self._shared(results, inputs) if self.shared is None else self.shared:
            results[position] = results[position].copy(order="C")
        for name, position in self.late:
            symbols[name] = int(results[position])
        self.effects.apply(leaves, inputs, results, symbols, grads)
        fresh = self.all_fresh
        made = self._rebuild(leaves, results, symbols) if fresh is None else [Tensor(results[i]) for i in fresh]
        for settle in self.settings:
            settle()
        for i in self.made_leaves:
            made[i]._state().requires_grad = True
        if self.joint is not None:
            self.joint.attach(self.capture, self.sources, leaves, inputs, results, symbols, made)
        if self.views:
            self._follow(made, symbols)
        if not self.assigned:
            return pytree.unflatten(made, self.result_spec)
        for i in self.spent:
            SpentBackward.mark(made[i])
        result, values = pytree.unflatten(made, self.result_spec)
        values = opened(values) if wrapper_classes or armed else values
        for at in range(len(kept_up), len(self.assigned)):
            self.assigned[at].target.put(values[at])
            kept_up.append(self.assigned[at])
        return result

    def _follow(self, made: list[Any], symbols: Symbols) -> None:
        """Make the returned views of what they are views of."""
        for i, view, group in self.views:
            if group < i:
                made[i] = made[group]
                continue
            path = tuple((op, _numbers(args, symbols), index) for op, args, index in view.path)
            grad, modes.grad = modes.grad, modes.grad and view.is_recorded
            try:
                made[i] = follow(made[view.root], path)
            finally:
                modes.grad = grad

    def _shared(self, results: list[Any], inputs: list[Any]) -> list[int]:
        """Results that the caller gets and that are an input's array or another result's (equal computations are made once): they are copied."""
        taken = {id(x) for x in inputs}
        found = []
        for position in sorted({r.position for r, _ in self.returns if type(r) is ReturnFresh}):
            if isinstance(results[position], ndarray) and id(results[position]) in taken:
                found.append(position)
            taken.add(id(results[position]))
        self.shared = found
        return found

    def _rebuild(self, leaves: list[Any], results: list[Any], symbols: Symbols) -> list[Any]:
        made: list[Any] = []
        bases: dict[int, Tensor] = {}
        for returned, group in self.returns:
            made.append(made[group] if group < len(made) else self._returned(returned, leaves, results, symbols, bases))
        return made  # (views, and tensors that only they show, follow once there is a history)

    def _returned(self, returned: Return, leaves: list[Any], results: list[Any], symbols: Symbols, bases: dict[int, Tensor]) -> Any:
        kind = type(returned)
        if kind is ReturnView:
            return None
        if kind is ReturnConstant:
            return returned.value  # type: ignore[union-attr]
        if kind is ReturnFresh:
            base = bases.get(returned.position)  # type: ignore[union-attr, arg-type]
            if base is None:
                base = bases[returned.position] = Tensor(results[returned.position])  # type: ignore[union-attr, index]
            elif returned.shown is None:  # type: ignore[union-attr]
                return _same_memory(base)  # a detached tensor beside its source
            return base if returned.shown is None else _seen_through(base, returned.shown, symbols)  # type: ignore[union-attr]
        if kind is ReturnArgument:
            leaf = leaves[returned.leaf]  # type: ignore[union-attr, index]
            return leaf if returned.shown is None else _seen_through(leaf, returned.shown, symbols)  # type: ignore[union-attr]
        if kind is ReturnGrad:
            gradient = target_of(returned, leaves).grad  # type: ignore[arg-type]
            return gradient if returned.shown is None or gradient is None else _seen_through(gradient, returned.shown, symbols)  # type: ignore[union-attr]
        if kind is ReturnState:
            if returned.tensor is not None:  # type: ignore[union-attr]
                return returned.tensor  # type: ignore[union-attr]
            slot = returned.slot  # type: ignore[union-attr]
            owner = slot.tensor if slot.leaf is None else leaves[slot.leaf]  # type: ignore[union-attr]
            return _seen_through(owner, returned.shown, symbols, from_storage=True)  # type: ignore[union-attr, arg-type]
        assert isinstance(returned, ReturnNumber)
        return results[returned.position] if returned.position is not None else number_of(returned.dim, symbols)

    def stages(self) -> dict[str, Any]:
        """Every stage by name."""
        found: dict[str, Any] = self.executable.stages()
        program = getattr(self.executable, "program", None)
        if program is not None and hasattr(program, "stages"):
            found.update(program.stages())
        return found


def fits(leaf: Tensor, fact: TensorFacts) -> bool:
    """Whether a tensor argument has the facts."""
    data = leaf._data
    if type(leaf) is not fact.kind or type(data) is not ndarray or data.dtype != fact.dtype or data.ndim != fact.ndim:
        return False
    if leaf.requires_grad is not fact.requires_grad or (leaf._autograd is not None and hooks_on(leaf) != fact.hooks):
        return False
    if fact.layout is not None and layout_of(leaf) != fact.layout:
        return False
    if fact.given and not all(same(value, vars(leaf).get(name, MISSING)) for name, value in fact.given):
        return False
    if expanded_dims(data) != fact.expanded:
        return False
    if fact.is_strided or fact.layout is not None:
        return True
    data = shown_once(data, fact.expanded)
    order = fact.permutation
    if order is not None:
        data = data.transpose(sorted(range(len(order)), key=order.__getitem__))
    return bool(data.flags.c_contiguous)


def _as_asked(leaf: Tensor, fact: TensorFacts) -> TensorFacts:
    return with_given(facts_of(leaf, fact.layout is not None), leaf, [name for name, _ in fact.given])


def same_constant(a: Any, b: Any) -> bool:
    """Equality of argument leaves that are no tensors: type and value; objects by identity."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (int, float, str, bytes, bool, complex, dt.DType)):
        return bool(a == b) or (a != a and b != b)
    return False


def shape_check(env: ShapeEnv) -> tuple[Callable[..., bool], tuple[str, ...]]:
    """One Python function over the symbols that says whether every guard holds, and the symbols' names in its order."""
    names = sorted({s for g in env.guards.values() for s in g.relation.expr.symbols() if s in env.examples})
    tests = [f"{'' if g.answer else 'not '}({g.relation.expr} {g.relation.op} 0)" for g in env.guards.values()]
    source = f"lambda {', '.join(names)}: {' and '.join(tests) or 'True'}"
    return eval(source, {"max": max, "min": min}), tuple(names)  # text of our own expressions


def _hooks_everywhere() -> list[list[int]]:
    return [list(table) for table in registry.hook_tables]


def _moved(place: Place) -> str:
    """What is other memory now."""
    tensor, what = place.now(), "the memory of a tensor" if place.getter is None else "a .grad"
    return f"{what} was {_form(place.array)}, is now {None if tensor is None else f'other memory, {_form(tensor._data)}'}"


def _form(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _counted(known: Any, found: Any) -> str:
    was, now = sum(map(len, known)), sum(map(len, found))
    return f"was {was}, is now {now}{' (others)' if was == now else ''}"


def _same_memory(base: Tensor) -> Tensor:
    """Another tensor over a tensor's memory."""
    out = Tensor(base._data)
    out._storage = base.storage()
    return out


def _numbers(value: Any, symbols: Symbols) -> Any:
    """An argument with the call's numbers for its symbols."""
    if type(value) is tuple:
        return tuple([_numbers(v, symbols) for v in value])
    return dm.evaluate(value, symbols) if type(value) is Expr else value


def _seen_through(base: Tensor, shown: Shown, symbols: Symbols, from_storage: bool = False) -> Tensor:
    """A tensor over base's storage that shows what the function's view did (from base's first element, or from the storage's)."""
    data, geometry = base._data, shown.geometry
    storage = base.storage()
    size = shown.dtype.itemsize
    start = 0 if from_storage else storage.offset_of(data) * data.dtype.itemsize
    dims = tuple(dm.evaluate(d, symbols) for d in geometry.dims)
    strides = tuple(dm.evaluate(s, symbols) * size for s in geometry.strides)
    out = Tensor(np.ndarray(dims, shown.dtype, storage.array, start + dm.evaluate(geometry.offset, symbols) * size, strides))
    out._storage = storage
    return out
