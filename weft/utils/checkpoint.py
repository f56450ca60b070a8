"""weft.utils.checkpoint: regions of a model that are computed again in backward instead of keeping their tensors."""

from weft.autograd.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_early_stop

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]
