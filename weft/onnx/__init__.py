"""ONNX: models written to files that other programs run, and models read as Modules.

registry.py is the table of operators and operators/ its entries, one place for each; model.py and body.py run a model
that was read; exporter.py writes one.
"""

from weft.onnx.model import OnnxModel, load

__all__ = ["OnnxModel", "load"]
