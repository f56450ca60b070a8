"""What becomes of the results: for each leaf of what the function returns, where a call finds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Coroutine, Iterator, Sequence
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.dependencies import nodes_within
from weft.autograd.hooks import NO_HOOKS, hooks_on
from weft.autograd.node import Node, OpNode
from weft.compile.tracing.outcome import Outcome
from weft.compile.tracing.returned_containers import Callers, Older
from weft.functionalizer.writes import Path
from weft.ir.graph import Operand, Value
from weft.layers.transforms.level import come_out
from weft.ops.packet import aten
from weft.passes.partition import partition
from weft.programs.joint_record import JointRecord, history_of, wants_own_grad
from weft.programs.program_io import (
    NumberWrite,
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
from weft.record.capture import Capture
from weft.record.numbers.run_time import RunTimeNumber
from weft.record.numbers.sym_float import SymFloat, is_live
from weft.record.older_histories import Given
from weft.record.symbolic import SymbolicPayload, SymbolicStorage
from weft.record.tracer_leaks import held_symbol
from weft.record.writes import ArgumentChange
from weft.runtime.generator import Generator
from weft.support import pytree
from weft.tensor.dense import is_dense
from weft.tensor.meta import is_meta
from weft.tensor.tensor import Tensor
from weft.types import dims
from weft.types import dtype as dtypes
from weft.types.dims import Dim, Expr
from weft.types.sym import SymInt


# ---- results
def note_returns(outcome: Outcome, result: Any) -> None:
    """What becomes of each leaf of the result, with the first leaf that is the same tensor; behind them, of arguments
    that get a history or ask for gradients, of the tensors that returned views are views of, and of gradients that the
    function has given to tensors of its own.

    Also, for each, the tensor that carries its history (None for views whose history follows from their base).
    """
    stand_ins = outcome.stand_ins
    leaves, outcome.spec = pytree.flatten(result)
    leaves = [_as_one_of(come_out(leaf), stand_ins) for leaf in leaves]  # (kept within a transform that has ended)
    _refuse_attributes(outcome, leaves, stand_ins)
    positions: dict[int, int] = {}
    groups: dict[int, int] = {}
    returns: list[tuple[Return, int]] = []
    carriers = [leaf for leaf in leaves]
    for i, leaf in enumerate(leaves):
        group = groups.setdefault(id(leaf), i) if isinstance(leaf, Tensor) else i
        returns.append((_return(outcome, leaf, stand_ins, positions), group))
    for at in (*outcome.changes.written, *outcome.changes.requiring):
        if groups.setdefault(id(stand_ins[at]), len(returns)) == len(returns):
            returns.append((ReturnArgument(at, None), len(returns)))
            carriers.append(stand_ins[at])
    computed = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload}
    inner = nodes_within([history_of(leaf) for leaf in computed.values()]) if len(computed) > 1 else frozenset()
    for i, leaf in enumerate(leaves):
        base, path = _view_path(outcome, leaf, stand_ins)
        if path is None:
            continue
        base = _as_one_of(base, leaves)
        root = groups.setdefault(id(base), len(returns))
        if root == len(returns):
            returns.append((_return(outcome, base, stand_ins, positions), root))
            carriers.append(base)
        creation = leaf._view.creation
        if _has_more_than_views(leaf, inner):
            returns[i] = ReturnView(root, path, False, creation), returns[i][1]
        else:
            is_recorded = creation not in ("no_grad", "inference")
            is_earlier = creation == "inference" or (is_recorded and base.requires_grad and not leaf.requires_grad)
            view = ReturnView(root, path, is_recorded, earlier=creation if is_earlier else None)
            returns[i], carriers[i] = (view, returns[i][1]), None
    tensors = [*leaves, *carriers[len(leaves) :]]
    for i, tensor in enumerate(tensors):
        gradient = _own_gradient(outcome, tensor)
        if gradient is not None:
            at = groups.setdefault(id(gradient), len(returns))
            if at == len(returns):
                returns.append((_return(outcome, gradient, stand_ins, positions), at))
                carriers.append(gradient)
            outcome.gradients.append((i, at))
    _refuse_hooks(outcome, carriers)
    outcome.returns, outcome.carriers, outcome.retained = returns, carriers, _retained(outcome, tensors)


def _own_gradient(outcome: Outcome, tensor: Any) -> Any:
    """The `.grad` of a tensor that the function made, if it has given it one. (Those of others are effects.)"""
    if not _is_own(outcome, tensor) or tensor._autograd is None:
        return None
    return tensor._autograd.grad


def _retained(outcome: Outcome, tensors: list[Any]) -> list[int]:
    """Which of these, no leaves, go on keeping their gradients."""
    return [i for i, tensor in enumerate(tensors) if _is_own(outcome, tensor) and tensor.retains_grad]


def _is_own(outcome: Outcome, tensor: Any) -> bool:
    """Whether a tensor is one that the function made."""
    return isinstance(tensor, Tensor) and outcome.capture.outside.is_made(tensor)


def _refuse_attributes(outcome: Outcome, results: Sequence[Any], stand_ins: Sequence[Any]) -> None:
    """Raises ArgumentChange where the function gives an attribute of the user's to an argument, or to a tensor that it
    makes and that leaves it: a program makes tensors without any. It runs as written then."""
    pairs = zip(stand_ins, outcome.leaves, strict=False)
    attributes = {id(s): outcome.attributes[id(leaf)] for s, leaf in pairs if isinstance(s, Tensor)}
    for tensor in (*stand_ins, *results):
        is_own = isinstance(tensor, Tensor) and type(tensor._data) is SymbolicPayload
        if not is_own and id(tensor) not in attributes:
            continue
        before = attributes.get(id(tensor), {})
        changed = [name for name in {**before, **vars(tensor)} if vars(tensor).get(name) is not before.get(name)]
        if changed:
            raise ArgumentChange(
                f"a compiled function gives the attribute {changed[0]!r} to a tensor of shape {list(tensor.shape)} "
                "that its caller sees; a program makes tensors without attributes. Return the value beside the tensor"
            )


def _refuse_hooks(outcome: Outcome, carriers: Sequence[Any]) -> None:
    """Raises ArgumentChange where a leaf that the function has made leaves it with hooks."""
    for tensor in carriers:
        if _is_own(outcome, tensor) and wants_own_grad(tensor) and hooks_on(tensor) != NO_HOOKS:
            raise ArgumentChange(
                f"a compiled function leaves a hook on a leaf of shape {list(tensor.shape)} that it has made"
            )


def _as_one_of(leaf: Any, others: Sequence[Any]) -> Any:
    """A tensor among others that is the same one seen as of another class (they share their history); else itself."""
    if isinstance(leaf, Tensor) and leaf._autograd is not None:
        for other in others:
            if isinstance(other, Tensor) and other._autograd is leaf._autograd:
                return other
    return leaf


def _has_more_than_views(view: Tensor, inner: Container[Node]) -> bool:
    """Whether view operators are not the whole history of a view from its base on: a custom Function, a module's
    backward hooks, hooks of nodes or another result stand between. inner: the nodes of results that other results are
    computed from."""
    node, last = history_of(view), history_of(view._view.base)  # type: ignore[union-attr]
    while node is not None and node is not last and not isinstance(node, (AccumulateGrad, Given)):
        if not isinstance(node, OpNode) or node.hook_tables is not None or node in inner:
            return True
        node = node.edges[0][0] if node.edges and node.edges[0] is not None else None
    return False


def _view_path(outcome: Outcome, leaf: Any, stand_ins: list[Any]) -> tuple[Any, Path | None]:
    """A tensor of which a returned one is a view, and the view operators that lead there: its base, where that is one
    memory and no tensor says where to look. Of arguments that share memory the base may be none of them: then the
    argument that the function looked through, since the next call's have another base.
    """
    if (
        not isinstance(leaf, Tensor) or leaf._view is None or type(leaf._data) is not SymbolicPayload
        or wants_own_grad(leaf)
    ):
        return None, None
    base, path = _as_one_of(leaf._view.base, stand_ins), leaf._view.path
    data, is_reshaped = base._data, id(base) in outcome.capture.outside.inplace_views
    if is_reshaped and leaf._view.array is not data:
        return None, None  # the base does not lie any more as it did
    is_given = any(stand_in is base for stand_in in stand_ins)
    is_whole = type(data) is not SymbolicPayload or not data.path or is_reshaped
    if not (is_whole or is_given) or (type(data) is SymbolicPayload and data.storage is not leaf._data.storage):
        return None, None
    if any(isinstance(a, (Tensor, Value)) for _, args, _ in path for a in args):
        return None, None
    slot = leaf._data.storage.slot
    if slot is None or slot.leaf is None or is_given:
        return base, path
    for stand_in in stand_ins:
        if isinstance(stand_in, Tensor) and stand_in._view is not None and stand_in._view.base is base:
            shared = stand_in._view.path
            if len(shared) <= len(path) and all(mine is its for mine, its in zip(path, shared, strict=False)):
                return stand_in, path[len(shared) :]
    return None, None


def _return(outcome: Outcome, leaf: Any, stand_ins: list[Any], positions: dict[int, int]) -> Return:
    if isinstance(leaf, SymInt):
        return ReturnNumber(None, leaf.expr)
    if isinstance(leaf, SymFloat):
        return ReturnNumber(outcome.result(leaf.value), None) if is_live(leaf) else ReturnConstant(leaf.now())
    if isinstance(leaf, RunTimeNumber):
        return ReturnNumber(outcome.result(outcome.capture.tensors.operand(leaf.tensor)), None)
    if not isinstance(leaf, Tensor):
        if isinstance(leaf, Older):
            return ReturnConstant(leaf.value)
        if isinstance(leaf, Callers):
            return ReturnContainer(leaf.path, leaf.slot)
        if isinstance(leaf, (Iterator, Coroutine, AsyncIterator)):
            raise outcome.capture.refuse(
                f"{outcome.capture.recorder.root.name} returns a {type(leaf).__name__}, which later calls would find "
                "used up; return a list of its items instead"
            )
        if isinstance(leaf, Generator) and leaf.is_inner:
            raise outcome.capture.refuse(
                f"{outcome.capture.recorder.root.name} returns a Generator that it has made, which later calls would "
                "not make anew: make it outside, and draw from it"
            )
        if held_symbol(leaf) is not None:
            raise outcome.capture.refuse(
                f"{outcome.capture.recorder.root.name} returns an object of type {type(leaf).__name__} that holds "
                "tensors made in this call; return them in a tuple, list, dict, named tuple or dataclass"
            )
        return ReturnConstant(leaf)
    for i, stand_in in enumerate(stand_ins):
        if stand_in is leaf:
            return ReturnArgument(i, None)
    returned = _return_grad(outcome, leaf)
    if returned is not None:
        return returned
    is_alias = outcome.capture.outside.is_alias(leaf)
    if not is_alias and (is_dense(leaf) or is_meta(leaf)):
        return outcome.earlier_gradient(leaf) or ReturnState(leaf, None, None)
    data = outcome.capture.tensors.payload_of(leaf) if is_alias else leaf._data
    if not isinstance(data, SymbolicPayload):
        raise outcome.capture.refuse(
            f"{outcome.capture.recorder.root.name} keeps or returns a tensor of a transform (grad, vmap, jvp) beyond "
            "its end; let the transformed function return it (has_aux=True)"
        )
    storage = data.storage
    if data.path or storage.partner is not None:
        storage.ask()  # the caller may write what it gets: whether that is an alias hangs on these questions
    if storage.slot is not None:
        return ReturnState(None, storage.slot, _shown(data))
    for i, stand_in in enumerate(stand_ins):
        if (
            isinstance(stand_in, Tensor) and type(stand_in._data) is SymbolicPayload
            and stand_in._data.storage is storage
        ):
            return ReturnArgument(i, _shown(data))
    if id(storage) not in positions:
        positions[id(storage)] = outcome.result(_in_memory_order(outcome.capture, storage))
    return ReturnFresh(positions[id(storage)], _shown(data) if data.path or storage.order is not None else None)


def _return_grad(outcome: Outcome, leaf: Tensor) -> Return | None:
    """A returned tensor that is the `.grad` of a leaf, or shows its memory: the caller gets the object that the leaf
    has then.
    """
    data = leaf._data
    for slot in outcome.capture.leaf_gradients.slots.values():
        current = slot.current
        if not isinstance(current, Tensor) or current.requires_grad or leaf.requires_grad:
            continue
        if current is leaf:
            shown = None
        elif (
            slot.touched and type(data) is type(current._data) is SymbolicPayload
            and data.storage is current._data.storage and not current._data.path
        ):
            data.storage.ask()
            shown = _shown(data)
        else:
            continue
        real = outcome.capture.leaf_gradients.real(slot.tensor)
        return ReturnGrad(real, outcome.leaf_of(real), shown)
    return None


def _shown(data: SymbolicPayload) -> Shown:
    assert data.type.dtype is not None
    return Shown(data.geometry(), data.type.dtype.numpy)


def _in_memory_order(capture: Capture, storage: SymbolicStorage) -> Operand:
    """A storage's value with its dims from the outermost in memory inwards: results lie row-major."""
    storage.refuse_stale()
    if storage.order is None:
        return storage.value
    return capture.recorder.builder.emit(aten.permute.default.op, (storage.value, storage.order)).output


def bind_late(outcome: Outcome, returns: list[Return], writes: list[NumberWrite], offsets: list[Dim]) -> None:
    """Numbers that outlive the program's run and hang on unbacked sizes: their symbols come out as results."""
    dims = [*offsets, *(w.dim for w in writes), *(r.dim for r in returns if isinstance(r, ReturnNumber))]
    for r in returns:
        if isinstance(r, (ReturnFresh, ReturnState, ReturnArgument, ReturnGrad)) and r.shown is not None:
            dims += [*r.shown.geometry.dims, *r.shown.geometry.strides, r.shown.geometry.offset]
    dims += [size for r in returns if isinstance(r, ReturnView) for _, args, _ in r.path for size in _sizes_in(args)]
    capture = outcome.capture
    for name in sorted({s for d in dims if isinstance(d, Expr) for s in d.symbols() if s not in capture.env.examples}):
        outcome.late.append((name, outcome.result(_size_value(capture, name))))


def _sizes_in(value: Any) -> Iterator[Dim]:
    """The symbolic numbers among a view's arguments."""
    if type(value) is Expr:
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from _sizes_in(part)


def _size_value(capture: Capture, name: str) -> Operand:
    """An unbacked size, as a number that it can return."""
    value = capture.recorder.run_time.get(name)
    return value if value is not None else capture.tensors.operand(aten.full(
        (), SymInt(dims.symbol(name), capture.env), dtype=dtypes.int64
    ))


def bind_sizes(outcome: Outcome, fixed: int, record: JointRecord) -> int:
    """Sizes that the forward finds and the backward goes by come out as results too, before the gradients. Returns how
    many these are.
    """
    capture, bound = outcome.capture, {name for name, _ in outcome.late}
    halves = partition(
        capture.recorder.builder.graph(outcome.results, outcome.writes), fixed, record.tangents, record.start
    )
    names = sorted(set(halves.sizes.values()) - bound)
    outcome.results[fixed:fixed] = [_size_value(capture, name) for name in names]
    outcome.late += [(name, fixed + i) for i, name in enumerate(names)]
    return len(names)
