"""weft.onnx.load: a model file as a Module, whose weights are its parameters."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

import weft
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.onnx.body import Body, Opsets
from weft.onnx.dependency import numpy_helper, onnx
from weft.onnx.dtypes import dtype_of
from weft.onnx.operators import control as control  # the package fills the table
from weft.onnx.values import Known, as_tensor
from weft.support.errors import ArgumentError, DTypeError, ParseError, ShapeError, Unsupported
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType


class Input:
    """A declared input: its name, and what is said of its type (None where nothing is)."""

    def __init__(self, info: Any) -> None:
        self.name: str = info.name
        self.dtype: DType | None = None
        self.dims: tuple[int | None, ...] | None = None
        if info.type.WhichOneof("value") == "tensor_type":
            declared = info.type.tensor_type
            self.dtype = dtype_of(declared.elem_type) if declared.elem_type else None
            if declared.HasField("shape"):
                self.dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim)

    def check(self, value: Any) -> Any:
        """The value, if it is what is declared. Raises DTypeError or ShapeError."""
        if not isinstance(value, Tensor):
            return value
        if self.dtype is not None and value.dtype is not self.dtype:
            raise DTypeError(f"onnx: input {self.name!r} should be {self.dtype}, is {value.dtype}")
        if self.dims is not None:
            fits = len(self.dims) == value.ndim and all(
                d is None or d == n for d, n in zip(self.dims, value.shape, strict=True)
            )
            if not fits:
                shown = ", ".join("*" if d is None else str(d) for d in self.dims)
                raise ShapeError(
                    f"onnx: input {self.name!r} should have sizes ({shown}), has {tuple(value.shape)}; a model is "
                    "exported for other sizes with dynamic_axes"
                )
        return value


class OnnxModel(Module):
    """A model that was read. Called with tensors in the order of the graph's inputs, it gives the outputs: one tensor,
    or a tuple.

    Floating weights are parameters that do not ask for gradients (`model.requires_grad_()` makes them); others are
    buffers. `input_names` and `output_names` are the graph's.
    """

    input_names: list[str]
    output_names: list[str]

    def __init__(self, model: Any) -> None:
        super().__init__()
        graph = model.graph
        opsets = Opsets({o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}, model)
        self._weights: dict[str, tuple[str, Known]] = {}
        for stored in graph.initializer:
            self._weight(stored)
        self._inputs = [Input(info) for info in graph.input if info.name not in self._weights]
        self.input_names = [i.name for i in self._inputs]
        self.output_names = [info.name for info in graph.output]
        self._body = Body(graph, opsets, outer=frozenset(self._weights))
        self._body.refuse_unknown()

    def _weight(self, stored: Any) -> None:
        array = numpy_helper.to_array(stored)
        dtype = dt.from_numpy(array.dtype)
        tensor = weft.tensor(np.array(array))
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in stored.name)
        while name in self._parameters or name in self._buffers or hasattr(self, name):
            name += "_"
        if dtype.is_floating_point:
            self.register_parameter(name, Parameter(tensor, requires_grad=False))
        else:
            self.register_buffer(name, tensor)
        self._weights[stored.name] = (name, Known(array, dtype, folds=not dtype.is_floating_point))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The outputs for these inputs. Raises ArgumentError for a wrong number of them."""
        if len(inputs) > len(self._inputs) or len(inputs) + len(named) != len(self._inputs):
            raise ArgumentError(
                f"onnx: the model takes {len(self._inputs)} inputs ({', '.join(self.input_names)}), "
                f"{len(inputs) + len(named)} are given"
            )
        by_name = dict(zip(self.input_names, inputs, strict=False))
        for name, value in named.items():
            if name not in self.input_names or name in by_name:
                raise ArgumentError(f"onnx: {name!r} is no input, or given twice; there are {self.input_names}")
            by_name[name] = value
        values: dict[str, Any] = {
            name: Known(weight.array, weight.dtype, getattr(self, attribute), weight.folds)
            for name, (attribute, weight) in self._weights.items()
        }
        values.update({i.name: i.check(by_name[i.name]) for i in self._inputs})
        outputs = [as_tensor(v) for v in self._body.run(values)]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def extra_repr(self) -> str:
        return f"({', '.join(self.input_names)}) -> ({', '.join(self.output_names)}), {len(self._body.steps)} nodes"


def load(path: str | os.PathLike[str] | IO[bytes] | onnx.ModelProto) -> OnnxModel:
    """The model in a file (by its path, or open for reading bytes; or an onnx.ModelProto), as a callable of tensors in
    the order of the graph's inputs.

    It is a Module: it runs eagerly, within weft.compile, and gradients flow through it. Raises OSError, ParseError for
    a file that is no model, and Unsupported, which names every operator that weft cannot express.
    """
    if isinstance(path, onnx.ModelProto):
        return OnnxModel(path)
    try:
        model = onnx.load(path if hasattr(path, "read") else os.fspath(path))
    except OSError:
        raise
    except Exception as problem:  # protobuf's errors have no common class
        raise ParseError(f"onnx: {path} is no model: {type(problem).__name__}: {str(problem)[:200]}") from None
    if not model.opset_import:
        raise ParseError(f"onnx: {path} is no model: it names no operator set")
    return OnnxModel(model)


__all__ = ["Input", "OnnxModel", "Unsupported", "load"]
