"""Sizes of the values of a model that is being written: numbers where every call has the example's, symbols elsewhere.

A symbol is the size of some value of the model, and Shape finds it. Python code that computes with sizes (modules,
operators that are opened into others) computes with symbols; questions are answered by the example, as in a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.onnx.dependency import defs, helper, shape_inference
from weft.onnx.dtypes import element_of
from weft.onnx.outputs import Output
from weft.support.errors import Unsupported
from weft.types import dims as dm
from weft.types.dims import Dim, Expr
from weft.types.relation import Relation
from weft.types.shape_env import ShapeEnv

Unknown = Sequence["Dim | None"]


class _Questions(ShapeEnv):
    """Answers by the example, save where a dynamic axis happens to be 0 or 1 in it; numbers it gives to nobody."""

    def _ask(self, relation: Relation) -> bool:
        names = relation.expr.symbols()
        if relation.op == "==" and len(names) == 1 and self.examples[next(iter(names))] < 2:
            return bool(self._prove(relation))
        return super()._ask(relation)

    def hint(self, d: Dim) -> int:
        if isinstance(d, int):
            return d
        raise Unsupported(f"Python asks for the number that {d} is, a size that differs from call to call")


class Sizes:
    """The symbols of one model, and where each is found."""

    def __init__(self, scopes: list[Any]) -> None:
        self.env: ShapeEnv = _Questions()
        self._scopes = scopes
        self._sources: dict[str, tuple[Output, int, Any]] = {}  # of a symbol: the value, the axis, the graph it is in
        self._by_text: dict[str, Dim] = {}  # what a name of ONNX's inference stands for
        self._numbers: dict[str, Dim] = {}  # which size a number is
        self._lists: dict[str, list[Dim | None]] = {}  # and the elements of a value that has sizes

    # ---- symbols
    def settle(self, value: Output, sizes: Unknown | None) -> None:
        """Give a new value its sizes. None: those of the example; None for one: a symbol of its own."""
        shape = value.example.shape
        dims: list[Dim] = []
        for axis, size in enumerate(shape if sizes is None else sizes):
            fits = size is not None and self._fits(size, int(shape[axis]))
            dims.append(size if fits and size is not None else self._fresh(value, axis))
        value.sizes = tuple(dims)

    def _fits(self, size: Dim, example: int) -> bool:
        return dm.evaluate(size, self.env.examples) == example and self.is_visible(size)

    def _fresh(self, value: Output, axis: int) -> Expr:
        symbol = self.env.fresh("s", int(value.example.shape[axis]))
        self._sources[str(symbol)] = (value, axis, self._scopes[-1])
        return symbol

    def is_visible(self, size: Dim) -> bool:
        """Whether a size can be found from the graph that is being written."""
        return all(any(self._sources[s][2] is scope for scope in self._scopes) for s in dm.symbols(size))

    def source(self, name: str) -> tuple[Output, int]:
        """A value that has a symbol as a size, and the axis."""
        value, axis, _ = self._sources[name]
        return value, axis

    def keep(self, value: Output) -> None:
        """Symbols of a value that is written in place are those of what it was."""
        for name, (source, axis, scope) in list(self._sources.items()):
            if source is value:
                self._sources[name] = (value.copied(), axis, scope)

    # ---- numbers that are sizes
    def of_number(self, value: Any) -> Dim | None:
        """The size that a number is, where it is one."""
        if isinstance(value, Output):
            return self._numbers.get(value.name)
        return value if type(value) is int else None

    def is_number(self, value: Output, size: Dim) -> None:
        """Remember which size a number is."""
        self._numbers[value.name] = size

    def is_list(self, value: Output, elements: Sequence[Any]) -> None:
        """Remember the elements of a value that has sizes."""
        self._lists[value.name] = [self.of_number(e) for e in elements]

    # ---- what a node gives
    def inferred(
        self, schema: Any, node: Any, inputs: Sequence[Any], constants: dict[str, Any], ranks: Sequence[int]
    ) -> list[Unknown]:
        """The sizes of a node's results, as far as ONNX tells them."""
        types, data = {}, {}
        for value in inputs:
            if value is not None:
                names = [self._text(d) for d in value.sizes]
                types[value.name] = helper.make_tensor_type_proto(element_of(value.dtype), names)
                if value.name in constants:
                    data[value.name] = constants[value.name]
        try:
            inferred = shape_inference.infer_node_outputs(schema, node, types, data)
        except Exception:  # of several kinds: ONNX's rule does not know these inputs
            inferred = {}
        results = [self._sizes(inferred.get(name), rank) for name, rank in zip(node.output, ranks, strict=True)]
        reshaped = _BY_ELEMENTS.get(node.op_type)
        if reshaped is not None and len(inputs) >= reshaped[0] + 1:
            position, rule = reshaped
            elements = self._lists.get(inputs[position].name)
            if elements is not None:
                results[0] = rule(inputs[0].sizes, elements)
        return results

    def _text(self, size: Dim) -> int | str:
        if isinstance(size, int):
            return size
        text = str(size)
        self._by_text[text] = size
        return text

    def _sizes(self, kind: Any, rank: int) -> Unknown:
        if kind is None or not kind.tensor_type.HasField("shape") or len(kind.tensor_type.shape.dim) != rank:
            return [None] * rank
        return [
            d.dim_value if d.HasField("dim_value") else self._by_text.get(d.dim_param) if d.dim_param else None
            for d in kind.tensor_type.shape.dim
        ]


def _reshaped(sizes: Sequence[Dim], elements: Sequence[Dim | None]) -> Unknown:
    """Of Reshape: one element may be -1."""
    if -1 not in elements:
        return [None if e == 0 else e for e in elements]
    others = [e for e in elements if e != -1]
    if any(e is None or e == 0 for e in others):
        return [None if e in (-1, 0) else e for e in elements]
    rest = dm.floordiv(dm.product(sizes), dm.product(e for e in others if e is not None))
    return [rest if e == -1 else e for e in elements]


def _expanded(sizes: Sequence[Dim], elements: Sequence[Dim | None]) -> Unknown:
    """Of Expand: a size of 1 takes the other's."""
    both = zip([1] * (len(elements) - len(sizes)) + list(sizes), elements, strict=True)
    return [e if mine == 1 else mine if e == 1 or e == mine else None for mine, e in both]


def _filled(sizes: Sequence[Dim], elements: Sequence[Dim | None]) -> Unknown:
    return elements


_BY_ELEMENTS: dict[str, tuple[int, Callable[..., Unknown]]] = {
    "Reshape": (1, _reshaped), "Expand": (1, _expanded), "ConstantOfShape": (0, _filled),
}  # fmt: skip


def schema_of(name: str, opset: int) -> Any:
    """What ONNX says of an operator."""
    return defs.get_schema(name, opset, "")
