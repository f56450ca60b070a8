"""What distributions share: parameters from numbers and tensors, probabilities and logits, triangles as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload
from weakref import WeakKeyDictionary

from weft.layers.factories import FACTORIES
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.creation import tensor
from weft.tensor.modes import enable_grad, modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.limits import finfo

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]
T = TypeVar("T")
Parameter: TypeAlias = Tensor | float
Shape: TypeAlias = Sequence[int]
euler_constant: Final = 0.57721566490153286060
_ON_DEVICES = "arange", "empty", "eye", "full", "rand", "randn"
arange, empty, eye, full, rand, randn = (FACTORIES[name] for name in _ON_DEVICES)


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python's, or one that stands for it while a function is captured."""
    return isinstance(value, (bool, int, float)) or hasattr(type(value), "__weft_number__")


def as_tensors(values: Sequence[Any]) -> list[Tensor]:
    """Numbers as tensors of the first tensor's dtype and device, of the default dtype where there is none. Raises
    ValueProblem for what is neither."""
    first = next((v for v in values if isinstance(v, Tensor)), None)
    if not all(isinstance(v, Tensor) or is_number(v) for v in values):
        kinds = ", ".join(type(v).__name__ for v in values)
        raise ValueProblem(f"Input arguments must all be instances of Number or Tensor, got {kinds}")
    dtype, device = (dt.get_default(), None) if first is None else (first.dtype, first.device)
    return [v if isinstance(v, Tensor) else full((), v, dtype=dtype, device=device) for v in values]


def broadcast_all(*values: Parameter) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape. Raises ValueProblem for other values, ShapeError."""
    tensors = as_tensors(values)
    return tuple(tensors) if len(tensors) == 1 else tuple(aten.broadcast_tensors(tensors))


def _standard_normal(shape: Shape, dtype: Any, device: Any) -> Tensor:
    return randn(tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Sums over the last `dim` dims."""
    return value if dim == 0 else value.sum(tuple(range(-dim, 0)))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds (is_binary), or of unnormalized log probabilities along the last dim."""
    return aten.sigmoid(logits) if is_binary else aten.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities in [eps, 1 - eps] with the dtype's eps."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds (is_binary), or log probabilities, of probabilities that are clamped first."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property(Generic[T]):
    """A property that is computed, with gradients, when first asked for, and is an attribute from then on."""

    def __init__(self, wrapped: Callable[[Any], T]) -> None:
        self.wrapped = wrapped
        self.name = wrapped.__name__
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> T: ...

    def __get__(self, instance: object | None, owner: Any = None) -> lazy_property[T] | T:
        if instance is None:
            return self
        memory = memory_of(instance)
        if self.name not in memory:
            with enable_grad():
                memory[self.name] = self.wrapped(instance)
        return memory[self.name]


_of_captures: WeakKeyDictionary[Any, dict[int, tuple[object, dict[str, Any]]]] = WeakKeyDictionary()


def memory_of(instance: object) -> dict[str, Any]:
    """Where an object keeps what it has computed: among its attributes, or, while something is captured, with the
    capture, whose tensors nobody may hold when it is over."""
    if modes.capture is None:
        return vars(instance)
    return _of_captures.setdefault(modes.capture, {}).setdefault(id(instance), (instance, {}))[1]


# ---- triangles
def _places(n: int, diag: int) -> list[int]:
    return [i * n + j for i in range(n) for j in range(n) if j <= i + diag]


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices [..., n, n], row by row, up to diagonal `diag`. Raises ValueProblem."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueProblem(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places = tensor(_places(n, diag), dtype=dt.int64, device=mat.device)
    return mat.flatten(-2).index_select(-1, places)


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices [..., n, n] with these lower triangles, and zeros above. Raises ValueProblem for a length that no
    triangle has."""
    length, n = int(vec.shape[-1]), 0
    while len(_places(n, diag)) < length or n + diag < 0:
        n += 1
    places = _places(n, diag)
    if len(places) != length:
        raise ValueProblem(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    order = [length] * (n * n)  # above the triangle: the zero that is put behind the vector
    for number, place in enumerate(places):
        order[place] = number
    padded = aten.constant_pad_nd(vec, [0, 1], 0)
    return padded.index_select(-1, tensor(order, dtype=dt.int64, device=vec.device)).unflatten(-1, (n, n))
