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
from weft.support.errors import Unsupported as OnnxExporterError
from weft.version import __version__

if TYPE_CHECKING:
    from weft.onnx.export_options import OperatorExportTypes, TrainingMode, select_model_mode_for_export
    from weft.onnx.exporting import export
    from weft.onnx.model import OnnxModel, load
    from weft.onnx.onnx_program import ONNXProgram

__all__ = [
    "ONNXProgram", "OnnxExporterError", "OnnxModel", "OperatorExportTypes", "TrainingMode", "export",
    "is_in_onnx_export", "load", "producer_name", "producer_version", "register_custom_op_symbolic",
    "select_model_mode_for_export", "symbolic", "unregister_custom_op_symbolic",
]
producer_name, producer_version = "weft", __version__
_ON_USE = {  # what needs the package onnx, or Modules: programs for PyTorch import this module without them
    "ONNXProgram": "weft.onnx.onnx_program", "OnnxModel": "weft.onnx.model", "export": "weft.onnx.exporting",
    "load": "weft.onnx.model",
    **dict.fromkeys(
        ("OperatorExportTypes", "TrainingMode", "select_model_mode_for_export"), "weft.onnx.export_options"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        refuse("module 'weft.onnx'", name)
    return globals().setdefault(name, getattr(import_module(_ON_USE[name]), name))
