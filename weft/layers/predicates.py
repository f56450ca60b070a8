"""Questions about tensors as module functions: is_tensor, numel, is_floating_point, result_type,
broadcast_shapes, ..."""

from __future__ import annotations

from typing import Any

from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, DTypeError, ShapeError, ValueProblem
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor, check_tensor
from weft.types import promotion
from weft.types.dtype import INT, DType
from weft.types.dtype import bool_ as BOOL


def is_tensor(obj: Any) -> bool:
    """Whether a value is a Tensor."""
    return isinstance(obj, Tensor)


@overridable
def numel(input: Tensor) -> Any:
    """The number of elements."""
    return check_tensor(input, "numel(): input").numel()


@overridable
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating point one."""
    return check_tensor(input, "is_floating_point(): input").is_floating_point()


@overridable
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return check_tensor(input, "is_complex(): input").is_complex()


@overridable
def result_type(*arrays_and_dtypes: Any, tensor1: Any = None, tensor2: Any = None) -> DType:
    """The dtype of arithmetic between tensors, numbers and dtypes. tensor1, tensor2: PyTorch's names of the first two.
    Raises ArgumentError for none."""
    operands = (*arrays_and_dtypes, *(t for t in (tensor1, tensor2) if t is not None))
    if not operands:
        raise ArgumentError("result_type(): at least one tensor or dtype is required")
    groups: tuple[list[DType], list[DType], list[DType]] = ([], [], [])
    for value in operands:
        if isinstance(value, DType):
            groups[0].append(value)
        elif isinstance(value, Tensor):
            groups[0 if value.ndim else 1].append(value.dtype)
        elif isinstance(value, (bool, int, float, complex)):
            groups[2].append(promotion.number_dtype(type(value)))
        else:
            raise ArgumentError(f"result_type(): expected tensors, numbers or dtypes, got {type(value).__name__}")
    return promotion.result_type(*(tuple(g) for g in groups))


@overridable
def is_signed(input: Tensor) -> bool:
    """Whether the dtype holds negative numbers."""
    return check_tensor(input, "is_signed(): input").is_signed()


@overridable
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same size."""
    return bool(
        check_tensor(input, "is_same_size(): input").shape == check_tensor(other, "is_same_size(): other").shape
    )


@overridable
def _is_all_true(input: Tensor) -> Tensor:
    """Whether all elements of a tensor of truth values are true, as a tensor of one."""
    return aten.all(_truths("_is_all_true", input))


@overridable
def _is_any_true(input: Tensor) -> Tensor:
    """Whether any element of a tensor of truth values is true, as a tensor of one."""
    return aten.any(_truths("_is_any_true", input))


def _truths(name: str, input: Any) -> Tensor:
    if check_tensor(input, f"{name}(): input").dtype is not BOOL:
        raise DTypeError(f"{name}(): expected a tensor of bool, got {input.dtype}")
    return input


@overridable
def is_conj(input: Tensor) -> bool:
    """False: `conj()` computes."""
    return check_tensor(input, "is_conj(): input").is_conj()


@overridable
def is_neg(input: Tensor) -> bool:
    """False: no view remembers to negate."""
    return check_tensor(input, "is_neg(): input").is_neg()


@overridable
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself."""
    return check_tensor(input, "resolve_conj(): input")


@overridable
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself."""
    return check_tensor(input, "resolve_neg(): input")


@overridable
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The indices along each dim of `shape` for places in the flattened tensor; negative places count from the end.
    Raises ArgumentError, ValueProblem."""
    flat = check_tensor(indices, "unravel_index(): indices")
    if flat.dtype.category != INT:
        raise ArgumentError(f"unravel_index(): expected 'indices' to be integer dtype, but got {flat.dtype}")
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    sizes: tuple[Any, ...] = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    wrong = [n for n in sizes if isinstance(n, (float, complex, str, list, tuple)) or n is None]
    if wrong:
        raise ArgumentError(f"unravel_index(): expected 'shape' to be int or sequence of ints, got one of {wrong[0]!r}")
    if any(n < 0 for n in sizes):
        raise ValueProblem(f"unravel_index(): 'shape' cannot have negative values, but got {sizes}")
    flat = flat.long()
    coordinates: list[Tensor] = []
    for n in reversed(sizes):
        coordinates.append(flat % n)
        flat = flat.div(n, rounding_mode="floor")
    return tuple(coordinates[::-1])


def broadcast_shapes(*shapes: Any) -> Size:
    """The common size that the sizes broadcast to. Raises ShapeError, and ArgumentError for what is no size."""
    listed = [s if isinstance(s, (tuple, list)) else (s,) for s in shapes]
    for shape in listed:
        if not all(hasattr(n, "__index__") for n in shape):
            raise ArgumentError(f"broadcast_shapes: sizes are ints, or tuples and lists of ints; got {shape!r}")
    common: list[Any] = []
    for back in range(1, max((len(s) for s in listed), default=0) + 1):
        extent: Any = 1
        for shape in listed:
            size = shape[-back] if back <= len(shape) else 1
            if size < 0:
                raise ShapeError(f"Trying to create tensor with negative dimension ({size}): ({size})")
            if size == 1 or size == extent:
                continue
            if extent != 1:
                raise ShapeError("Shape mismatch: objects cannot be broadcast to a single shape")
            extent = size
        common.append(extent)
    return Size(reversed(common))
