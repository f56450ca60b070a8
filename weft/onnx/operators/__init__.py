"""The entries of the table, by subject. In each file a rule that runs ONNX's operator stands beside the one that
writes weft's.
"""

from weft.onnx.operators import (
    activations as activations,
)
from weft.onnx.operators import (
    composed as composed,
)
from weft.onnx.operators import (
    control as control,
)
from weft.onnx.operators import (
    convolution as convolution,
)
from weft.onnx.operators import (
    creation as creation,
)
from weft.onnx.operators import (
    detection as detection,
)
from weft.onnx.operators import (
    indexing as indexing,
)
from weft.onnx.operators import (
    layout as layout,
)
from weft.onnx.operators import (
    learning as learning,
)
from weft.onnx.operators import (
    linear as linear,
)
from weft.onnx.operators import (
    losses as losses,
)
from weft.onnx.operators import (
    normalization as normalization,
)
from weft.onnx.operators import (
    ordering as ordering,
)
from weft.onnx.operators import (
    packing as packing,
)
from weft.onnx.operators import (
    pointwise as pointwise,
)
from weft.onnx.operators import (
    pooling as pooling,
)
from weft.onnx.operators import (
    quantization as quantization,
)
from weft.onnx.operators import (
    random as random,
)
from weft.onnx.operators import (
    recurrent as recurrent,
)
from weft.onnx.operators import (
    reductions as reductions,
)
from weft.onnx.operators import (
    resampling as resampling,
)
from weft.onnx.operators import (
    scanning as scanning,
)
from weft.onnx.operators import (
    sequences as sequences,
)
from weft.onnx.operators import (
    shapes as shapes,
)
from weft.onnx.operators import (
    signal as signal,
)
