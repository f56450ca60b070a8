"""Convolutions, their gradients and max pooling without columns in memory, on register tiles like those of the matrix
product. Imports emit/ and gemm/.

Start reading at prototypes.py (the functions, and what a kernel's integers mean), then window.py (which element of an
image a tap of a window reads), planes.py (images laid out so that every tap reads a run), blocks.py (windows times
weights), lines.py (images as lines of a product), weights.py (the gradient of weights), narrow.py (few channels: no
product) and maxima.py (max pooling); tiles.py has the register tiles. What writes the functions is not imported here:
they come compiled (weft/codegen/shipped.py).
"""

from .prototypes import PARAMETERS, declare_convolution

__all__ = ["PARAMETERS", "declare_convolution"]
