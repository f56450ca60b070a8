"""Floor 9: what training scripts need beside the model: data, checkpoint."""

from weft.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
