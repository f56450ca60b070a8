"""Floor 10: what training scripts need beside the model: data, checkpoint; pytree and dispatch for tensor subclasses
and modes."""

from weft.utils import checkpoint, data, dispatch, pytree

__all__ = ["checkpoint", "data", "dispatch", "pytree"]
