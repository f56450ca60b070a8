"""The entries of the table, by subject. In each file a rule that runs ONNX's operator stands beside the one that
writes weft's.
"""

from weft.onnx.operators import (  # noqa: F401
    activations,
    control,
    convolution,
    creation,
    detection,
    functions,
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
