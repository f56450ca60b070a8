"""ONNX: models written to files that other programs run, and models read as Modules.

registry.py is the table of operators and operators/ its entries, one place for each. model.py and body.py run a model
that was read; program.py goes through a graph of weft.jit and writer.py writes its nodes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.onnx.pytorch_symbolics import register_custom_op_symbolic, unregister_custom_op_symbolic
from weft.onnx.registry import is_in_onnx_export
from weft.onnx.registry import users_symbolic as symbolic
from weft.support.absent import refuse

if TYPE_CHECKING:
    from weft.onnx.exporting import export
    from weft.onnx.model import OnnxModel, load

__all__ = [
    "OnnxModel", "export", "is_in_onnx_export", "load", "register_custom_op_symbolic", "symbolic",
    "unregister_custom_op_symbolic",
]
_WITH_FILES = {  # what needs the package onnx: programs for PyTorch import this module without it
    "OnnxModel": "weft.onnx.model", "export": "weft.onnx.exporting", "load": "weft.onnx.model",
}


def __getattr__(name: str) -> Any:
    if name not in _WITH_FILES:
        refuse("module 'weft.onnx'", name)
    return globals().setdefault(name, getattr(import_module(_WITH_FILES[name]), name))
