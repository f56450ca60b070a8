"""What schemas say about types: the type of an argument, of an immediate, and of results where nothing more
is known than the schema."""

from __future__ import annotations

from weft.ir.graph import Operand, Value
from weft.ops.op import Op
from weft.ops.schema import Argument
from weft.types import tensor_type as tt
from weft.types.dims import Expr
from weft.types.dtype import DType
from weft.types.tensor_type import ANY, Type, list_of, optional

KINDS: dict[str, Type] = {
    "Tensor": tt.TENSOR, "Scalar": tt.NUMBER, "int": tt.INT, "float": tt.FLOAT, "bool": tt.BOOL, "str": tt.STR,
    "ScalarType": tt.DTYPE, "Device": tt.DEVICE, "Layout": tt.LAYOUT, "MemoryFormat": tt.LAYOUT,
    "Generator": tt.GENERATOR, "Object": ANY,
}
_IMMEDIATES: dict[type, Type] = {
    bool: tt.BOOL, int: tt.INT, Expr: tt.INT, float: tt.FLOAT, complex: tt.COMPLEX, str: tt.STR, DType: tt.DTYPE,
    type(None): tt.NONE,
}


def type_of_immediate(operand: Operand) -> Type:
    """The type of an operand, immediates included (a symbolic integer is an int)."""
    if isinstance(operand, Value):
        return operand.type
    return _IMMEDIATES.get(type(operand), ANY)


def type_of_argument(argument: Argument) -> Type:
    """`int[]?` as a type."""
    kind = KINDS[argument.kind]
    if argument.is_list:
        kind = list_of(optional(kind) if argument.element_optional else kind)
    return optional(kind) if argument.is_optional else kind


def declared_types(op: Op, count: int) -> tuple[Type, ...]:
    """The types of `count` results by the schema alone. A list of tensors is one value,
    or spread over `count` of them."""
    returns = op.schema.returns
    if op.schema.returns_list and count != 1:
        return (KINDS[returns[0].kind],) * count
    return tuple(type_of_argument(r) for r in returns)


def has_many_results(op: Op) -> bool:
    """Whether the kernel of an operator on Python's values gives a result for each output, and not one list."""
    return op.schema.returns_list and op.schema.returns[0].kind == "Object"
