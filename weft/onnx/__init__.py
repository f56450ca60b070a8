"""ONNX: models written to files that other programs run, and models read as Modules.

registry.py is the table of operators and operators/ its entries, one place for each. model.py and body.py run a model
that was read; program.py goes through a graph of weft.jit and writer.py writes its nodes.
"""

from weft.onnx.export import export
from weft.onnx.model import OnnxModel, load
from weft.onnx.registry import symbolic

__all__ = ["OnnxModel", "export", "load", "symbolic"]
