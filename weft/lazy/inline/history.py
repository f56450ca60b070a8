"""The history of a call in an inline cache: what is asked of operands that may want a gradient, and the nodes of the
call with what they save (what `Composite.replay` makes, as lines).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.autograd.accumulate import accumulator_of
from weft.autograd.anomaly import anomaly
from weft.autograd.node import OpNode, sequence_numbers
from weft.autograd.saved import SavedTensor, default_hooks
from weft.lazy.composites import History, Made, Noted, OperandSaved, ResultSaved
from weft.lazy.inline.writer import Unfit, Writer
from weft.lazy.payload import LazyPayload
from weft.tensor.history import AutogradState
from weft.tensor.tensor import Tensor

# what a node holds that nobody has given hooks or remarks
_OF_NODE = {"edges", "sequence", "saved_values", "argument_counts", "formula", "mark", "metadata_of_inputs"}


class HistoryWriter:
    """Writes what autograd makes of a call."""

    def __init__(self, code: Writer, operands: Sequence[Tensor]) -> None:
        self.code, self.operands = code, operands
        self.leaves: dict[int, bool] = {}  # of operands that want a gradient, whether they are leaves
        self._kept_so_far = 0

    def ask(self) -> None:
        """Whether the operands want gradients as they did, where histories are recorded. Raises Unfit."""
        code = self.code
        for j, tensor in enumerate(self.operands):
            if tensor._view is not None:
                self._ask_view(j, tensor)
                continue
            code.missed_if(f"a{j}._view is not None")
            code.add(f"h{j} = a{j}._autograd")
            if not tensor.requires_grad:
                code.missed_if(f"h{j} is not None and (h{j}.requires_grad or h{j}.node is not None)")
                continue
            state = tensor._autograd
            assert state is not None
            is_leaf = self.leaves[j] = state.node is None
            if is_leaf:
                code.missed_if(f"h{j} is None or not h{j}.requires_grad or h{j}.node is not None")
                code.add(f"e{j} = (h{j}.accumulate or {code.name(accumulator_of)}(a{j}), 0)")
            else:
                code.missed_if(f"h{j} is None or h{j}.node is None")
                code.add(f"e{j} = (h{j}.node, h{j}.index)")

    def _ask_view(self, j: int, view: Tensor) -> None:
        """A view must know its history itself (autograd.record)."""
        code, state = self.code, view._autograd
        code.missed_if(f"a{j}._view is None")
        if not view.requires_grad:
            code.missed_if(f"a{j}.requires_grad")
            return
        if state is None or state.node is None:
            raise Unfit
        self.leaves[j] = False
        code.add(f"h{j} = a{j}._autograd")
        code.missed_if(f"h{j} is None or h{j}.node is None or a{j}._storage is None")
        code.missed_if(f"h{j}.version != a{j}._storage.version")
        code.add(f"e{j} = (h{j}.node, h{j}.index)")

    def saving(self, history: History) -> None:
        """Whether operands can be saved, and nobody is told of it."""
        self.code.missed_if(f"{self.code.name(default_hooks)}.stack or {self.code.name(anomaly)}.enabled")
        for j in sorted({saved.turn for node in history.nodes for saved in _operands_in(node.saved)}):
            self.code.missed_if(f"a{j}._storage is None or a{j}._storage.is_inference")

    def nodes(self, history: History) -> None:
        """The nodes, each with what it saves, and the tensors whose gradients flow into them."""
        code = self.code
        state, numbers = code.name(AutogradState), code.name(sequence_numbers)
        for i, (noted, produced) in enumerate(zip(history.nodes, history.behind, strict=True)):
            saved = self._saved(noted.saved, history)
            edges = "".join(self._edge(edge) + ", " for edge in noted.edges)
            code.add(
                f"g{i} = new({code.name(noted.type)})",
                f"g{i}.edges, g{i}.sequence, g{i}.saved_values = ({edges}), next({numbers}), {saved}",
                f"g{i}.argument_counts, g{i}.formula = {code.name(noted.counts)}, {code.name(noted.formula)}",
                f"g{i}.metadata_of_inputs, g{i}.mark = {code.name(noted.metadata)}, mark",
            )
            for k in produced:
                code.add(f"h = t{k}._autograd = new({state})", f"h.node, h.index = g{i}, {history.tensors[k].slot}")

    def _edge(self, edge: tuple[int, int] | None) -> str:
        if edge is None:
            return "None"
        if edge[0] >= 0:
            return f"(g{edge[0]}, {edge[1]})"
        if ~edge[0] not in self.leaves:
            raise Unfit
        return f"e{~edge[0]}"

    def _saved(self, saved: Any, history: History) -> str:
        code, kind = self.code, type(saved)
        if kind is OperandSaved:
            j = saved.turn
            if self.operands[j]._view is not None:
                return self._named(f"{code.name(SavedTensor)}(a{j})")
            code.add(f"p = new({code.name(SavedTensor)})", f"p.payload, p.storage = d{j}, a{j}._storage")
            is_leaf = self.leaves.get(j, True)
            held = f"None, a{j}, None" if is_leaf else f"e{j}, None, a{j}"
            return self._kept(f"{held}, p.storage.version, False, 0")
        if kind is ResultSaved:
            k = saved.tensor
            if not saved.is_output:
                return self._named(f"{code.name(SavedTensor)}(t{k})")
            code.add(f"p = new({code.name(SavedTensor)})", f"p.payload, p.storage = t{k}._data, t{k}._storage")
            return self._kept(f"None, None, None, 0, True, {saved.number}")
        if kind is tuple and any([type(s) is not int for s in saved]):
            return "(" + "".join(self._saved(s, history) + ", " for s in saved) + ")"
        return code.name(saved)

    def _kept(self, values: str) -> str:
        """The name of a saved tensor: history, leaf, origin, version, is_output and index are these."""
        self.code.add(
            f"p.history, p.leaf, p.origin, p.version, p.is_output, p.index = {values}",
            "p.packed = p.unpack_hook = None",
        )
        return self._named("p")

    def _named(self, value: str) -> str:
        self._kept_so_far += 1
        self.code.add(f"p{self._kept_so_far} = {value}")
        return f"p{self._kept_so_far}"


def _operands_in(saved: tuple[Any, ...]) -> list[OperandSaved]:
    operands: list[OperandSaved] = []
    for s in saved:
        if type(s) is OperandSaved:
            operands.append(s)
        elif type(s) is tuple:
            operands += _operands_in(s)
    return operands


def described(operands: Sequence[Tensor], results: Any, entry: Any) -> History:
    """A call of one operator, whose results are an entry's. Raises Unfit."""
    outputs = results if type(results) is tuple else (results,)
    nodes = {id(t._autograd.node): t._autograd.node for t in outputs if t._autograd is not None}
    if len(nodes) > 1:
        raise Unfit
    tensors = []
    for output in outputs:
        data = output._data
        if type(output) is not Tensor or type(data) is not LazyPayload or data.path or output._view is not None:
            raise Unfit
        value, state = data.storage.value, output._autograd
        if value.node is not entry or (state is not None and state.node is None):
            raise Unfit
        place = (-1, 0) if state is None else (0, state.index)
        tensors.append(Made(value.index, data.storage.order, -1, (), data.storage.type, None, *place))
    noted = [_noted(node, operands, outputs) for node in nodes.values()]
    slots = tuple(range(len(tensors)))
    return History(noted, tensors, slots if type(results) is tuple else 0)


def _noted(node: Any, operands: Sequence[Tensor], outputs: Sequence[Tensor]) -> Noted:
    if not isinstance(node, OpNode) or node.saved_values is None or not _OF_NODE.issuperset(node.__dict__):
        raise Unfit
    edges = tuple([None if e is None else (~_operand_at(e, operands), 0) for e in node.edges])
    saved = tuple([_saved_from(s, operands, outputs) for s in node.saved_values])
    return Noted(type(node), edges, saved, node.argument_counts, node.metadata_of_inputs, node.formula)


def _operand_at(edge: Any, operands: Sequence[Tensor]) -> int:
    """The operand whose gradient flows along an edge."""
    for j, tensor in enumerate(operands):
        state = tensor._autograd
        if state is not None:
            if state.node is None and state.accumulate is edge[0]:
                return j
            if state.node is edge[0] and state.index == edge[1]:
                return j
    raise Unfit


def _saved_from(saved: Any, operands: Sequence[Tensor], outputs: Sequence[Tensor]) -> Any:
    if type(saved) is tuple:
        return tuple([_saved_from(s, operands, outputs) for s in saved])
    if type(saved) is not SavedTensor:
        if isinstance(saved, Tensor):
            raise Unfit
        return saved
    if saved.unpack_hook is not None:
        raise Unfit
    if saved.is_output:
        for k, output in enumerate(outputs):
            if output._data is saved.payload and saved.index == k:
                return ResultSaved(k, True, k)
        raise Unfit
    for j, tensor in enumerate(operands):
        if saved.leaf is tensor or saved.origin is tensor:
            return OperandSaved(j)
    raise Unfit
