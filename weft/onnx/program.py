"""A graph of weft.jit as nodes of ONNX: the graph is interpreted on values of the model.

What is known while the model is written (numbers, lists, attributes, branches that hang on them) is Python's and leaves
nothing behind; what hangs on the model's inputs becomes nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import weft
from weft.catalogue.language.entries import NATIVE, OF_ELEMENTS
from weft.ir.graph import Block, Node, Operand, Value, values_in
from weft.ir.kinds import has_many_results
from weft.ir.structure import HOOK, TRANSFORM, WITH_BACKWARD
from weft.jit.interpreter.code import found_at
from weft.jit.interpreter.later.forms import from_text, put_together, taken_apart
from weft.jit.interpreter.later.steps import CHECKPOINT, is_argument
from weft.jit.program import Program
from weft.onnx import lists
from weft.onnx.arithmetic import RULES
from weft.onnx.blocks import UNSET, Raised
from weft.onnx.branches import write_if
from weft.onnx.lists import Listed
from weft.onnx.loops import write_loop
from weft.onnx.numbers import IN_MODELS, ModelNumbers
from weft.onnx.outputs import Number, Output, outputs_in
from weft.onnx.registry import EXPORTS
from weft.onnx.writer import Writer
from weft.ops.op import OPS, Op
from weft.ops.route import default_route
from weft.support.errors import Unsupported, WeftError
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt, wrap


class Exporter:
    """One program that is being written."""

    def __init__(self, writer: Writer, program: Program) -> None:
        self.writer, self.program = writer, program
        self.values: dict[Value, Any] = {}
        self.where: Any = None
        self.lists: dict[int, tuple[list[Any], Listed]] = {}  # by id: lists that have become sequences of the model
        self.labels: dict[int, str] = {}  # the paths of objects that attributes are read of
        assert program.graph is not None
        self.read_values = {v for node in program.graph.nodes for v in node.reads()}
        self.read_values.update(values_in(program.graph.results))

    def run(self, args: Sequence[Any]) -> Any:
        """The result for these parameters."""
        assert self.program.graph is not None
        results = [self._leaving(r) for r in self.block(self.program.graph.block, args)]
        return results[0] if len(results) == 1 else tuple(results) or None

    def _leaving(self, value: Any) -> Any:
        """A result, with sequences in place of the lists that have become such."""
        if isinstance(value, dict):
            return {k: self._leaving(v) for k, v in value.items()}
        if isinstance(value, (tuple, list)):
            sequence = self.listed(value)
            return tuple(self._leaving(v) for v in value) if sequence is None else sequence
        return value

    def listed(self, value: Any) -> Listed | None:
        """The sequence that a list of the program has become."""
        entry = self.lists.get(id(value))
        return None if entry is None else entry[1]

    def block(self, block: Block, args: Sequence[Any]) -> list[Any]:
        """The results of a block."""
        self.values.update(zip(block.params, args, strict=True))
        for node in block.nodes:
            self.node(node)
        return [self.read(r) for r in block.results]

    def read(self, operand: Operand) -> Any:
        """What an operand stands for."""
        if isinstance(operand, Value):
            return self.values[operand]
        if isinstance(operand, tuple):
            return tuple(self.read(o) for o in operand)
        return operand

    def node(self, node: Node) -> None:
        """Write one node. Raises Unsupported that names the operator and the user's line."""
        outer, self.where = self.where, node.where
        try:
            results = self._results(node)
        except Raised:
            raise
        except WeftError as problem:
            text = str(problem)
            if "cannot be exported to ONNX" in text:
                raise
            raise Unsupported(f"{self._line(node)}{node.op.name} cannot be exported to ONNX: {text}") from None
        except (TypeError, AttributeError, ValueError, LookupError, ArithmeticError) as problem:
            raise Unsupported(
                f"{self._line(node)}{node.op.name} cannot be exported to ONNX: {type(problem).__name__}: {problem}"
            ) from problem
        finally:
            self.where = outer
        self.values.update(zip(node.outputs, results, strict=True))

    def _line(self, node: Node) -> str:
        where = node.where or self.where
        return f"{where.file}:{where.line}: " if where is not None else ""

    def _results(self, node: Node) -> Sequence[Any]:
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node)
        args = tuple(self.read(a) for a in node.args)
        op = node.op
        if args and type(args[0]) is lists.Parts and op.host:
            if op.schema.base == "len":
                return [args[0].number]
            if node.outputs and self.read_values.isdisjoint(node.outputs):
                raise Unsupported(
                    "how many tensors there are hangs on a dynamic size, and the model reads none of them"
                )
        if args and self._is_of_sequence(op, args):
            return lists.write(self, op.schema.base, args)
        if op.host and op.name in EXPORTS and isinstance(args[0], Output):
            return [EXPORTS[op.name](self.writer, *args)]
        if op.writes is not None:
            return [self._written(op, args)] if node.outputs else []
        result = self.entered(self._host(op, args)) if op.host else self.writer.call(op, args)
        if len(node.outputs) == 1 and not (op.host and has_many_results(op)):
            return [list(result) if isinstance(result, tuple) and op.schema.returns_list else result]
        return list(result) if result is not None else []

    def _is_of_sequence(self, op: Op, args: tuple[Any, ...]) -> bool:
        """Whether it is about a list whose length, or place, the model finds."""
        if any(self.listed(a) is not None for a in args):
            return True
        return op.host and isinstance(args[0], list) and any(isinstance(a, Number) for a in args[1:2]) and (
            op.schema.base in lists.BY_PLACE)

    def entered(self, value: Any) -> Any:
        """What Python gives, with tensors as constants of the model."""
        if isinstance(value, Tensor):
            return self.writer.constant(value.detach().numpy(), value.dtype)
        if type(value) is SymInt:
            return self.writer.of_size(value.expr)
        return tuple(self.entered(v) for v in value) if type(value) is tuple else value

    def to_python(self, value: Any) -> Any:
        """Arguments for Python code: numbers that are sizes are symbols, of which it may ask."""
        if isinstance(value, Number):
            size = self.writer.sizes.of_number(value)
            return value if size is None else wrap(size, self.writer.sizes.env)
        if type(value) in (tuple, list):
            return type(value)(self.to_python(v) for v in value)
        return value

    # ---- writes
    def _written(self, op: Op, args: tuple[Any, ...]) -> Any:
        assert op.writes is not None
        target = args[0]
        if not isinstance(target, Output):
            raise Unsupported("a number is written in place")
        updated = self.writer.call(op.writes, args)
        self.rebind(target, self.writer.cast(updated, target.dtype))
        return target

    def rebind(self, target: Output, value: Output) -> None:
        """From here on the target has another value, and so have what it is a view of and other views. Raises
        Unsupported for the model's own tensors."""
        if target.weight:
            raise Unsupported(
                f"the model writes its own {target.weight!r}, and ONNX has no state; call model.eval() first"
            )
        if target.source is not None:  # what it is a view of is written
            whole, places = self.writer.places(target)
            self.rebind(whole, self.writer.scattered(whole, places, value))
        for other in list(self.writer.live):
            if _views(other, target):
                other.stale = True
        if target.source is None:
            self.lose(target)
        target.take(value)

    def lose(self, written: Output) -> None:
        """From here on nobody knows the values that may be one that is written, and may be others."""
        twins = written.all_twins()
        for other in list(self.writer.live):
            if other.source is None and other is not written and not twins.isdisjoint(other.all_twins()):
                other.lost = True

    # ---- Python's values
    def _host(self, op: Op, args: tuple[Any, ...]) -> Any:
        base = op.schema.base
        numbers = [a for a in args if isinstance(a, Number)]
        if numbers and base in RULES:
            return self.writer.arithmetic(base, *args[:2])
        if args and isinstance(args[0], Output) and base in _CASTS:
            return self._number(args[0], _CASTS[base])
        if numbers and base in _OF_NUMBERS:
            return _OF_NUMBERS[base](self.writer, *args)
        if base in _OF_LISTS and any(isinstance(v, Number) for v in args[0]):
            return _OF_LISTS[base](self.writer, args[0])
        computed = self._of_numbers(op, args)
        assert op.kernel is not None
        return op.kernel(*args) if computed is None else computed

    def _of_numbers(self, op: Op, args: tuple[Any, ...]) -> Any:
        """What the language says of an operation on numbers of which the model finds some; None where it has none, or
        says nothing.
        """
        is_of_elements = any(isinstance(a, (list, tuple)) for a in args)
        body = OF_ELEMENTS.get(op) if is_of_elements else IN_MODELS.get(op.name) or NATIVE.get(op)
        operands = list(outputs_in(args))
        if body is None or not operands or not all(isinstance(v, Number) for v in operands):
            return None
        return body(ModelNumbers(self.writer), *args)

    def _number(self, x: Output, dtype: Any) -> Any:
        if x.known is not None:
            return {weft.bool: bool, weft.int64: int, weft.float64: float}[dtype](x.known)
        flat = x if x.ndim == 0 else self.writer.op("Reshape", x, self.writer.ints([]))
        return self.writer.as_number(self.writer.cast(flat, dtype))


def _views(view: Output, whole: Output) -> bool:
    """Whether one value is a view of another, or a view of a view of it."""
    while view.source is not None:
        view = view.source
        if view is whole:
            return True
    return False


_CASTS = {"bool": weft.bool, "int": weft.int64, "float": weft.float64}
_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "not_": lambda g, a: g.as_number(g.op("Not", g.cast(a, weft.bool))),
    "neg": lambda g, a: ModelNumbers(g).neg(a), "pos": lambda g, a: a,
    "abs": lambda g, a: abs(a),
    "range_length": lambda g, first, last, step: g.arithmetic(
        "max", 0, g.arithmetic("sub", 0, g.arithmetic("floordiv", first - last, step))),
}  # fmt: skip
_OF_LISTS: dict[str, Callable[..., Any]] = {
    "max_of": lambda g, values: reduce(partial(g.arithmetic, "max"), values),
    "min_of": lambda g, values: reduce(partial(g.arithmetic, "min"), values),
}


_OF_GRADIENTS = frozenset(
    ("weft.autograd.grad", "weft.autograd.backward", "weft.Tensor.backward", "weft.Tensor.requires_grad_")
)


# ---- nodes with a meaning of their own
def _attribute(exporter: Exporter, node: Node) -> Sequence[Any]:
    source, name, _ = node.args
    if source is None:
        value, label = exporter.program.captured[name], name
    else:
        owner = exporter.read(source)
        value = getattr(owner, name)
        prefix = exporter.labels.get(id(owner), "")
        label = f"{prefix}.{name}" if prefix else name
    if isinstance(value, Tensor):
        return [exporter.writer.weight(value, label)]
    if isinstance(value, weft.nn.Module):
        exporter.labels.setdefault(id(value), label)
    return [value]


def _set_attribute(exporter: Exporter, node: Node) -> Sequence[Any]:
    raise Unsupported(f"the model writes its attribute {node.args[1]!r}, and ONNX has no state")


def _call_builtin(exporter: Exporter, node: Node) -> Sequence[Any]:
    path, args, names = node.args[0], exporter.to_python(exporter.read(node.args[1])), node.args[2]
    split = len(args) - len(names)
    holder, _, name = path.rpartition(".")
    if path in _OF_GRADIENTS:
        raise Unsupported(f"the model calls {path}, and ONNX has no gradients; write out what it computes")
    function = found_at(path)
    if args and isinstance(args[0], Output) and found_at(holder) is Tensor:
        function = getattr(Output, name, function)
    with default_route(exporter.writer.call):
        result = function(*args[:split], **dict(zip(names, args[split:], strict=True)))
    return [exporter.entered(result)][: len(node.outputs)]


def _call_method(exporter: Exporter, node: Node) -> Sequence[Any]:
    owner, args = exporter.read(node.args[0]), exporter.to_python(exporter.read(node.args[2]))
    original = owner.__dict__.get("_original") or owner
    with default_route(exporter.writer.call):
        result = getattr(original, node.args[1])(*args)
    return [exporter.entered(result)][: len(node.outputs)]


def _call_python(exporter: Exporter, node: Node) -> Sequence[Any]:
    raise Unsupported(f"it calls {node.args[0]}, which is Python's")


def _raise(exporter: Exporter, node: Node) -> Sequence[Any]:
    raise Raised(str(exporter.read(node.args[0])))


def _grad_mode(exporter: Exporter, node: Node) -> Sequence[Any]:
    return [True]


def _unset(exporter: Exporter, node: Node) -> Sequence[Any]:
    return [UNSET]


def _nothing(exporter: Exporter, node: Node) -> Sequence[Any]:
    return []


def _get_item(exporter: Exporter, node: Node) -> Sequence[Any]:
    x, index = (exporter.read(a) for a in node.args)
    return [exporter.writer.item(x, index)]


def _set_item(exporter: Exporter, node: Node) -> Sequence[Any]:
    """`x[i] = v`: the places of the elements are those of a tensor that counts them."""
    target, index, value = (exporter.read(a) for a in node.args)
    g = exporter.writer
    count = g.op("Range", g.numbers(0, weft.int64), g.op("Size", target), g.numbers(1, weft.int64))
    places = g.item(g.op("Reshape", count, g.op("Shape", target)), index)
    exporter.rebind(target, g.scattered(target, places, value))
    return []


def _if(exporter: Exporter, node: Node) -> Sequence[Any]:
    condition = exporter.read(node.args[0])
    if isinstance(condition, Output) and condition.known is not None:
        condition = bool(condition.known)
    if not isinstance(condition, Output):
        return exporter.block(node.blocks[0 if condition else 1], [])
    return write_if(exporter, node, condition)


def _loop(exporter: Exporter, node: Node) -> Sequence[Any]:
    trip, condition, carried = (exporter.read(a) for a in node.args[:3])
    return write_loop(exporter, node, trip, condition, list(carried))


def _transform(exporter: Exporter, node: Node) -> Sequence[Any]:
    """A checkpoint is what it calls. ONNX has no gradients."""
    name, form = node.args[0], from_text(node.args[1])
    if name != CHECKPOINT:
        raise Unsupported(f"the model calls {name}, and ONNX has no functions of functions; write out what it computes")
    arguments = put_together(form["given"], exporter.read(node.args[2]))
    _, values = taken_apart(arguments, lambda v: isinstance(v, Output) or is_argument(v))
    return exporter.block(node.blocks[0], values)


def _with_backward(exporter: Exporter, node: Node) -> Sequence[Any]:
    return list(exporter.read(node.args[2]))


_SPECIAL: dict[Op, Callable[[Exporter, Node], Sequence[Any]]] = {
    OPS["prim::If"]: _if,
    OPS["prim::Loop"]: _loop,
    TRANSFORM: _transform,
    WITH_BACKWARD: _with_backward,
    HOOK: _nothing,
    OPS["prim::CallBuiltin"]: _call_builtin,
    OPS["prim::CallMethod"]: _call_method,
    OPS["prim::PythonOp"]: _call_python,
    OPS["prim::RaiseException"]: _raise,
    OPS["prim::set_grad_enabled"]: _grad_mode,
    OPS["prim::GetAttr"]: _attribute,
    OPS["prim::SetAttr"]: _set_attribute,
    OPS["prim::Print"]: _nothing,
    OPS["prim::Uninitialized"]: _unset,
    OPS["prim::tensor_getitem"]: _get_item,
    OPS["prim::tensor_setitem"]: _set_item,
}
__all__ = ["Exporter", "outputs_in"]
