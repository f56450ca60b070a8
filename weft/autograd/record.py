"""Recording: an operator call that autograd sees makes a node with edges to its inputs' nodes and the values its
formulas need.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from weft.autograd.accumulate import accumulator_of
from weft.autograd.node import Edge, InputMetadata, OpNode, node_class
from weft.autograd.saved import SavedTensor, default_hooks, unrecorded
from weft.ops.backward import ARG, DIMS, DTYPE, RESULT, Plan, Source, needed_slots, plan_of
from weft.ops.op import Op
from weft.support import seams
from weft.support.locations import user_mark
from weft.tensor.history import AutogradState
from weft.tensor.tensor import Tensor
from weft.types.dtype import BY_NUMPY, DType


def gradient_edge(tensor: Tensor) -> Edge | None:
    """Where this tensor's gradient flows: its node and slot, the accumulator of a leaf, or None."""
    node = tensor.grad_fn
    state = tensor._autograd
    if node is not None:
        return (node, state.index if state is not None else 0)
    if state is not None and state.requires_grad:
        return (accumulator_of(tensor), 0)
    return None


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
    """The node of a call before it runs: edges, and the inputs it saves. None when no formula is wanted."""
    recipe = _RECIPES.get(op)
    if recipe is None:
        recipe = _RECIPES[op] = _Recipe(op)
    edges: list[Edge | None] = []
    counts = recipe.counts
    for position in recipe.positions:
        value = args[position]
        if isinstance(value, Tensor):
            state = value._autograd
            if value._view is not None:
                edges.append(gradient_edge(value) if value.dtype.is_differentiable else None)
            elif state is None:
                edges.append(None)
            elif state.node is not None:
                edges.append((state.node, state.index))
            else:
                edges.append((state.accumulate or accumulator_of(value), 0) if state.requires_grad else None)
        elif type(value) is tuple:
            return _prepare_lists(recipe, args, clone_self)
        else:
            edges.append(None)
    return _node(recipe, edges, counts, tuple([e is not None for e in edges]), args, clone_self)


class _Recipe:
    """What the nodes of an operator have in common."""

    def __init__(self, op: Op) -> None:
        self.plan = plan_of(op)
        self.node = node_class(op)
        self.positions = self.plan.differentiable
        self.counts = (1,) * len(self.positions)
        self.nothing = (None,) * len(self.plan.slots)
        # by which arguments want a gradient, the slots that are filled: number, argument, whether by the argument
        # itself, source
        self.packs: dict[tuple[bool, ...], list[tuple[int, int, bool, Source]]] = {}


_RECIPES: dict[Op, _Recipe] = {}


def _prepare_lists(recipe: _Recipe, args: tuple[Any, ...], clone_self: bool) -> OpNode | None:
    """prepare() where an argument is a list of tensors: an edge for each of them."""
    edges: list[Edge | None] = []
    counts: list[int] = []
    needs: list[bool] = []
    for position in recipe.positions:
        value = args[position]
        given = value if type(value) is tuple else (value,)
        found = [gradient_edge(v) if isinstance(v, Tensor) and v.dtype.is_differentiable else None for v in given]
        edges.extend(found)
        counts.append(len(found))
        needs.append(any([e is not None for e in found]))
    return _node(recipe, edges, tuple(counts), tuple(needs), args, clone_self)


def _node(
    recipe: _Recipe, edges: list[Edge | None], counts: tuple[int, ...], needs: tuple[bool, ...], args: tuple[Any, ...],
    clone_self: bool,
) -> OpNode | None:
    if True not in needs:
        return None
    wanted = recipe.packs.get(needs)
    if wanted is None:
        slots = recipe.plan.slots
        found = [(i, slots[i]) for i in needed_slots(recipe.plan, needs) if slots[i].kind != RESULT]
        wanted = recipe.packs[needs] = [(i, s.position, s.kind == ARG, s) for i, s in found]
    packed: list[Any] = list(recipe.nothing)
    for i, position, is_argument, source in wanted:
        value = args[position]
        if is_argument and (type(value) is Tensor or isinstance(value, Tensor)) and not (clone_self and not position):
            packed[i] = SavedTensor(value)
        elif is_argument and type(value) is not tuple and not isinstance(value, Tensor):
            packed[i] = value
        else:
            packed[i] = _pack(source, args, clone_self)
    node = recipe.node(tuple(edges), tuple(packed), counts)
    node.mark = user_mark(3)
    return node


def _pack(source: Source, args: tuple[Any, ...], clone_self: bool) -> Any:
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
    if edge is not None and tensor.grad_fn is not None:
        copied._autograd = AutogradState(False, *edge)
    return copied


def finish(node: OpNode, out: Any) -> Any:
    """Attach the node to the results that are differentiable, and save the results that its formulas read."""
    metadata = node.metadata_of_inputs
    if type(out) is Tensor and out._storage is None:  # the commonest result
        dtype = BY_NUMPY[out._data.dtype]
        metadata.append(metadata_of(out._data.shape, dtype))
        if dtype.is_differentiable:
            out._autograd = AutogradState(False, node)
        if node.plan.saves_results:
            save_results(node, (out,))
        return out
    results: Any = out if isinstance(out, (tuple, list)) else (out,)
    for i, r in enumerate(results):
        if not isinstance(r, Tensor):
            metadata.append(None)
            continue
        data = r._data
        dtype = BY_NUMPY[data.dtype]
        metadata.append(metadata_of(data.shape, dtype))
        if dtype.is_differentiable:
            state = AutogradState(False, node, i)
            if r._storage is not None:
                state.version = r._storage.version
            r._autograd = state
    save_results(node, results)
    return out


@lru_cache(maxsize=4096)
def metadata_of(dims: tuple[int, ...], dtype: DType) -> InputMetadata:
    """One object per shape and dtype: most nodes of a model share theirs."""
    return InputMetadata(dims, dtype)


def save_results(node: OpNode, results: tuple[Any, ...]) -> None:
    """Fill the packed slots that hold results."""
    plan: Plan = node.plan
    if not plan.saves_results:
        return
    wanted = needed_slots(plan, node.needs_per_argument(tuple(e is not None for e in node.edges)))
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
