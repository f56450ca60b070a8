"""Files of events that TensorBoard shows: `SummaryWriter` and `FileWriter`, with PyTorch's names. Nothing but NumPy is
needed to write them; start reading at writer.py."""

from weft.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
