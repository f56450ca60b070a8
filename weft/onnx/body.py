"""The nodes of a graph, subgraph or function as steps, and running them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from weft.onnx.dependency import defs, helper, numpy_helper, onnx
from weft.onnx.dtypes import dtype_of
from weft.onnx.functions import body_of, type_key
from weft.onnx.registry import IMPORTS, Operator
from weft.onnx.values import Known, array_of, as_tensor, constant
from weft.support.errors import ArgumentError, ParseError, Unsupported, WeftError
from weft.types import dtype as dt
from weft.types.dtype import DType

Values = MutableMapping[str, Any]


@dataclass
class Opsets:
    """The versions of the operator sets that a model asks for, and the model's own functions."""

    versions: Mapping[str, int]
    model: Any

    def version(self, domain: str) -> int:
        """The version of a domain's operators."""
        return self.versions.get(domain, 1)

    def function(self, domain: str, name: str) -> Any:
        """A function that the model brings along, or None."""
        matching = (f for f in self.model.functions if f.name == name and _domain(f) == domain)
        return next(matching, None)


class Body:
    """A sequence of steps with inputs, constants and results."""

    def __init__(self, graph: Any, opsets: Opsets, outer: frozenset[str] = frozenset()) -> None:
        self.inputs = [getattr(i, "name", i) for i in graph.input]
        self.outputs = [getattr(o, "name", o) for o in graph.output]
        self.constants = {
            t.name: constant(numpy_helper.to_array(t))
            for t in getattr(graph, "initializer", ()) if t.name not in outer
        }  # fmt: skip
        self.steps = [Step(node, opsets) for node in graph.node]
        self.free = self._free()
        self._outputs = list(graph.output)

    def _free(self) -> tuple[str, ...]:
        """The names that come from around the body."""
        bound = {*self.inputs, *self.constants}
        free: dict[str, None] = {}
        for step in self.steps:
            asked = [*step.inputs, *(name for body in step.bodies() for name in body.free)]
            free.update(dict.fromkeys(name for name in asked if name and name not in bound))
            bound.update(step.outputs)
        free.update(dict.fromkeys(name for name in self.outputs if name not in bound))
        return tuple(free)

    def declared(self, output: int) -> tuple[list[int], DType]:
        """The sizes (0 where none is said) and dtype that an output is declared to have."""
        info = self._outputs[output].type.tensor_type
        return [d.dim_value for d in info.shape.dim], dtype_of(info.elem_type)

    def refuse_unknown(self) -> None:
        """Raises Unsupported that names every operator which weft cannot express."""
        missing = sorted({name for step in self.walk() for name in step.missing})
        if missing:
            raise Unsupported(f"onnx: weft cannot express {', '.join(missing)}")

    def walk(self) -> Iterator[Step]:
        """Every step, those of subgraphs behind their owner."""
        for step in self.steps:
            yield step
            for inner in step.bodies():
                yield from inner.walk()

    def run(self, values: Values, partial: bool = False) -> list[Any]:
        """The results. `values` has the inputs and whatever is around, and gains what is computed. partial: a result
        that no step gives is None: a function leaves out what its call does not ask for."""
        values.update(self.constants)
        for step in self.steps:
            step.run(values)
        return [values.get(name) if partial else _value(values, name) for name in self.outputs]


class Step:
    """One node: its rule, its attributes, and the names of its inputs and results."""

    def __init__(self, node: Any, opsets: Opsets) -> None:
        self.node, self.opsets = node, opsets
        self.domain, self.name = _domain(node), node.op_type
        self.inputs, self.outputs = list(node.input), list(node.output)
        self.attributes = {a.name: _attribute(a, opsets) for a in node.attribute}
        self.rule: Operator | None = IMPORTS.get((self.domain, self.name))
        self.function = opsets.function(self.domain, self.name)
        self.missing = self._missing()
        self._bodies: dict[Any, Body | None] = {}
        if self.rule is not None and self.function is None:
            self._check(self.rule)

    def _missing(self) -> list[str]:
        if self.rule is not None or self.function is not None:
            return []
        label = f"{self.domain}::{self.name}" if self.domain else self.name
        if not defs.has(self.name, self.opsets.version(self.domain), self.domain):
            return [label]
        schema = defs.get_schema(self.name, self.opsets.version(self.domain), self.domain)
        return [] if schema.has_function or schema.has_context_dependent_function else [label]

    def _check(self, rule: Operator) -> None:
        unknown = set(self.attributes) - set(rule.attributes)
        if unknown:
            raise Unsupported(f"onnx: {self.name}: weft does not know the attribute {', '.join(sorted(unknown))}")
        if rule.most is not None and len(self.inputs) > rule.most:
            raise ParseError(f"onnx: {self.name} takes at most {rule.most} inputs, {len(self.inputs)} are given")

    def bodies(self) -> list[Body]:
        """The subgraphs among the attributes."""
        return [a for a in self.attributes.values() if isinstance(a, Body)]

    def run(self, values: Values) -> None:
        """Compute the results into `values`. An error says which node it comes from."""
        inputs = [_value(values, name) if name else None for name in self.inputs]
        try:
            returned = self._call(inputs, values)
        except WeftError as problem:
            if not problem.args or "onnx node" in str(problem):
                raise
            label = self.node.name or (self.outputs[0] if self.outputs else "")
            problem.args = (f"{problem.args[0]}  (onnx node {self.name} {label!r})", *problem.args[1:])
            raise
        results = returned if isinstance(returned, tuple) else (returned,)
        for name, value in zip(self.outputs, results, strict=False):
            if name:
                values[name] = value

    def _call(self, inputs: list[Any], values: Values) -> Any:
        rule = self.rule
        if rule is None or self.function is not None:
            return tuple(self._expanded(inputs).run(dict(values)))
        keywords = {rule.attributes[name]: value for name, value in self.attributes.items()}
        if rule.given:
            extra = {"opset": self.opsets.version(self.domain), "outputs": len(self.outputs), "scope": values}
            keywords.update({k: v for k, v in extra.items() if k in rule.given})
        if rule.on_host is not None and inputs and all(v is None or (isinstance(v, Known) and v.folds) for v in inputs):
            return _on_host(rule, inputs, keywords)
        return rule.run(*[v if rule.takes_as_is(i) else as_tensor(v) for i, v in enumerate(inputs)], **keywords)

    def _expanded(self, inputs: list[Any]) -> Any:
        for sized in (False, True):
            key = tuple(type_key(v, sized) for v in inputs)
            if key not in self._bodies:
                self._bodies[key] = self._function_body(inputs, sized)
            body = self._bodies[key]
            if body is not None:
                return _Call(body, inputs)
        raise Unsupported(f"onnx: {self.name}: the operator is a function, and ONNX has no body of it for these inputs")

    def _function_body(self, inputs: list[Any], sized: bool) -> Body | None:
        proto = body_of(self.node, self.function, inputs, self.opsets.version(self.domain), sized)
        if proto is None:
            return None
        versions = {_plain(o.domain): o.version for o in proto.opset_import}
        body = Body(proto, Opsets({**self.opsets.versions, **versions}, self.opsets.model))
        body.refuse_unknown()
        return body


@dataclass
class _Call:
    """A function's body with its arguments: it sees nothing of what is around the call."""

    body: Body
    arguments: list[Any]

    def run(self, around: Values) -> list[Any]:
        del around
        names = self.body.inputs
        inputs = [*self.arguments, *[None] * (len(names) - len(self.arguments))]
        return self.body.run(dict(zip(names, inputs, strict=False)), partial=True)


def _on_host(rule: Operator, inputs: list[Any], keywords: dict[str, Any]) -> Any:
    assert rule.on_host is not None
    arrays = [None if v is None else v.array for v in inputs]
    result = rule.on_host(*arrays, **keywords)
    if isinstance(result, Known):
        return result
    array = array_of(result)
    sizes = next((v.dtype for v in inputs if v is not None and v.array.dtype == object), dt.int64)
    return Known(array, sizes if array.dtype == object else dt.from_numpy(array.dtype))


def _value(values: Values, name: str) -> Any:
    try:
        return values[name]
    except KeyError:
        raise ParseError(f"onnx: the graph uses {name!r}, which nothing before it gives") from None


def _domain(node: Any) -> str:
    return _plain(node.domain)


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else str(domain)


def _attribute(attribute: Any, opsets: Opsets) -> Any:
    """An attribute's value as rules take it: texts, numbers, lists, numbers that are known for tensors, bodies."""
    kinds = onnx.AttributeProto
    if attribute.type == kinds.GRAPH:
        return Body(attribute.g, opsets)
    if attribute.type == kinds.TENSOR:
        return attribute.t
    if attribute.type == kinds.TYPE_PROTO:
        return attribute.tp
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == kinds.STRINGS:
        return [s.decode("utf-8", "replace") for s in value]
    if attribute.type in (kinds.FLOATS, kinds.INTS):
        return list(value)
    if attribute.type in (kinds.FLOAT, kinds.INT):
        return value
    raise Unsupported(f"onnx: weft does not know attributes of the kind of {attribute.name!r}")


__all__ = ["ArgumentError", "Body", "Opsets", "Step"]
