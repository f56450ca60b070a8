"""Inference tensors: what is made in inference mode carries no version and may not be saved for backward.

The mark is on the storage, so that views and aliases share it. While the mode is on, the layer below stands
at the bottom of the thread's interceptors and marks what operators give; outside of the mode no call pays for it.
"""

from __future__ import annotations

from typing import Any

from weft.layers.walk import inplace, walk_layers
from weft.ops.op import Op
from weft.support import pytree
from weft.tensor import modes as mode_settings
from weft.tensor.dense import payload_of
from weft.tensor.modes import lowest, modes
from weft.tensor.tensor import Tensor


class InferenceLayer:
    """Runs operators as usual and marks their fresh results."""

    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The operator's result, as an inference tensor."""
        out = self._below(walk_layers, op, args)
        self._mark(out, [t._storage for t in pytree.flatten(args)[0] if isinstance(t, Tensor)])
        return out

    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The in-place operator: what it writes to stays what it is."""
        return self._below(inplace, op, args)

    def _below(self, function: Any, op: Op, args: tuple[Any, ...]) -> Any:
        stack = modes.special
        modes.special = lowest()
        try:
            return function(op, args)
        finally:
            modes.special = stack

    def lift(self, value: Any) -> Any:
        """A tensor that was made of values, marked."""
        self._mark(value, [])
        return value

    def _mark(self, value: Any, older: list[Any]) -> None:
        """Mark the tensors in a value, save those that share one of these storages."""
        if isinstance(value, Tensor):
            storage = value._storage
            if storage is None or not any(storage is other for other in older):
                payload_of(value).note_inference(value)
        elif isinstance(value, (tuple, list)):
            for v in value:
                self._mark(v, older)


def noted(tensor: Tensor) -> Tensor:
    """A tensor that was made now, marked where the mode is on."""
    if modes.inference:
        payload_of(tensor).note_inference(tensor)
    return tensor


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


mode_settings.inference_layer = InferenceLayer()
