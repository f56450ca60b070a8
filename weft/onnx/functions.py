"""Operators that are functions of others: those that a model brings along, and those that ONNX itself defines so."""

from __future__ import annotations

from typing import Any

from weft.onnx.dependency import defs, helper, onnx
from weft.onnx.dtypes import element_of
from weft.onnx.values import Known, dtype_of_value


def type_key(value: Any, sized: bool = False) -> Any:
    """What a function's body may hang on: the dtype of an input, its number of dims, and with `sized` its sizes."""
    if value is None or isinstance(value, list):
        return value if value is None else (dtype_of_value(value),)
    dims = _dims(value)
    return (dtype_of_value(value), dims if sized else len(dims))


def _dims(value: Any) -> tuple[int | None, ...]:
    """Sizes; None for those that are symbols."""
    shape = value.array.shape if isinstance(value, Known) else value.shape
    return tuple(n if type(n) is int else None for n in shape)


def body_of(node: Any, function: Any, given: list[Any], opset: int, sized: bool = False) -> Any:
    """The body of a function for one call: attributes are filled in. None where ONNX has none for such inputs: some
    bodies hang on the inputs' sizes, which are told with `sized`."""
    if function is not None:
        return _filled(function, node)
    schema = defs.get_schema(node.op_type, opset, node.domain)
    if schema.has_function:
        made = onnx.FunctionProto()
        made.CopyFrom(_best_version(schema, opset))
        return _filled(made, node, schema)
    versions = sorted(v for v in schema.context_dependent_function_opset_versions if v <= opset)
    types = [_type_proto(v, sized).SerializeToString() for v in given]
    made = onnx.FunctionProto()
    text = schema.get_context_dependent_function_with_opset_version(
        versions[-1] if versions else opset, node.SerializeToString(), types
    )
    made.ParseFromString(text)
    return _filled(made, node, schema) if made.node else None


def _best_version(schema: Any, opset: int) -> Any:
    versions = sorted(v for v in schema.function_opset_versions if v <= opset)
    if not versions:
        return schema.function_body
    made = onnx.FunctionProto()
    made.ParseFromString(schema.get_function_with_opset_version(versions[-1]))
    return made


def _type_proto(value: Any, sized: bool) -> Any:
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_proto(value[0], sized)) if value else onnx.TypeProto()
    dims = [n if sized else None for n in _dims(value)]
    return helper.make_tensor_type_proto(element_of(value.dtype), dims)


def _filled(function: Any, node: Any, schema: Any = None) -> Any:
    """The function with its references to attributes replaced by the call's, or by their defaults."""
    given = {a.name: a for a in function.attribute_proto}
    if schema is not None:
        given.update({n: a.default_value for n, a in schema.attributes.items() if a.default_value.name})
    given.update({a.name: a for a in node.attribute})
    made = onnx.FunctionProto()
    made.CopyFrom(function)
    for inner in made.node:
        _fill(inner, given)
    return made


def _fill(node: Any, given: dict[str, Any]) -> None:
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            found = given.get(attribute.ref_attr_name)
            if found is None:
                continue
            copied = onnx.AttributeProto()
            copied.CopyFrom(found)
            copied.name = attribute.name
            kept.append(copied)
            continue
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                _fill(inner, given)
        kept.append(attribute)
    copies = []
    for a in kept:
        copy = onnx.AttributeProto()
        copy.CopyFrom(a)
        copies.append(copy)
    del node.attribute[:]
    node.attribute.extend(copies)
