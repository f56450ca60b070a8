"""Symbolic functions as programs write them for PyTorch's exporter: `fn(g, *arguments)`, attributes with their kind in
the name (`to_i=1`), and weft's own rules under PyTorch's names (`symbolic_opset11.unsqueeze(g, x, 0)`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from weft.onnx.registry import EXPORTS, users_symbolic
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor

_KINDS = ("i", "f", "s", "t", "g", "z")
_opsets: dict[str, int] = {}  # of what is registered


class _Graph:
    """The exporter, which takes attributes as PyTorch's does."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def op(self, name: str, *inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
        """A node: `g.op("Cast", x, to_i=1)`; a tensor alone for `g.op("Constant", value_t=tensor)`."""
        named = {k.rpartition("_")[0] if k.rpartition("_")[2] in _KINDS else k: v for k, v in attributes.items()}
        if name == "Constant" and isinstance(named.get("value"), Tensor):
            value = named["value"]
            return self.writer.constant(value.numpy(), value.dtype)
        return self.writer.op(name, *inputs, outputs=outputs, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.writer, name)


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int = 9) -> None:
    """Say how an operator is written: `fn(g, *arguments)`, the arguments in the order of its schema. Of several for one
    operator the one for the latest opset counts."""
    if _opsets.get(symbolic_name, -1) > opset_version:
        return
    _opsets[symbolic_name] = opset_version
    users_symbolic(symbolic_name)(lambda g, *args: symbolic_fn(g if isinstance(g, _Graph) else _Graph(g), *args))


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int = 9) -> None:
    """Forget one that was registered."""
    if _opsets.pop(symbolic_name, None) is not None:
        EXPORTS.pop(symbolic_name, None)


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function as it is: weft gives numbers as numbers ("i", "f", "s", "is") and tensors as values ("v")."""
    return lambda function: function


def rule_of(name: str) -> Callable[..., Any]:
    """How weft writes an operator, by PyTorch's name: called as `rule(g, *arguments)`. Raises Unsupported."""
    import_module("weft.onnx.operators")  # fills the table, and needs the package onnx
    rule = EXPORTS.get(f"aten::{name}")
    if rule is None:
        raise Unsupported(f"onnx: there is no symbolic of {name}")
    return lambda g, *args: rule(g.writer if isinstance(g, _Graph) else g, *args)
