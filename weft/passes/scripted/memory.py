"""Memory: which values of a program may be, show or hold the same thing that can be written to, and what writes it.

Values are put into classes, for the memory of tensors and for containers apart: a view with its source, a container
with what it holds, what a branch yields with its result, and everything that the outside knows with each other. A pass
may treat two equal computations as one only where nothing writes their class.
"""

from __future__ import annotations

from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.structure import GRADIENTS_OF, GROUPS, IF, LATER, LOOP
from weft.passes.scripted.entries import CALLS, GET_ATTR, NEW_LISTS, PRINT, SET_ATTR, TENSOR_GETITEM, TENSOR_SETITEM
from weft.types.tensor_type import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    DTYPE,
    FLOAT,
    INT,
    LAYOUT,
    NONE,
    NUMBER,
    STR,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)

_PLAIN = frozenset((INT, FLOAT, BOOL, COMPLEX, STR, NONE, NUMBER, DTYPE, DEVICE, LAYOUT))
TENSORS, CONTAINERS = "tensors", "containers"
Written = tuple[str, Value]  # a class of one of the two kinds


def can_be_written(kind: Type) -> bool:
    """Whether a value of the type is, or holds, what can be written to."""
    if isinstance(kind, OptionalType):
        return can_be_written(kind.inner)
    if isinstance(kind, TupleType):
        return any(map(can_be_written, kind.elements))
    return kind not in _PLAIN


def _is_tensor(kind: Type) -> bool:
    return isinstance(kind.inner if isinstance(kind, OptionalType) else kind, TensorType)


class _Classes:
    """Values, put together."""

    def __init__(self) -> None:
        self._parents: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """What stands for a value's class."""
        root = value
        while (parent := self._parents.get(root, root)) is not root:
            root = parent
        while value is not root:
            self._parents[value], value = root, self._parents.get(value, root)
        return root

    def join(self, values: list[Value]) -> None:
        """Let values be of one class."""
        for value in values[1:]:
            first, second = self.of(value), self.of(values[0])
            if first is not second:
                self._parents[first] = second


class Memory:
    """The classes of a graph's values."""

    def __init__(self, graph: Graph) -> None:
        self._classes = {TENSORS: _Classes(), CONTAINERS: _Classes()}
        self._outside = Value(ANY, "outside")
        self._join((self._outside, *graph.params))
        self._block(graph.block)
        self._written = {w for n in graph.walk() for w in self._written_by(n)}
        self._returned = {c for v in values_in(graph.results) if can_be_written(v.type) for c in self._both(v)}

    def is_written(self, value: Value) -> bool:
        """Whether anything writes to what a value is; to what it holds, if it is a tuple."""
        return can_be_written(value.type) and any(w in self._written for w in self._own(value))

    def escapes(self, value: Value) -> bool:
        """Whether the outside may get hold of it."""
        return can_be_written(value.type) and any(
            c in self._returned or c in self._both(self._outside) for c in self._own(value)
        )

    def is_outside(self, value: Value) -> bool:
        """Whether a tensor may be one that the program was given, or that others hold."""
        return self.may_share(value, self._outside)

    def may_share(self, a: Value, b: Value) -> bool:
        """Whether two tensors may be one, or show the same memory."""
        classes = self._classes[TENSORS]
        return classes.of(a) is classes.of(b)

    def read_by(self, node: Node) -> tuple[Written, ...]:
        """The classes that a node may look at."""
        values = (v for v in values_in(node.args) if can_be_written(v.type))
        return tuple(c for v in values for c in (self._own(v) if _is_tensor(v.type) else self._both(v)))

    def writes(self, node: Node) -> set[Written] | None:
        """The classes that a node and what is in its blocks writes; None where that may be any."""
        written: set[Written] = set()
        for one in node.walk():
            if writes_anything(one):
                return None
            written.update(self._written_by(one))
        return written

    def tensors_written(self, node: Node) -> set[Value]:
        """What stands for the memory of tensors that a node, and what is in its blocks, writes itself."""
        classes = self._classes[TENSORS]
        targets = (n.args[0] for n in node.walk() if writes_tensor(n))
        return {classes.of(t) for t in targets if isinstance(t, Value)}

    def is_one_of(self, value: Value, written: set[Value]) -> bool:
        """Whether a value may be, or hold, a tensor over memory that `tensors_written` names."""
        return can_be_written(value.type) and self._classes[TENSORS].of(value) in written

    def may_merge(self, kept: Value, dropped: Value, is_view: bool = False) -> bool:
        """Whether one value may stand for another that equals it: nobody can tell that they are one."""
        if not can_be_written(kept.type) and not can_be_written(dropped.type):
            return True
        if self.is_written(kept) or self.is_written(dropped):
            return False
        return is_view or not (self.escapes(kept) and self.escapes(dropped))

    def same(self, old: Value, new: Value) -> None:
        """A new value stands for a known one."""
        if old is new:
            return
        for kind, classes in self._classes.items():
            before = classes.of(new)
            classes.join([old, new])
            for facts in (self._written, self._returned):
                if (kind, before) in facts:
                    facts.add((kind, classes.of(old)))

    # ---- classes
    def _own(self, value: Value) -> tuple[Written, ...]:
        """The classes that a value itself is of."""
        if _is_tensor(value.type):
            return ((TENSORS, self._classes[TENSORS].of(value)),)
        if isinstance(value.type, (ListType, DictType)):
            return ((CONTAINERS, self._classes[CONTAINERS].of(value)),)
        return self._both(value)

    def _both(self, value: Value) -> tuple[Written, ...]:
        return tuple((kind, classes.of(value)) for kind, classes in self._classes.items())

    def _join(self, operands: tuple[Operand, ...]) -> None:
        values = _writable(operands)
        self._classes[TENSORS].join(values)
        self._classes[CONTAINERS].join([v for v in values if not _is_tensor(v.type)])

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            for inner in node.blocks:
                self._block(inner)
            self._node(node)

    def _node(self, node: Node) -> None:
        if node.op is IF:
            for i, value in enumerate(node.outputs):
                self._join((value, *(b.results[i] for b in node.blocks)))
        elif node.op is LOOP:
            self._loop(node)
        elif node.op in GROUPS:
            for value, result in zip(node.outputs, node.blocks[0].results, strict=True):
                self._join((value, result))
        elif node.op is GRADIENTS_OF:
            for param, operand in zip(node.blocks[0].params, node.args[1], strict=True):
                self._join((param, operand))
        elif node.op in LATER:
            (block,) = node.blocks
            self._join((node.args, node.outputs, block.params, block.results, tuple(block.free_values())))
        elif node.op in CALLS or node.op is GET_ATTR or node.op is SET_ATTR:
            self._join((self._outside, node.args, node.outputs))
        elif node.op.writes is not None or node.op.view is not None or node.op is TENSOR_GETITEM:
            self._join((node.args[0], node.outputs))  # what else they are given is only read
        elif not makes_new(node) and not _makes_new_list(node) and node.op not in (PRINT, TENSOR_SETITEM):
            self._join((node.args, node.outputs))

    def _loop(self, node: Node) -> None:
        _, _, carried, xs, _ = node.args
        (block,) = node.blocks
        for i, operand in enumerate(carried):
            self._join((block.params[1 + i], operand, block.results[1 + i], node.outputs[i]))
        for i, operand in enumerate(xs):
            self._join((block.params[1 + len(carried) + i], operand))

    def _written_by(self, node: Node) -> tuple[Written, ...]:
        """The classes that a node writes to, without what is in its blocks."""
        if not is_writer(node):
            return ()
        target = node.args[0] if node.args else None
        if isinstance(target, Value) and (writes_tensor(node) or isinstance(target.type, (ListType, DictType))):
            return self._own(target)
        outside = (self._outside,) if node.op in CALLS else ()
        return tuple(c for v in (*_writable(node.args), *outside) for c in self._both(v))


def makes_new(node: Node) -> bool:
    """Whether the results are new tensors, that share nothing with the arguments."""
    op = node.op
    return not op.host and op.writes is None and op.how in ("scalar", "reduce", "kernel")


def _makes_new_list(node: Node) -> bool:
    """Whether the result is a new list of what cannot be written to."""
    kind = node.output.type if node.op in NEW_LISTS else None
    return isinstance(kind, ListType) and not can_be_written(kind.element)


def writes_anything(node: Node) -> bool:
    """Whether what a node does cannot be told from its arguments: a mode that is switched, gradients that are kept."""
    if not is_writer(node) or writes_tensor(node):
        return False
    first = node.args[0] if node.args else None
    return not _writable(node.args) or (node.op.host and isinstance(first, Value) and _is_tensor(first.type))


def writes_tensor(node: Node) -> bool:
    """Whether a node writes to the memory of its first argument."""
    return node.op.writes is not None or node.op is TENSOR_SETITEM


def is_writer(node: Node) -> bool:
    """Whether a node changes memory or objects, or does what nobody knows; what is in its blocks left out."""
    return node.op.effect in ("io", "python") and not node.op.observes and node.op is not PRINT


def _writable(operands: tuple[Operand, ...]) -> list[Value]:
    return [v for v in values_in(operands) if can_be_written(v.type)]
