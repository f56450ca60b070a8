"""What a node that is being written gives for the example, by the rule that reads such a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import weft
from weft.onnx.dependency import defs, onnx
from weft.onnx.dtypes import element_of
from weft.onnx.registry import Operator
from weft.onnx.values import as_tensor, constant
from weft.ops.route import default_route, run_as_usual


def run_rule(rule: Operator, inputs: Sequence[Any], attributes: dict[str, Any], extra: dict[str, Any]) -> list[Any]:
    """The results for the examples of the inputs."""
    keywords = {rule.attributes[k]: v for k, v in attributes.items() if v is not None}
    keywords.update({k: v for k, v in extra.items() if k in rule.given})
    args = [
        None if v is None else constant(v.example.numpy()) if rule.reads(i) else v.example for i, v in enumerate(inputs)
    ]
    with weft.no_grad(), default_route(run_as_usual):
        results = rule.run(*args, **keywords)
    return [as_tensor(r) for r in (results if isinstance(results, tuple) else (results,))]


def why_not(base: str, values: Sequence[Any], attributes: Iterable[str], opset: int) -> str:
    """Why ONNX's operator does not do it at this opset: it is newer, or an attribute is, or it does not take a dtype.
    Empty where it does.
    """
    if not defs.has(base, opset, ""):
        return f"{base}, which ONNX has {_from(base)}; the export is for opset {opset}"
    schema = defs.get_schema(base, opset, "")
    for name in attributes:
        if name not in schema.attributes:
            return f"{base} with {name}, which ONNX has {_from(base, name)}; the export is for opset {opset}"
    inputs = schema.inputs
    for i, value in enumerate(values):
        if value is None:
            continue
        name = onnx.TensorProto.DataType.Name(element_of(value.dtype)).lower()
        if f"tensor({name})" not in inputs[min(i, len(inputs) - 1)].types:
            return f"{value.dtype}: ONNX's {base} does not take it"
    return ""


def _from(base: str, attribute: str | None = None) -> str:
    """From which opset on ONNX has an operator, or an attribute of one: "from opset 16 on"."""
    for opset in range(1, defs.onnx_opset_version() + 1):
        if defs.has(base, opset, "") and (
            attribute is None or attribute in defs.get_schema(base, opset, "").attributes
        ):
            return f"from opset {opset} on"
    return "in no version"
