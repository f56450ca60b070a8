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


def body_of(node: Any, function: Any, inputs: list[Any], opset: int, sized: bool = False) -> Any:
    """The body of a function for one call: attributes are filled in. None where ONNX has none for such inputs: some
    bodies hang on the inputs' sizes, which are told with `sized`."""
    if function is not None:
        return _filled(function, node)
    schema = defs.get_schema(node.op_type, opset, node.domain)
    if schema.has_function:
        proto = onnx.FunctionProto()
        proto.CopyFrom(_best_version(schema, opset))
        return _filled(proto, node, schema)
    versions = sorted(v for v in schema.context_dependent_function_opset_versions if v <= opset)
    types = [_type_proto(v, sized).SerializeToString() for v in inputs]
    proto = onnx.FunctionProto()
    text = schema.get_context_dependent_function_with_opset_version(
        versions[-1] if versions else opset, node.SerializeToString(), types
    )
    proto.ParseFromString(text)
    return _filled(proto, node, schema) if proto.node else None


def _best_version(schema: Any, opset: int) -> Any:
    versions = sorted(v for v in schema.function_opset_versions if v <= opset)
    if not versions:
        return schema.function_body
    proto = onnx.FunctionProto()
    proto.ParseFromString(schema.get_function_with_opset_version(versions[-1]))
    return proto


def _type_proto(value: Any, sized: bool) -> Any:
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_proto(value[0], sized)) if value else onnx.TypeProto()
    dims = [n if sized else None for n in _dims(value)]
    return helper.make_tensor_type_proto(element_of(value.dtype), dims)


def _filled(function: Any, node: Any, schema: Any = None) -> Any:
    """The function with its references to attributes replaced by the call's, or by their defaults."""
    attributes = {a.name: a for a in function.attribute_proto}
    if schema is not None:
        attributes.update({n: a.default_value for n, a in schema.attributes.items() if a.default_value.name})
    attributes.update({a.name: a for a in node.attribute})
    filled = onnx.FunctionProto()
    filled.CopyFrom(function)
    for inner in filled.node:
        _fill(inner, attributes)
    return filled


def _fill(node: Any, attributes: dict[str, Any]) -> None:
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            replacement = attributes.get(attribute.ref_attr_name)
            if replacement is None:
                continue
            copied = onnx.AttributeProto()
            copied.CopyFrom(replacement)
            copied.name = attribute.name
            kept.append(copied)
            continue
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                _fill(inner, attributes)
        kept.append(attribute)
    copies = []
    for a in kept:
        copy = onnx.AttributeProto()
        copy.CopyFrom(a)
        copies.append(copy)
    del node.attribute[:]
    node.attribute.extend(copies)
