"""The entries of the table, by subject. In each file a rule that runs ONNX's operator stands beside the one that
writes weft's.
"""

from weft.onnx.operators import (  # noqa: F401
    activations,
    composed,
    control,
    convolution,
    creation,
    detection,
    indexing,
    layout,
    learning,
    linear,
    losses,
    normalization,
    ordering,
    packing,
    pointwise,
    pooling,
    quantization,
    random,
    recurrent,
    reductions,
    resampling,
    scanning,
    sequences,
    shapes,
    signal,
)
