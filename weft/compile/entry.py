"""Entry: one captured program with its guards. `match` says whether a call fits (and binds its symbols), `run` makes the call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.compile.arguments import TensorFacts, contiguous_bytes, dense_permutation, facts_of, layout_of, sharing_pattern
from weft.compile.capture import Capture, NumberGuard
from weft.compile.executable import Compiled, Interpreted, make_executable
from weft.compile.joint import JointProgram
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
    ReturnNumber,
    ReturnState,
    StateSource,
)
from weft.compile.state import StateSlot, base_like
from weft.ir.graph import Graph
from weft.ops.geometry import Geometry
from weft.runtime.storage import root_of
from weft.support import pytree
from weft.support.counters import counters
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr
from weft.types.shape_env import ShapeEnv

if TYPE_CHECKING:
    from weft.compile.driver import CompiledFunction

ndarray = np.ndarray
Symbols = dict[str, int]
_YES, _NO = np.array(True), np.array(False)


@dataclass
class Miss:
    """Why a program does not fit a call. `depth` orders misses by how far the check came; `lift` is the number that changed."""

    text: str
    depth: int
    lift: tuple[Any, Any] | None = None


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
    grad_effects: list[GradEffect]
    number_writes: list[NumberWrite]
    random: Any
    executable: Interpreted | Compiled
    grad_mode: bool
    default_dtype: Any
    shape_check: Callable[..., bool]
    shape_names: tuple[str, ...]
    joint: JointProgram | None = None
    sharing: tuple[tuple[int, int], ...] = ()
    seconds_total: float = 0.0
    kernels_of: int = 0

    @classmethod
    def build(
        cls, owner: CompiledFunction, graph: Graph, capture: Capture, outcome: Any, facts: list[Any], leaves: list[Any], spec: pytree.TreeSpec,
        guards: Any, returns: list[tuple[Return, int]], result_spec: pytree.TreeSpec, grad_effects: list[GradEffect],
        number_writes: list[NumberWrite], random: Any, backend: str | None, joint: Any = None,
    ) -> Entry:
        """Compile the graph and put the guards together (passes may add questions about sizes, so the check is made last)."""
        program = None
        if joint is not None:
            record, fixed, positions = joint
            program = JointProgram.build(graph, record, fixed, positions, backend)
            graph = program.halves.forward
        executable = make_executable(graph, backend)
        check, names = shape_check(capture.env)
        constants = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        entry = cls(
            owner, graph, capture, outcome.sources, facts, constants, spec, guards, returns, result_spec, grad_effects, number_writes, random,
            executable, modes.grad, dt.get_default(), check, names, program, sharing_pattern(leaves),
        )
        return entry

    # ---- guards
    def match(self, leaves: list[Any], spec: pytree.TreeSpec) -> Symbols | Miss:
        """The values of the program's symbols for this call, or why it does not fit."""
        if spec is not self.spec and spec != self.spec:
            return Miss(f"the structure of the arguments changed: {self.spec!r} -> {spec!r}", 0)
        if modes.grad is not self.grad_mode:
            return Miss(f"grad mode changed: {self.grad_mode} -> {modes.grad}", 1)
        if dt.get_default() is not self.default_dtype:
            return Miss(f"the default dtype changed: {self.default_dtype} -> {dt.get_default()}", 1)
        missed = self._match_leaves(leaves)
        if missed is not None:
            return missed
        if not self.guards.check():
            return self._python_miss()
        missed = self._match_state()
        if missed is not None:
            return missed
        return self._bind(leaves)

    def _match_leaves(self, leaves: list[Any]) -> Miss | None:
        for i, (leaf, fact) in enumerate(zip(leaves, self.facts)):
            if type(fact) is TensorFacts:
                if not isinstance(leaf, Tensor):
                    return Miss(f"argument {i} was a {fact.describe()}, is now {type(leaf).__name__}", 2)
                if not fits(leaf, fact):
                    return Miss(f"argument {i} was a {fact.describe()}, is now a {facts_of(leaf, fact.layout is not None).describe()}", 2)
            elif fact is not None:
                if type(leaf) is not fact:
                    return Miss(f"argument {i} was {fact.__name__}, is now {type(leaf).__name__}", 2)
            elif not same_constant(leaf, self.constants[i]):
                lift = (("leaf", i), None) if type(leaf) in (int, float) and type(leaf) is type(self.constants[i]) else None
                return Miss(f"argument {i} was {self.constants[i]!r}, is now {leaf!r}", 3, lift)
        return self._match_sharing(leaves)

    def _match_sharing(self, leaves: list[Any]) -> Miss | None:
        pattern = sharing_pattern(leaves)
        if pattern != self.sharing:
            return Miss("arguments share memory (or are the same object) in another way than before", 3)
        roots = {id(root_of(leaf._data)) for leaf in leaves if isinstance(leaf, Tensor)}
        for slot in self.capture.states.values():
            if slot.leaf is None:
                if id(slot.storage.array) in roots and slot.provider is None:
                    return Miss("an argument now shares memory with state of the function", 3)
                continue
            leaf = leaves[slot.leaf]
            if slot.is_fixed and leaf.storage() is not slot.storage:
                return Miss(f"argument {slot.leaf} is another tensor, and the function also reaches the first one from elsewhere", 3)
            if base_like(leaf, slot) is None:
                return Miss(f"argument {slot.leaf} lies in its memory in another way", 3)
        return None

    def _python_miss(self) -> Miss:
        found = self.guards.first_miss()
        if found is None:
            return Miss("Python state changed", 4)
        lift = None
        if found.is_number and found.lift_target is not None:
            lift = (found.lift_target.key, found.lift_target)
        return Miss(str(found), 4, lift)

    def _match_state(self) -> Miss | None:
        for slot in self.capture.states.values():
            if slot.provider is not None:
                current = slot.provider()
                if current is None or current._data.shape != slot.tensor._data.shape or current._data.dtype != slot.tensor._data.dtype:
                    return Miss("a gradient that the function reads has changed its form", 5)
            elif slot.leaf is None and not slot.is_flat and slot.tensor._data is not slot.array:
                return Miss("a tensor that the function uses holds other memory now", 5)
        for grad in self.capture.grads.values():
            if grad.present is not None:
                state = self.capture.real(grad.tensor)._autograd
                if (state is not None and state.grad is not None) is not grad.present:
                    return Miss(f"a .grad that the function reads was {'present' if grad.present else 'None'} and is not any more", 5)
        for tensor, wanted, where in self.capture.wants_grad.values():
            if tensor.requires_grad is not wanted:
                return Miss(f"{where}: requires_grad of a tensor of shape {list(tensor.dims)} was {wanted}, is now {not wanted}", 5)
        for state_guard in self.capture.state_guards.values():
            if not state_guard.check():
                return Miss(state_guard.describe, 5)
        for number_guard in self._refreshed_guards():
            if not number_guard.holds():
                return Miss(f"{number_guard.where}: the answer to a question about a number changed", 5)
        return None

    def _refreshed_guards(self) -> list[NumberGuard]:
        for number in self.capture.numbers:
            if type(number.getter).__name__ != "_leaf_getter":
                number.refresh()
        return self.capture.number_guards

    def _bind(self, leaves: list[Any]) -> Symbols | Miss:
        symbols: Symbols = {}
        for source in self.sources:
            if type(source) is ArgumentSource:
                for d, n in zip(source.dims, leaves[source.leaf]._data.shape):
                    if type(d) is Expr:
                        symbols[str(d)] = n
        for number in self.capture.numbers:
            if type(number.getter).__name__ == "_leaf_getter":
                number.getter.leaves = leaves
                number.refresh()
            if number.symbol is not None:
                symbols[number.symbol] = number.current
        symbols[self.random.key] = self.random.generator.key
        symbols[self.random.offset] = self.random.generator.offset
        if not self.shape_check(*[symbols[n] for n in self.shape_names]):
            return Miss(self._shape_miss(symbols), 6)
        return symbols

    def _shape_miss(self, symbols: Symbols) -> str:
        for guard in self.capture.env.guards.values():
            if not guard.holds(symbols):
                where = f"{guard.where}: " if guard.where else ""
                values = ", ".join(f"{s}={symbols[s]}" for s in sorted(guard.relation.expr.symbols()))
                return f"{where}sizes: the program needs {guard}, now {values}"
        return "sizes changed"

    # ---- the call
    def run(self, leaves: list[Any], symbols: Symbols) -> Any:
        """Run the program on a call that fits."""
        inputs: list[Any] = []
        grads: dict[int, Tensor | None] = {}
        for at, source in enumerate(self.sources):
            inputs.append(self._input(at, source, leaves, grads))
        results = self.executable.run(inputs, symbols)
        self._after(leaves, inputs, results, symbols, grads)
        made = self._rebuild(leaves, results, symbols)
        if self.joint is not None:
            returned = [made[i] for i in self.joint.outputs]
            self.joint.attach(self.capture, self.sources, leaves, inputs, results, symbols, returned)
        return pytree.unflatten(made, self.result_spec)

    def _input(self, at: int, source: Any, leaves: list[Any], grads: dict[int, Tensor | None]) -> Any:
        kind = type(source)
        if kind is StateSource:
            slot: StateSlot = source.slot
            if slot.leaf is not None:
                return base_like(leaves[slot.leaf], slot)
            return slot.array if slot.provider is None else slot.provider()._data
        if kind is ArgumentSource:
            return contiguous_bytes(leaves[source.leaf]._data, source.permutation)
        if kind is NumberSource:
            return float(source.number.current)
        if kind is GradFlag:
            return _YES if _present(source.tensor) is not None else _NO
        assert kind is GradBuffer
        return self._grad_buffer(at, source, grads)

    def _grad_buffer(self, at: int, source: GradBuffer, grads: dict[int, Tensor | None]) -> Any:
        present = _present(source.tensor)
        is_optional = source.slot.has is not None
        if present is not None and (is_optional or _is_private(present)):
            if present._data.flags.c_contiguous:
                grads[at] = present
                return present._data
        counters.allocations += 1
        fresh = np.empty(source.tensor._data.shape, source.tensor._data.dtype)
        if is_optional and present is not None:
            fresh[...] = present._data
            grads[at] = present
        else:
            grads[at] = None
        return fresh

    def _after(self, leaves: list[Any], inputs: list[Any], results: list[Any], symbols: Symbols, grads: dict[int, Tensor | None]) -> None:
        """Effects beyond the bytes: versions, .grad objects, copied arguments, numbers, the generator."""
        for _, param in self.graph.writes:
            source = self.sources[param]
            if type(source) is StateSource:
                _raise_version(source.slot, leaves)
            elif type(source) is ArgumentSource:
                leaf = leaves[source.leaf]
                if source.permutation is None and inputs[param] is not leaf._data:
                    leaf._data[...] = inputs[param]
                leaf.storage().version += 1
        for effect in self.grad_effects:
            _apply_grad(effect, inputs, grads)
        for write in self.number_writes:
            write.set(results[write.position] if write.position is not None else _number(write.dim, symbols))
        self.random.generator.offset = dm.evaluate(self.random.after, symbols)

    def _rebuild(self, leaves: list[Any], results: list[Any], symbols: Symbols) -> list[Any]:
        made: list[Any] = []
        bases: dict[int, Tensor] = {}
        for returned, group in self.returns:
            made.append(made[group] if group < len(made) else self._returned(returned, leaves, results, symbols, bases))
        return made

    def _returned(self, returned: Return, leaves: list[Any], results: list[Any], symbols: Symbols, bases: dict[int, Tensor]) -> Any:
        kind = type(returned)
        if kind is ReturnConstant:
            return returned.value  # type: ignore[union-attr]
        if kind is ReturnFresh:
            base = bases.get(returned.position)  # type: ignore[union-attr, arg-type]
            if base is None:
                base = bases[returned.position] = Tensor(results[returned.position])  # type: ignore[union-attr, index, call-overload]
            return base if returned.geometry is None else _seen_through(base, returned.geometry, symbols)  # type: ignore[union-attr]
        if kind is ReturnArgument:
            leaf = leaves[returned.leaf]  # type: ignore[union-attr]
            return leaf if returned.geometry is None else _seen_through(leaf, returned.geometry, symbols)  # type: ignore[union-attr]
        if kind is ReturnState:
            if returned.tensor is not None:  # type: ignore[union-attr]
                return returned.tensor  # type: ignore[union-attr]
            slot = returned.slot  # type: ignore[union-attr]
            owner = slot.tensor if slot.leaf is None else leaves[slot.leaf]  # type: ignore[union-attr]
            return _seen_through(owner, returned.geometry, symbols, from_storage=True)  # type: ignore[union-attr, arg-type]
        assert isinstance(returned, ReturnNumber)
        return results[returned.position] if returned.position is not None else _number(returned.dim, symbols)

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
    if leaf.requires_grad is not fact.requires_grad or (fact.layout is not None and layout_of(leaf) != fact.layout):
        return False
    if fact.permutation is None:
        return True  # row-major, or copied to be
    return bool(data.flags.c_contiguous) or dense_permutation(data) == fact.permutation


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
    return eval(source, {"max": max, "min": min}), tuple(names)  # noqa: S307  (text of our own expressions)


def _present(tensor: Tensor) -> Tensor | None:
    state = tensor._autograd
    return None if state is None else state.grad


def _is_private(gradient: Tensor) -> bool:
    """Whether nobody but its leaf can see this gradient, so that its bytes may be used again."""
    return (
        sys.getrefcount(gradient) <= 4 and sys.getrefcount(gradient._data) <= 3 and gradient._view is None and gradient._data.base is None
        and (gradient._storage is None or sys.getrefcount(gradient._storage) <= 3)
    )


def _apply_grad(effect: GradEffect, inputs: list[Any], grads: dict[int, Tensor | None]) -> None:
    state = effect.tensor._state()
    if effect.param is None:
        state.grad = effect.value
        return
    present = grads[effect.param]
    array = inputs[effect.param]
    if present is None:
        state.grad = Tensor(array)
        return
    if present._data is not array:
        present._data[...] = array
    if present._storage is not None:
        present._storage.version += 1
    state.grad = present


def _raise_version(slot: StateSlot, leaves: list[Any]) -> None:
    if slot.leaf is not None:
        leaves[slot.leaf].storage().version += 1
    elif slot.provider is not None:
        slot.provider().storage().version += 1
    else:
        slot.storage.version += 1


def _number(dim: Dim | None, symbols: Symbols) -> Any:
    return dm.evaluate(dim, symbols) if isinstance(dim, Expr) else dim


def _seen_through(base: Tensor, geometry: Geometry, symbols: Symbols, from_storage: bool = False) -> Tensor:
    """A tensor over base's storage with the geometry that the function's view had (from base's first element, or from the storage's)."""
    data = base._data
    size = data.dtype.itemsize
    storage = base.storage()
    start = 0 if from_storage else storage.offset_of(data)
    dims = tuple(dm.evaluate(d, symbols) for d in geometry.dims)
    strides = tuple(dm.evaluate(s, symbols) * size for s in geometry.strides)
    offset = (start + dm.evaluate(geometry.offset, symbols)) * size
    out = Tensor(np.ndarray(dims, data.dtype, storage.array, offset, strides))
    out._storage = storage
    return out
