"""Node: one step of the backward graph, with its edges, metadata, saved tensors and hooks."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from weft.autograd.saved import FREED, FREED_TENSOR, SavedTensor
from weft.ops.backward import ARG, DIMS, RESULT, Plan, Source, apply_functional
from weft.ops.overrides import DISABLED, OverrideLevel, override_classes
from weft.ops.planned import NOT_PLANNED
from weft.support.errors import ArgumentError, StateError
from weft.support.locations import Location, located
from weft.tensor import planned
from weft.tensor.dense import payload_of
from weft.tensor.modes import modes, refuse_in_trace
from weft.types.dtype import DType
from weft.types.unbacked import numbers_in

Hook = Callable[..., Any]
Edge = tuple["Node", int]
sequence_numbers = itertools.count()  # of nodes, in the order they are made: backward takes the latest first

_IN_TRACE = "a hook of a node is no part of a trace; use Tensor.register_hook"


class InputMetadata(NamedTuple):
    """What a gradient that flows into a node must look like."""

    dims: tuple[Any, ...]
    dtype: DType
    device: str = "cpu"

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes, by the name that users know."""
        return self.dims


class GradientEdge(NamedTuple):
    """Where a tensor's gradient flows: a node and the number of its input."""

    node: Node
    output_nr: int


def hooks_of(table: dict[int, Hook], caller: Callable[..., Any], replaced: int | None = 0) -> list[Hook]:
    """The hooks of a table, in order. While a function is captured: what stands for those that its program will call.
    caller: what calls one of them, and looks at what it returns; replaced: the argument whose place that takes."""
    capture = modes.capture
    return list(table.values()) if capture is None else capture.hooks(table, caller, replaced)


def needs_per_argument(counts: Sequence[int], needs: tuple[bool, ...]) -> tuple[bool, ...]:
    """One flag per argument from one per edge. counts: how many edges each argument has."""
    out: list[bool] = []
    at = 0
    for count in counts:
        out.append(any(needs[at : at + count]))
        at += count
    return tuple(out)


class RemovableHandle:
    """Removes a hook. Usable as a context manager.

    changes: how many hooks were ever added or removed, anywhere; while it stands still, no hook changed.
    """

    _ids = itertools.count()
    changes = 0

    def __init__(self, hooks: dict[int, Any], marks: Sequence[dict[int, Any]] = (), *, extra_dict: Any = ()) -> None:
        self.id = next(self._ids)
        RemovableHandle.changes += 1
        self._hooks: dict[int, Any] | None = hooks
        marks = marks or ((extra_dict,) if isinstance(extra_dict, dict) else extra_dict or ())  # PyTorch's name
        self._marks = tuple(marks)  # what else is noted of the hook, by its number

    @classmethod
    def fresh_number(cls) -> int:
        """A number between those of the hooks before and those of the hooks to come."""
        return next(cls._ids)

    def hooks_dict_ref(self) -> dict[int, Any] | None:
        """The table that the hook is in."""
        return self._hooks

    def remove(self) -> None:
        """Unregister the hook; harmless when already removed."""
        if self._hooks is not None:
            self._hooks.pop(self.id, None)
            for table in self._marks:
                table.pop(self.id, None)
            RemovableHandle.changes += 1

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        return self.id

    def __setstate__(self, state: Any) -> None:
        self.id, self._hooks, self._marks = state, None, ()


class _Hooks:
    """A table of a node's hooks; None until there is one."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, node: Node | None, owner: type | None = None) -> Any:
        return None if node is None or node.hook_tables is None else node.hook_tables.get(self.name)

    def __set__(self, node: Node, table: dict[int, Any] | None) -> None:
        if node.hook_tables is None:
            node.hook_tables = {}
        node.hook_tables[self.name] = table


class Node:
    """A function of the backward graph. Subclasses give `apply(grads, needs)`."""

    # Class-level defaults: a node that needs none of these fields carries none, which halves the cost of making one.
    hook_tables: dict[str, Any] | None = None  # once there was a hook: one question tells the engine
    tensor_hooks = _Hooks()  # by number of the gradient and of the handle; the others by number of the handle
    retain_hooks = _Hooks()  # by number of the gradient
    pre_hooks = _Hooks()
    post_hooks = _Hooks()
    where: Any = None
    extra: dict[str, Any] | None = None
    forward_trace: str | None = None
    parent_node: Node | None = None  # the node whose backward made this one (known in anomaly mode)
    mark: Any = None
    metadata_of_inputs: tuple[InputMetadata | None, ...] = ()
    # whether what apply() returns was made by it, or is among the gradients that it was given: nobody else has it
    makes_gradients = False
    # whether its results are such as nodes of their own would give: hooks on one hear nothing where nothing flows into
    # it, or where it leads to nothing that is wanted (see `leads`, `is_met`)
    stands_for_many = False
    is_users = False  # whether what apply() does is code of the user's
    formula: planned.Formula | None = None  # for all of its edges, if it is an operator's with one result
    inner: Any = None  # a node that runs within its step, and is let go of with it unless it has a turn of its own

    def __init__(self, edges: tuple[Edge | None, ...]) -> None:
        self.edges = edges
        self.sequence = next(sequence_numbers)

    def name(self) -> str:
        """`MulBackward0`."""
        return type(self).__name__

    @property
    def forward_line(self) -> Location | None:
        """The user's line that made the node."""
        return self.where or located(self.mark)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, input number) of every edge; (None, 0) where no gradient flows."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    @property
    def _input_metadata(self) -> list[InputMetadata | None]:
        return list(self.metadata_of_inputs)

    def _sequence_nr(self) -> int:
        return self.sequence

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user's own remarks."""
        if self.extra is None:
            self.extra = {}
        return self.extra

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        raise StateError(f"{self.name()} has no formula")

    @property
    def is_freed(self) -> bool:
        """Whether what was saved is gone, so that a run through the node is an error."""
        return False

    def release(self) -> None:
        """Free what was saved."""

    def find_sizes(self) -> None:
        """Put numbers in the place of sizes that a run has found, or finds now."""
        if any([m is not None and any([type(d) is not int for d in m.dims]) for m in self.metadata_of_inputs]):
            self.metadata_of_inputs = tuple([
                None if m is None else m._replace(dims=numbers_in(m.dims)) for m in self.metadata_of_inputs
            ])

    def leads(self, index: int, walk: Any) -> bool:
        """Whether a backward call that does not run all nodes goes on from result number `index` to what it wants."""
        return True

    def is_met(self, index: int, walk: Any) -> bool:
        """Whether a backward call that comes to this node comes to result number `index`."""
        return True

    def edges_of(self, index: int) -> tuple[Edge | None, ...]:
        """The edges that the gradient of result number `index` flows into; None in the place of the others."""
        return self.edges

    def arrival(self, index: int) -> Node:
        """The node that all of the gradient of result number `index` flows into, as that number of its inputs, to be
        heard or asked for; this one takes what users of the result hand in."""
        return self

    def is_heard(self, index: int) -> bool:
        """Whether hooks of tensors change what arrives as the gradient of result number `index`."""
        return bool((self.tensor_hooks or {}).get(index))

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after the node ran; a returned tuple replaces grad_inputs."""
        refuse_in_trace(_IN_TRACE)
        if self.post_hooks is None:
            self.post_hooks = OrderedDict()
        return add_hook(self.post_hooks, hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; a returned tuple replaces them."""
        refuse_in_trace(_IN_TRACE)
        if self.pre_hooks is None:
            self.pre_hooks = OrderedDict()
        return add_hook(self.pre_hooks, hook)

    def __call__(self, *grads: Any) -> Any:
        expected = max(1, len(self.metadata_of_inputs))
        if len(grads) != expected:
            raise ArgumentError(f"expected {expected} arguments, got {len(grads)} arguments instead")
        out = self.apply(grads, tuple(e is not None for e in self.edges))
        return out[0] if len(out) == 1 else out

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"


def add_hook(hooks: dict[int, Any], hook: Any) -> RemovableHandle:
    """Put a hook into a table; the handle takes it out."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class OpNode(Node):
    """The node of an operator. One subclass per entry, named after it; the formula is the entry's."""

    plan: Plan
    unlisted: frozenset[str] = frozenset()
    makes_gradients = True  # a formula is linear in its gradients: what it saved is no gradient

    def __init__(self, edges: tuple[Edge | None, ...], packed: tuple[Any, ...], counts: tuple[int, ...]) -> None:
        self.edges = edges
        self.sequence = next(sequence_numbers)
        self.saved_values: tuple[Any, ...] | None = packed
        self.argument_counts = counts

    def unpack(self) -> tuple[Any, ...]:
        """The saved values, tensors with their histories."""
        packed = self.saved_values
        if packed is None:
            raise StateError(FREED)
        if not self.plan.may_save_tensors:
            return packed
        values = []
        for p in packed:
            kind = type(p)
            values.append(p.unpack(self) if kind is SavedTensor else self._unpack_one(p) if kind is tuple else p)
        return tuple(values)

    def _unpack_one(self, packed: Any) -> Any:
        kind = type(packed)
        if kind is SavedTensor:
            return packed.unpack(self)
        if kind is tuple:
            return tuple([self._unpack_one(p) for p in packed])
        return packed

    def packed(self) -> tuple[Any, ...]:
        """The values that the node's functional form takes, in the order of its slots (weft.compiled_autograd.ops).
        Raises StateError once they were freed."""
        return self.unpack()

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """As for every node, but for arguments that are numbers in the overload that the node is named after."""
        number = self.plan.number
        return tuple([(None, 0) if e is None else e for i, e in enumerate(self.edges) if i != number])

    def raw_values(self) -> tuple[Any, ...]:
        """What was saved, as it is kept. Raises StateError once it was freed."""
        if self.saved_values is None:
            raise StateError(FREED)
        return self.saved_values

    def find_sizes(self) -> None:
        super().find_sizes()
        self.saved_values = numbers_in(self.saved_values)

    def needs_per_argument(self, needs: tuple[bool, ...]) -> tuple[bool, ...]:
        """One flag per differentiable argument (a tensor list has one for the whole list)."""
        counts = self.argument_counts
        return needs if len(counts) == len(needs) else needs_per_argument(counts, needs)

    def apply(
        self, grads: tuple[Any, ...], needs: tuple[bool, ...], saved: tuple[Any, ...] | None = None
    ) -> tuple[Any, ...]:
        """saved: what `unpack` gave, where a capture has called it before."""
        plan, counts, formula = self.plan, self.argument_counts, self.formula
        if formula is None or formula.needs != needs:
            if True not in needs:  # a write that ends a history: nothing flows on
                return (None,) * len(needs)
            if len(counts) != len(needs):
                needs = self.needs_per_argument(needs)
            formula = None
        if saved is None:
            saved = self.saved_values
            if saved is None or plan.may_save_tensors:
                saved = self.unpack()
        values = grads + saved
        if modes.capture is not None:
            return self.spread(_rule_of(plan, needs, len(grads))(*values))
        if not modes.grad and modes.special is None:
            result = (formula or formula_of(plan, needs, len(grads))).run(values)
            if result is not NOT_PLANNED:
                return result if counts is plan.one_each else self.spread(result)
        gradient = grads[0] if grads[0] is not None else next(g for g in grads if g is not None)
        owner = (plan, needs, len(grads))
        return self.spread(payload_of(gradient).backend.apply(owner, _rule_of(*owner), values))

    def spread(self, result: tuple[Any, ...]) -> tuple[Any, ...]:
        """One gradient per edge from one per argument."""
        counts = self.argument_counts
        if counts is self.plan.one_each:  # no argument is a list
            return result
        out: list[Any] = []
        for count, r in zip(counts, result, strict=False):
            if type(r) in (tuple, list):
                out.extend(r)
            else:
                out.extend([None] * count if r is None else [r] * count)
        return tuple(out)

    @property
    def saves(self) -> bool:
        """Whether operands are saved, tensors or numbers in place of one, which a run without retain_graph frees."""
        packed, plan = self.saved_values, self.plan
        if packed is None or not plan.may_save_tensors:
            return False
        for i in plan.operands:
            if packed[i] is not None and i != plan.number_slot:
                return True
        return any([type(p) is SavedTensor or (type(p) is tuple and SavedTensor in map(type, p)) for p in packed])

    @property
    def is_freed(self) -> bool:
        return self.saved_values is None

    def release(self) -> None:
        packed, plan = self.saved_values, self.plan
        if packed is None or not plan.may_save_tensors:
            return
        first = plan.operands[0] if plan.operands else plan.number_slot  # (asked first: it is there for most)
        if (first != plan.number_slot and packed[first] is not None) or self.saves:
            self.saved_values = None

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self.unlisted]


def _saved_fields(plan: Plan) -> dict[str, Any]:
    """What its nodes saved, by the names that users know: `_saved_self`, `_raw_saved_self`. (Properties, because a
    class with `__getattr__` makes every read of an attribute slow.) unlisted: those that dir() leaves out, sizes and
    the second names of results."""
    fields: dict[str, Any] = {}
    unlisted: set[str] = set()
    for i, slot in enumerate(plan.slots):
        names = _names_of(plan, slot)
        for name in names:
            fields[f"_raw_saved_{name}"] = property(partial(_saved, i, False))
            fields[f"_saved_{name}"] = property(partial(_saved, i, slot.kind != DIMS))
        for name in names if slot.kind == DIMS else names[1:]:
            unlisted |= {f"_raw_saved_{name}", f"_saved_{name}"}
    return {**fields, "unlisted": frozenset(unlisted)}


def _names_of(plan: Plan, slot: Source) -> list[str]:
    """The names of a saved value; none for what is neither an argument nor a result. Results go by their number, and by
    the schema's name."""
    schema = plan.op.schema
    if slot.kind == RESULT:
        number = f"result{slot.position or ''}"
        return [n for n in (number, schema.returns[slot.position].name) if n]
    if slot.kind in (ARG, DIMS):
        return [schema.arguments[slot.position].name + ("_sym_sizes" if slot.kind == DIMS else "")]
    return []


def _saved(slot: int, unpacks: bool, node: OpNode) -> Any:
    if node.is_freed and not unpacks:
        return FREED_TENSOR
    packed = node.raw_values()[slot]
    return node._unpack_one(packed) if unpacks else packed


@cache
def _rule_of(plan: Plan, needs: tuple[bool, ...], count: int) -> Callable[..., Any]:
    """The gradients of a node as a function of the incoming ones, `count` of them, and of what was saved."""

    def formula(*values: Any) -> tuple[Any, ...]:
        if not override_classes:
            return apply_functional(plan, values[:count], needs, values[count:])
        with OverrideLevel(DISABLED):  # formulas are no public calls: nobody is asked about theirs
            return apply_functional(plan, values[:count], needs, values[count:])

    return formula


def formula_of(plan: Plan, needs: tuple[bool, ...], count: int) -> planned.Formula:
    """The plans of a node's formulas for `count` gradients."""
    owner, key = (plan, needs, count), needs if count == 1 else (needs, count)
    formula: planned.Formula | None = plan.planned.get(key)
    return formula or plan.planned.setdefault(key, planned.Formula(owner, _rule_of(*owner)))


_CLASSES: dict[Plan, type[OpNode]] = {}


def node_class(plan: Plan) -> type[OpNode]:
    """The node class of an operator's calls."""
    cls = _CLASSES.get(plan)
    if cls is None:
        name = plan.name.partition(".")[0]
        cls = _CLASSES[plan] = type(
            name, (OpNode,), {"plan": plan, "__module__": "weft.autograd", **_saved_fields(plan)}
        )
    return cls
