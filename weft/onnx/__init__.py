"""ONNX: models written to files that other programs run, and models read as Modules.

registry.py is the table of operators and operators/ its entries, one place for each. model.py and body.py run a model
that was read; program.py goes through a graph of weft.jit and writer.py writes its nodes.
"""

from weft.onnx.export import export, is_in_onnx_export
from weft.onnx.model import OnnxModel, load
from weft.onnx.pytorch_symbolics import register_custom_op_symbolic, unregister_custom_op_symbolic
from weft.onnx.registry import symbolic

__all__ = [
    "OnnxModel", "export", "is_in_onnx_export", "load", "register_custom_op_symbolic", "symbolic",
    "unregister_custom_op_symbolic",
]
