"""Recording: an operator call that autograd sees makes a node with edges to its inputs' nodes and the values its
formulas need.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from weft.autograd.accumulate import accumulator_of
from weft.autograd.anomaly import anomaly, remember_forward
from weft.autograd.node import Edge, InputMetadata, OpNode, formula_of, node_class, sequence_numbers
from weft.autograd.saved import SavedTensor, default_hooks, unrecorded
from weft.ops.backward import ARG, DIMS, DTYPE, RESULT, Plan, Source, chooser, needed_slots, plan_of, plans_of
from weft.ops.op import Op
from weft.support import limits, seams
from weft.support.generated import function_factory
from weft.support.locations import user_mark
from weft.tensor.history import AutogradState
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor
from weft.types.dtype import BY_NUMPY, DType
from weft.types.tensor_type import TensorType


def gradient_edge(tensor: Tensor) -> Edge | None:
    """Where this tensor's gradient flows: its node and slot, the accumulator of a leaf, or None."""
    node = tensor._node
    state = tensor._autograd
    if node is not None:
        return (node, state.index if state is not None else 0)
    if state is not None and state.requires_grad:
        return (accumulator_of(tensor), 0)
    return None


def arrival_edge(tensor: Tensor) -> Edge | None:
    """Where all of this tensor's gradient is together: what hooks hear and autograd.grad asks for."""
    edge = gradient_edge(tensor)
    return None if edge is None else (edge[0].arrival(edge[1]), edge[1])


seams.gradient_edge.install(gradient_edge)


def wants_gradient(op: Op, args: tuple[Any, ...]) -> bool:
    """Whether any tensor argument requires grad."""
    for i in op.tensor_positions:
        a = args[i]
        if isinstance(a, Tensor) and (a._autograd is not None or a._view is not None) and a.requires_grad:
            return True
    for i in op.tensor_list_positions:
        for a in args[i] or ():
            if isinstance(a, Tensor) and a.requires_grad:
                return True
    return False


def prepare(op: Op, args: tuple[Any, ...], clone_self: bool = False) -> OpNode | None:
    """The node of a call before it runs: edges, and the inputs it saves. None when no formula is wanted.
    clone_self: the call writes into its first argument, whose value is saved as it is now."""
    return preparing(op, clone_self)(args)


def preparing(op: Op, clone_self: bool = False) -> Callable[[tuple[Any, ...]], OpNode | None]:
    """prepare() for calls of one operator."""
    return _recipe_of(op, clone_self).prepare


def recording(op: Op) -> Callable[[tuple[Any, ...], Any], None]:
    """`record(args, out)`: prepare() and finish() of a call of one operator that has run."""
    return _recipe_of(op, False).record


def _recipe_of(op: Op, clone_self: bool) -> _Recipe:
    recipe = _RECIPES.get((op, clone_self))
    if recipe is None:
        recipe = _RECIPES[op, clone_self] = _Recipe(op, clone_self)
    return recipe


class _Recipe:
    """What the nodes of an operator have in common. `prepare(args)` and `record(args, out)` are written for the
    operator: they ask of each argument only what hangs on the call."""

    def __init__(self, op: Op, clone_self: bool) -> None:
        self.plan, self.clone_self = plan_of(op), clone_self
        plans = plans_of(op)
        if op.inplace_node:
            plans = plans[-1:] if clone_self else plans[:-1]
        self.nodes, self.chooses = tuple([node_class(plan) for plan in plans]), chooser(op)
        self.positions = self.plan.differentiable
        # by which arguments want a gradient: what is packed, a function of the arguments; Node.formula
        self.packs: dict[tuple[bool, ...], tuple[Any, Any]] = {(False,) * len(self.positions): (_NOTHING, None)}
        names = {
            "Tensor": Tensor, "edge_of_view": _edge_of_view, "accumulator_of": accumulator_of, "packs": self.packs,
            "packing": self.packing, "with_lists": self.with_lists, "finish": finish, "NOTHING": _NOTHING,
            "kind": self.nodes[0] if len(self.nodes) == 1 else self.chosen, "counts": self.plan.one_each, "new": new,
            "sequence_numbers": sequence_numbers, "user_mark": user_mark, "anomaly": anomaly,
            "remember_forward": remember_forward, "described": described, "AutogradState": AutogradState,
            "save_results": save_results,
        }
        shape = (len(op.schema.arguments), self.positions, tuple(names), len(self.nodes) > 1, self.plan.saves_results)
        self.prepare: Callable[[tuple[Any, ...]], OpNode | None] = _factory(*shape, False)(*names.values())
        self.record: Callable[[tuple[Any, ...], Any], None] = _factory(*shape, True)(*names.values())

    def with_lists(self, args: tuple[Any, ...]) -> OpNode | None:
        """prepare() where an argument is a list of tensors: an edge for each of them."""
        edges: list[Edge | None] = []
        counts: list[int] = []
        needs: list[bool] = []
        for position in self.positions:
            value = args[position]
            values = value if type(value) is tuple else (value,)
            listed = [gradient_edge(v) if isinstance(v, Tensor) and v.dtype.is_differentiable else None for v in values]
            edges.extend(listed)
            counts.append(len(listed))
            needs.append(any([e is not None for e in listed]))
        pack, _ = self.packs.get(tuple(needs)) or self.packing(tuple(needs))
        return None if pack is _NOTHING else self.chosen(args)(tuple(edges), pack(args), tuple(counts))

    def chosen(self, args: tuple[Any, ...]) -> type[OpNode]:
        """The node of a call."""
        return self.nodes[self.chooses(args)]

    def packing(self, needs: tuple[bool, ...]) -> tuple[Any, Any]:
        """What nodes save whose arguments want these gradients, and their formula."""
        slots, schema = self.plan.slots, self.plan.op.schema
        arguments, is_one = schema.arguments, len(schema.returns) == 1 and not schema.returns_list
        wanted = needed_slots(self.plan, needs)
        kept = tuple([s if i in wanted and s.kind != RESULT else None for i, s in enumerate(slots)])
        plain = frozenset(i for i, a in enumerate(arguments) if not a.is_tensor)
        formula = formula_of(self.plan, needs, 1) if is_one else None
        packing = self.packs[needs] = _written_packing(kept, plain, self.clone_self), formula
        return packing


def _edge_of_view(view: Tensor) -> Edge | None:
    """gradient_edge() of a view, whose history its base may have to tell."""
    state, storage = view._autograd, view._storage
    if state is not None and state.node is not None and storage is not None and state.version == storage.version:
        return (state.node, state.index)
    return gradient_edge(view) if view.dtype.is_differentiable else None


_RECIPES: dict[tuple[Op, bool], _Recipe] = {}
_NOTHING = object()  # of a call that wants no formula


_FINISH = (  # what finish() does, for the commonest result
    "if type(out) is not Tensor: return finish(node, out)",
    "d, storage = out._data, out._storage",
    "node.metadata_of_inputs, is_differentiable = described(d.shape, d.dtype)",
    "if is_differentiable:",
    "    s = out._autograd = new(AutogradState)",
    "    s.node, s.index = node, 0",
    "    if storage is not None and storage.version: s.version = storage.version",
)
_FINISH_SAVED = (*_FINISH, "save_results(node, (out,))")


@lru_cache(maxsize=limits.RESULTS)
def _factory(
    count: int, positions: tuple[int, ...], names: tuple[str, ...], is_chosen: bool, saves_results: bool, records: bool
) -> Callable[..., Any]:
    """What makes `prepare(args)`, or `record(args, out)`, for `count` arguments, of which those at `positions` may want
    gradients. is_chosen: which node it is hangs on them.

    The user's line is at least as many frames up as `user_mark` is told: `prepare` is called by `prepare` above, within
    the walk, or for an entry that writes; `record` by an entry, which something else calls.
    """
    done = ["node.mark = user_mark(5)", "return node"]
    if records:
        remember = "if anomaly.enabled: remember_forward(node)"
        done = ["node.mark = user_mark(4)", remember, *(_FINISH_SAVED if saves_results else _FINISH), "return None"]
    lines = ["".join(f"x{i}, " for i in range(count)) + "= args"] if count else []
    for i in positions:
        lines += [
            f"if isinstance(x{i}, Tensor):",
            f"    s = x{i}._autograd",
            f"    if x{i}._view is not None: e{i} = edge_of_view(x{i})",
            f"    elif s is None: e{i} = None",
            f"    elif s.node is not None: e{i} = (s.node, s.index)",
            f"    else: e{i} = (s.accumulate or accumulator_of(x{i}), 0) if s.requires_grad else None",
            f"elif type(x{i}) is tuple:",
            "    node = with_lists(args)", "    if node is None: return None", *[f"    {line}" for line in done],
            f"else: e{i} = None",
        ]
    edges = "".join(f"e{i}, " for i in positions)
    lines += [
        f"needs = ({''.join(f'e{i} is not None, ' for i in positions)})",
        "pack, formula = packs.get(needs) or packing(needs)", "if pack is NOTHING: return None",
        f"node = new(kind{'(args)' if is_chosen else ''})",  # (what its __init__ does)
        f"node.edges, node.sequence, node.saved_values = ({edges}), next(sequence_numbers), pack(args)",
        "node.argument_counts, node.formula = counts, formula", *done,
    ]
    return function_factory("record", names, "record(args, out)" if records else "prepare(args)", lines)


@lru_cache(maxsize=limits.RESULTS)
def _written_packing(
    kept: tuple[Source | None, ...], plain: frozenset[int], clone_self: bool
) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What is packed, as a function of the arguments: a value for each source, None where there is none. plain: the
    arguments that are no tensors."""
    parts, sources = [], [s for s in kept if s is not None]
    for source in kept:
        if source is None:
            parts.append("None")
            continue
        value, packed = f"args[{source.position}]", f"pack(s{sources.index(source)}, args)"
        if source.kind == ARG and source.position in plain:
            parts.append(value)
        elif source.kind == DIMS:
            parts.append(f"{value}.dims if isinstance({value}, Tensor) else {packed}")
        elif source.kind == ARG and not (clone_self and source.position == 0):
            parts.append(f"saved({value}) if isinstance({value}, Tensor) else {packed}")
        else:
            parts.append(packed)
    names = {"saved": SavedTensor, "Tensor": Tensor, "pack": partial(_pack, clone_self)}
    names.update({f"s{i}": s for i, s in enumerate(sources)})
    make = function_factory("record", tuple(names), "packed(args)", [f"return ({''.join(p + ', ' for p in parts)})"])
    return make(*names.values())  # type: ignore[no-any-return]


def _pack(clone_self: bool, source: Source, args: tuple[Any, ...]) -> Any:
    value = args[source.position]
    if source.kind == DIMS:
        return tuple(v.dims for v in value) if type(value) is tuple else getattr(value, "dims", ())
    if source.kind == DTYPE:
        return getattr(value, "dtype", None)
    if isinstance(value, Tensor):
        if clone_self and source.position == 0:
            value = _snapshot(value)
        return SavedTensor(value)
    if source.kind == ARG and type(value) is tuple:
        return tuple(SavedTensor(v) if isinstance(v, Tensor) else v for v in value)
    return value


def _snapshot(tensor: Tensor) -> Tensor:
    """The tensor's value and history now, out of reach of the in-place write that follows."""
    from weft.ops.packet import aten  # idem

    with unrecorded():
        copied: Tensor = aten.clone(tensor)
    edge = gradient_edge(tensor)
    if edge is not None and tensor._node is not None:
        copied._autograd = AutogradState(False, *edge)
    return copied


def finish(node: OpNode, out: Any) -> Any:
    """Attach the node to the results that are differentiable, and save the results that its formulas read."""
    results: Any = out if isinstance(out, (tuple, list)) else (out,)
    for i, r in enumerate(results):
        if not isinstance(r, Tensor):
            node.metadata_of_inputs += (None,)
            continue
        data = r._data
        metadata, is_differentiable = (
            described_type(data.type) if isinstance(data, Payload) else described(data.shape, data.dtype)
        )
        node.metadata_of_inputs += metadata
        if is_differentiable:
            state = AutogradState(False, node, i)
            if r._storage is not None:
                state.version = r._storage.version
            r._autograd = state
    save_results(node, results)
    return out


new = object.__new__


@lru_cache(maxsize=limits.RESULTS)
def described(dims: tuple[int, ...], dtype: Any) -> tuple[tuple[InputMetadata], bool]:
    """What gradients of a result with these dims look like, and whether there are any. dtype: as its payload has it."""
    weft_dtype = BY_NUMPY[dtype]
    return (metadata_of(dims, weft_dtype),), weft_dtype.is_differentiable


@lru_cache(maxsize=limits.RESULTS)
def described_type(type: TensorType) -> tuple[tuple[InputMetadata], bool]:
    """The same of a result of a type."""
    assert type.dtype is not None
    return (metadata_of(type.shape, type.dtype),), type.dtype.is_differentiable


@lru_cache(maxsize=limits.RESULTS)
def metadata_of(dims: tuple[int, ...], dtype: DType) -> InputMetadata:
    """One object per shape and dtype: most nodes of a model share theirs."""
    return InputMetadata(dims, dtype)


def save_results(node: OpNode, results: tuple[Any, ...]) -> None:
    """Fill the packed slots that hold results."""
    plan: Plan = node.plan
    if not plan.saves_results:
        return
    formula = node.formula
    needs = node.needs_per_argument(tuple([e is not None for e in node.edges])) if formula is None else formula.needs
    wanted = needed_slots(plan, needs)
    packed = list(node.saved_values or ())
    for i in wanted:
        source = plan.slots[i]
        if source.kind != RESULT:
            continue
        value = results[source.position]
        if not isinstance(value, Tensor):
            packed[i] = value
            continue
        saved = SavedTensor(value, True, source.position)
        if default_hooks.stack:
            saved.pack_output(value)
        packed[i] = saved
    node.saved_values = tuple(packed)
