"""Networks.

linear.py, activations.py, softmax.py, shrinking.py, attention.py, convolution.py, convolution_layers.py, losses.py,
reduced_losses.py, ctc.py, norms.py, running_norms.py, bags.py (bags of rows), pooling.py, max_pooling.py, im2col.py,
unpooling.py, interpolation.py, grid_sampling.py; functional.py has the signatures of nn.functional that differ from the
operators' (namespace nn::).
"""

from weft.catalogue.nn import (  # noqa: F401
    activations,
    antialiasing,
    attention,
    bags,
    convolution,
    convolution_layers,
    ctc,
    functional,
    grid_sampling,
    im2col,
    interpolation,
    linear,
    losses,
    max_pooling,
    norms,
    pooling,
    reduced_losses,
    row_norms,
    running_norms,
    shrinking,
    softmax,
    unpooling,
)
