"""What weft.onnx.export gives: the model as ONNX's object, to be saved or run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.onnx.dependency import helper, onnx
from weft.onnx.model import OnnxModel
from weft.support.errors import ArgumentError, ValueProblem
from weft.tensor.tensor import Tensor

PROTOBUF_BYTES = 2**31 - 1  # no message is longer


class ONNXProgram:
    """A model of ONNX: `model_proto` is onnx's ModelProto, `save` writes it to a file, and a call runs it on weft.

    weights: the names of the initializers that are the model's parameters and buffers.
    """

    def __init__(self, model_proto: Any, weights: Sequence[str]) -> None:
        self.model_proto = model_proto
        self._weights = tuple(weights)
        self._model: OnnxModel | None = None

    def __call__(self, *args: Tensor) -> Any:
        """The results for input tensors, in the order of the graph's inputs."""
        if self._model is None:
            self._model = OnnxModel(self.model_proto)
        return self._model(*args)

    def save(
        self, destination: str | os.PathLike[str] | Any, *, include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False, external_data: bool | None = None,
    ) -> None:
        """Write the model to a path or a binary file.

        include_initializers: False leaves parameters and buffers out, which are inputs then.
        keep_initializers_as_inputs: they are inputs with a value that holds where none is given.
        external_data: weights go to a file beside it, `destination` with ".data" behind; None: where the model would
        be too long for one file of protobuf (2 GB).
        """
        model = self.model_proto
        if not include_initializers or keep_initializers_as_inputs:
            model = self._with_weights_as_inputs(include_initializers)
        if hasattr(destination, "write"):
            if external_data:
                raise ArgumentError("onnx: weights can be written beside a file that has a path")
            destination.write(model.SerializeToString())
            return
        path = os.fspath(destination)
        if external_data is None:
            external_data = model.ByteSize() > PROTOBUF_BYTES
        if external_data:
            own = onnx.ModelProto()
            own.CopyFrom(model)  # saving moves the weights out of the object
            beside = f"{os.path.basename(path)}.data"
            onnx.save(own, path, save_as_external_data=True, location=beside, size_threshold=0)
        else:
            onnx.save(model, path)

    def verify(self, expected: Sequence[Any], inputs: Sequence[Tensor], rtol: float = 1e-3, atol: float = 1e-5) -> None:
        """Run the model, and compare its results with those of the model that was exported, in order. Raises
        ValueProblem for the first that differs."""
        results = self(*inputs)
        listed = list(results) if isinstance(results, (tuple, list)) else [results]
        tensors = [v for v in expected if isinstance(v, Tensor)]
        if len(tensors) != len(listed):
            raise ValueProblem(f"onnx: the model that was written gives {len(listed)} results, not {len(tensors)}")
        for i, (ours, theirs) in enumerate(zip(tensors, listed, strict=True)):
            a, b = ours.detach().numpy(), theirs.detach().numpy()
            if a.shape != b.shape or not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
                raise ValueProblem(f"onnx: result {i} of the model that was written has other values")

    def __repr__(self) -> str:
        return f"ONNXProgram({self.model_proto.graph.name}, {len(self.model_proto.graph.node)} nodes)"

    def _with_weights_as_inputs(self, with_values: bool) -> Any:
        model = onnx.ModelProto()
        model.CopyFrom(self.model_proto)
        graph = model.graph
        weights = [t for t in graph.initializer if t.name in self._weights]
        graph.input.extend([helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in weights])
        if not with_values:
            kept = [t for t in graph.initializer if t.name not in self._weights]
            del graph.initializer[:]
            graph.initializer.extend(kept)
        return model
