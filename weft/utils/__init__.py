"""Floor 9: what training scripts need beside the model: weft.utils.data."""

from weft.utils import data

__all__ = ["data"]
