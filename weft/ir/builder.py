"""The builder: the one emission point of the graph language. Folding and common subexpressions happen
here and nowhere else."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ops.methods import OperatorMethods
from weft.ops.op import Op
from weft.ops.route import default_route
from weft.support.errors import CaptureError, TooLarge
from weft.support.locations import Location, user_location
from weft.types import shape_env
from weft.types.dims import Dim, Expr
from weft.types.dtype import DType, get_default
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import FLOAT, TensorType, Type

# An equal earlier call stands for a later one: pure operators, and checks, which would have raised the first time.
REPEATABLE = frozenset(("pure", "raises"))


class Handle(OperatorMethods):
    """A graph value that operators accept: rules written with operators emit nodes when called with it."""

    __slots__ = ("builder", "value")
    __weft_number__ = True

    def __init__(self, value: Value, builder: Builder) -> None:
        self.value, self.builder = value, builder

    @property
    def is_number(self) -> bool:
        """Whether it stands for a number of Python's, not for a tensor."""
        return not isinstance(self.value.type, TensorType)

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.value.tensor_type.shape

    @property
    def ndim(self) -> int:
        return self.value.tensor_type.ndim

    @property
    def dtype(self) -> DType:
        dtype = self.value.tensor_type.dtype
        assert dtype is not None
        return dtype

    @property
    def device(self) -> str:
        return self.value.tensor_type.device

    @property
    def type_(self) -> TensorType:
        return self.value.tensor_type

    def is_contiguous(self) -> bool:
        """Whether the value lies row-major: what a view gave may lie as its source does."""
        return self.value.node is None or self.value.node.op.view is None

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        return _builder_of(args).call(op, args)

    def __repr__(self) -> str:
        return f"<handle {self.value!r}>"

    def _unknown(self) -> NoReturn:
        raise _only_known_at_run_time(self.value.type)

    # A rule that branches on a value would be recorded with one branch, whichever it is.
    __bool__ = __float__ = __int__ = __index__ = __complex__ = _unknown


def _only_known_at_run_time(type: Type) -> CaptureError:
    what = "tensor" if isinstance(type, TensorType) else "number"
    return CaptureError(
        f"a rule asks for the value of a {what} of type {type}, which is only known when the program runs; compute "
        "with it (where), or name the argument in `specialize` of the operator's entry"
    )


def _builder_of(args: Sequence[Any]) -> Builder:
    """That of the innermost block among the operands': what a rule makes of constants may stand outside of it."""
    innermost: Builder | None = None
    for a in args:
        for b in a if type(a) is tuple else (a,):
            if type(b) is Handle and b.builder is not innermost and (
                innermost is None or b.builder.depth > innermost.depth
            ):
                innermost = b.builder
    assert innermost is not None, "no handle among the arguments"
    return innermost


class Builder:
    """Appends nodes to a block. `emit` is the only way a node comes into being (`emit_raw`: for the parser, tests)."""

    def __init__(self, name: str = "graph", env: ShapeEnv | None = None, parent: Builder | None = None) -> None:
        self.name = name
        self.env: ShapeEnv = env if env is not None else (parent.env if parent is not None else ShapeEnv())
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.params: list[Value] = []
        self.nodes: list[Node] = []
        self._memo: dict[Any, Node] = {}
        self.replaced: dict[Value, Operand] = {}  # in a rebuild: what stands for values of the graph before
        # Unbacked sizes, by what alone decides them (Op.unbacked_from); a block knows those of the blocks around it.
        self._unbacked: ChainMap[Any, Expr] = ChainMap() if parent is None else parent._unbacked.new_child()
        self.where: Location | None = None
        self.track_locations = False

    # ---- parameters and results
    def param(self, type: Type, name: str = "") -> Value:
        """A new parameter of the block."""
        value = Value(type, name)
        self.params.append(value)
        return value

    def block(self, results: Sequence[Operand]) -> Block:
        """The finished block."""
        if self.env.demands:
            self._settle_demands()
        return Block(tuple(self.params), tuple(self.nodes), tuple(results))

    def graph(self, results: Sequence[Operand], writes: Sequence[tuple[int, int]] = ()) -> Graph:
        """The finished graph."""
        return Graph(self.name, self.block(results), self.env, tuple(writes))

    # ---- emission
    def emit(
        self, op: Op, args: tuple[Operand, ...], blocks: tuple[Block, ...] = (), variant: object = None
    ) -> Node:
        """Append a node (or find an equal earlier one when the operator is pure). Types come from the entry's rule.
        variant: what else has to be equal."""
        key: Any = None
        operands, seen = keys_of(args)
        if op.effect in REPEATABLE and not blocks:
            key = (op, operands) if variant is None else (op, operands, variant)
            earlier = self._find(key)
            if earlier is not None and self._finds(earlier, self.env.reused):
                return earlier
        types = self._types(op, args, seen)
        where = self.where or (user_location(2) if self.track_locations else None)
        if self.env.demands:
            self._settle_demands(where)
        node = Node(op, args, types, blocks, where)
        self._append(node)
        if key is not None:
            self._memo[key] = node
        return node

    def emit_raw(
        self, op: Op, args: tuple[Operand, ...], types: tuple[Type, ...], blocks: tuple[Block, ...] = (),
        where: Location | None = None,
    ) -> Node:
        """Append a node as it stands: no folding, no common subexpressions, types as given."""
        node = Node(op, args, types, blocks, where or self.where)
        self.nodes.append(node)
        return node

    def take_back(self, start: int) -> set[Node]:
        """Take the nodes from the number `start` on out of the block again; they are returned."""
        taken = set(self.nodes[start:])
        del self.nodes[start:]
        self._memo = {key: node for key, node in self._memo.items() if node not in taken}
        return taken

    def adopt(self, node: Node) -> Node:
        """Take a node of another graph over as it is (its arguments are values of this one too), or find its equal."""
        if node.op.effect in REPEATABLE:
            earlier = self.remember(node)
            if earlier is not None:
                return earlier
        self._append(node)
        return node

    def remember(self, node: Node, variant: object = None) -> Node | None:
        """The equal node of this block, or of one around it, that was remembered first; None if there is none, and
        then this one is. variant: as for emit."""
        key = (node.op, memo_key(node.args)) if variant is None else (node.op, memo_key(node.args), variant)
        earlier = self._find(key)
        if earlier is not None and self._stands_for(earlier, node):
            return earlier
        self._memo[key] = node
        return None

    def emit_like(self, node: Node, args: tuple[Operand, ...], variant: object = None) -> Node:
        """Re-emit a node without blocks, with new arguments; its type rule runs again only when an argument's type
        changed. variant: as for emit."""
        key: Any = None
        if node.op.effect in REPEATABLE:
            key = (node.op, memo_key(args)) if variant is None else (node.op, memo_key(args), variant)
            earlier = self._find(key)
            if earlier is not None and self._stands_for(earlier, node):
                return earlier
        if same_types(node.args, args):
            types = tuple(v.type for v in node.outputs)
        elif self.env.has_unbacked:
            with self.keeping_sizes(node):
                types = self.infer(node.op, args)
        else:
            types = self.infer(node.op, args)
        if len(types) != len(node.outputs):  # an opaque call, whose rule does not say how many it gives
            types = tuple([v.type for v in node.outputs])
        if self.env.demands:
            self._settle_demands(node.where)
        fresh = Node(node.op, args, types, (), node.where)
        for old, new in zip(node.outputs, fresh.outputs, strict=True):
            new.name = old.name
        self._append(fresh)
        if key is not None:
            self._memo[key] = fresh
        return fresh

    def _settle_demands(self, where: Location | None = None) -> None:
        """Check in the program what rules demanded of unbacked sizes."""
        from weft.ir.structure import REFUSE  # structure defines entries whose rules need this module

        demands, self.env.demands = self.env.demands, []
        previous, self.where = self.where, where or self.where
        try:
            for demand in demands:
                self.emit(REFUSE, (demand.relation.expr, demand.relation.op, demand.error, demand.text))
        finally:
            self.where = previous

    @contextmanager
    def keeping_sizes(self, node: Node) -> Iterator[None]:
        """Within the block, what stands for `node` takes over the names of its unbacked sizes: others go by them."""
        self.env.reused = _unbacked_by(node)
        try:
            yield
        finally:
            self.env.reused = []

    def _find(self, key: Any) -> Node | None:
        builder: Builder | None = self
        while builder is not None:
            node = builder._memo.get(key)
            if node is not None:
                return node
            builder = builder.parent
        return None

    def _stands_for(self, earlier: Node, node: Node) -> bool:
        """Whether an equal earlier node may take the place of one that others go by the sizes of."""
        if len(earlier.outputs) != len(node.outputs):
            return False
        return not self.env.has_unbacked or self._finds(earlier, _unbacked_by(node))

    def _finds(self, node: Node, sizes: Sequence[Expr]) -> bool:
        """Whether a node finds unbacked sizes under these names, as far as it finds any."""
        if not sizes:
            return True
        own = _unbacked_by(node)
        return own == list(sizes[: len(own)])

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        if node.op.unbacked_from is not None:
            with shape_env.using(self.env):
                names = node.op.unbacked_from(*node.args)
            sizes = _unbacked_by(node)
            if len(names) == len(sizes):
                self._unbacked.update(zip(names, sizes, strict=True))

    def infer(self, op: Op, args: tuple[Operand, ...]) -> tuple[Type, ...]:
        """Result types by the entry's rule (or a view's geometry)."""
        return self._types(op, args, keys_of(args)[1])

    def _types(self, op: Op, args: tuple[Operand, ...], seen: tuple[Any, ...]) -> tuple[Type, ...]:
        """seen: what the rule sees, as a key. The answer is kept where it is the same until questions are taken back:
        not of operators that find sizes, nor of the user's, whose rules may be registered anew."""
        env, key = self.env, (op, get_default(), seen)
        types: tuple[Type, ...] | None = env.types.get(key)
        if types is None:
            answers = env.count_of_answers()
            types = self._asked_rule(op, args)
            is_kept = not op.host and op.enter is None and op.unbacked_from is None and env.keeps_types
            if is_kept and env.count_of_answers() == answers:
                env.types[key] = types
        return types

    def _asked_rule(self, op: Op, args: tuple[Operand, ...]) -> tuple[Type, ...]:
        with shape_env.using(self.env):
            if op.unbacked_from is not None:
                self.env.expected = [self._unbacked.get(name) for name in op.unbacked_from(*args)]
            try:
                result = result_type(op, tuple((seen_by_host_rule if op.host else type_of_operand)(a) for a in args))
            finally:
                self.env.expected = []
            types = result if isinstance(result, tuple) else (result,)
            for kind in types:
                if isinstance(kind, TensorType) and kind.is_complete:
                    shape_env.refuse_overflow(kind.shape, lambda kind=kind: TooLarge(  # type: ignore[misc]
                        f"{op.base}: a tensor of sizes [{', '.join(map(str, kind.shape))}] fits into no memory"))
        return types

    # ---- operators called on handles
    def handle(self, operand: Operand) -> Any:
        """Values as Handles, through tuples; immediates as they are."""
        kind = type(operand)
        if kind is Value:
            return Handle(operand, self)
        if kind is tuple:
            return tuple(self.handle(o) for o in operand)
        return operand

    def operand(self, handle: Any) -> Operand:
        """The inverse of handle; ndarrays become constants."""
        kind = type(handle)
        if kind is Handle:
            return handle.value
        if kind is tuple or kind is list:
            return tuple(self.operand(h) for h in handle)
        if kind is np.ndarray:
            return self.constant(handle)
        return handle

    def call(self, op: Op, args: tuple[Any, ...]) -> Any:
        """What a rule's operator call does: emit a node and hand back handles. An operator without a type rule of its
        own is opened at once."""
        if op.type is None and op.decompose is not None:
            return op.decompose(*args)
        node = self.emit(op, tuple(self.operand(a) for a in args))
        if op.schema.returns_list:
            return tuple(Handle(v, self) for v in node.outputs)
        if len(node.outputs) == 1:
            return Handle(node.outputs[0], self)
        return tuple(Handle(v, self) for v in node.outputs)

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """A tensor constant (prim::constant holds its values in nested tuples)."""
        from weft.ir.structure import CONSTANT  # structure defines entries whose rules need this module

        dtype = _dtype_of(array)
        flat = tuple(array.reshape(-1).tolist())
        return self.emit(CONSTANT, (flat, tuple(array.shape), dtype)).output

    @contextmanager
    def inner(self) -> Iterator[Builder]:
        """A builder for a nested block, which sees this one's values."""
        yield Builder(self.name, self.env, self)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Send factory calls of rules here, and questions about sizes to this graph's environment."""
        with default_route(self.call), shape_env.using(self.env):
            yield


def _dtype_of(array: np.ndarray[Any, Any]) -> DType:
    from weft.types import dtype as dt  # a short name for one use

    return dt.from_numpy(array.dtype)


def _unbacked_by(node: Node) -> list[Expr]:
    """The sizes that a node's results have and none of its arguments has: it finds them while it runs."""
    argument_sizes = {d for value in values_in(node.args) for d in _sizes(value)}
    return [
        d for value in node.outputs
        for d in _sizes(value) if d not in argument_sizes and str(d)[0] == "u" and list(d.symbols()) == [str(d)]
    ]


def _sizes(value: Value) -> Iterator[Expr]:
    if isinstance(value.type, TensorType) and value.type.dims is not None:
        yield from (d for d in value.type.dims if type(d) is Expr)


def result_type(op: Op, types: tuple[Any, ...]) -> Any:
    """Result type(s) of an operator from argument types (immediates stand for themselves)."""
    if op.type is not None:
        return op.type(*types)
    from weft.ir.structure import view_type  # the geometry of a view gives its type

    return view_type(op, types)


def type_of_operand(operand: Operand) -> Any:
    """What a type rule sees: a Value's type when it is a tensor, a symbolic number for a number,
    immediates as they are."""
    kind = type(operand)
    if kind is Value:
        return (
            NumberStandIn(operand.type) if operand.type is FLOAT or not hasattr(operand.type, "dtype") else operand.type
        )
    if kind is tuple:
        return tuple([type_of_operand(o) for o in operand])
    return operand


def seen_by_host_rule(operand: Operand) -> Any:
    """What the type rule of an operator on Python values sees: types of Values; immediates stand for themselves."""
    if isinstance(operand, Value):
        return operand.type
    return tuple(map(seen_by_host_rule, operand)) if isinstance(operand, tuple) else operand


class NumberStandIn:
    """A number that is a graph value, as a type rule sees it."""

    __slots__ = ("__weft_number_type__", "type")
    __weft_number__ = True

    def __init__(self, type: Type) -> None:
        self.type = type
        self.__weft_number_type__ = {"int": int, "bool": bool, "complex": complex}.get(str(type), float)

    def _unknown(self, other: object = None) -> NoReturn:
        raise _only_known_at_run_time(self.type)

    __bool__ = __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _unknown
    __hash__ = object.__hash__


def same_types(old: Operand, new: Operand) -> bool:
    """Whether re-emission may keep the result types: Values of equal types, equal immediates."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if type(old) is Value:
        return old.type is new.type
    if type(old) is tuple:
        return len(old) == len(new) and all(same_types(a, b) for a, b in zip(old, new, strict=True))
    return bool(old == new)


def keys_of(operands: tuple[Operand, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """memo_key() of operands, and the same of what type rules see of them: the types of Values."""
    keys, seen = [], []
    for operand in operands:
        kind = type(operand)
        if kind is Value:
            keys.append(operand)
            seen.append(operand.type)
        elif kind is tuple:
            inner_keys, inner_seen = keys_of(operand)
            keys.append(inner_keys)
            seen.append(inner_seen)
        else:
            key = memo_key(operand)
            keys.append(key)
            seen.append(key)
    return tuple(keys), tuple(seen)


def memo_key(operand: Operand) -> Any:
    """A hashable key that tells 1 from 1.0 and True, and 0.0 from -0.0."""
    kind = type(operand)
    if kind is Value or kind is str or kind is DType or kind is Expr or operand is None:
        return operand
    if kind is tuple:
        return tuple([memo_key(o) for o in operand])
    if kind is float:
        return (kind, operand.hex())
    return (kind, repr(operand) if kind is complex else operand)
