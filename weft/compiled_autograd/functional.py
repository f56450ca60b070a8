"""The functional form of every built-in node: one signature for all, the entry's formulas behind it,
and the values that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from weft.autograd.node import InputMetadata
from weft.ir.opaque import opaque_base
from weft.ops.backward import Plan, apply_functional, plans_of
from weft.ops.geometry import Geometry
from weft.ops.op import OPS
from weft.runtime.generator import Generator
from weft.tensor.device import Device
from weft.tensor.modes import no_grad
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.types.tensor_type import Type


class FunctionalForm:
    """What a node computes, as a function of nothing but its arguments.

    `form(grads, needs, packed)`: the incoming gradients (None where there is none), which differentiable
    arguments want one (one flag for a whole list of tensors), and what the node saved, as `node.packed()` gives it.
    Returns one gradient per differentiable argument, None where none is wanted.
    """

    def __init__(self, name: str, plan: Plan) -> None:
        self.__name__ = self.name = name
        self.plan = plan
        self.__doc__ = f"The gradients of {plan.op.name}."

    def __call__(self, grads: tuple[Any, ...], needs: tuple[bool, ...], packed: tuple[Any, ...]) -> tuple[Any, ...]:
        if not any(needs) or all(g is None for g in grads):
            return (None,) * len(needs)
        with no_grad():
            return apply_functional(self.plan, tuple(grads), tuple(needs), tuple(packed))

    def __repr__(self) -> str:
        return f"weft.compiled_autograd.ops[{self.name!r}]"


class _Forms(Mapping[str, FunctionalForm]):
    """Every functional form by the name of its node, made when it is first looked up."""

    def __init__(self) -> None:
        self._made: dict[str, FunctionalForm] = {}

    def _names(self) -> dict[str, FunctionalForm]:
        if not self._made:
            for op in list(OPS.values()):
                if op.is_differentiable and op.writes is None:
                    for plan in plans_of(op):
                        name = opaque_base(plan)
                        self._made[name] = FunctionalForm(name, plan)
        return self._made

    def __getitem__(self, name: str) -> FunctionalForm:
        return self._names()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


ops = _Forms()


class Packed(NamedTuple):
    """A value in a form that all kinds of saved values share: its kind, and what it is."""

    kind: str
    value: Any


_KINDS: dict[type, str] = {
    int: "int", float: "float", bool: "bool", complex: "complex", str: "str", type(None): "None", DType: "ScalarType",
    Device: "Device", Generator: "Generator", InputMetadata: "InputMetadata", Geometry: "Geometry",
}


def pack(value: Any) -> Packed:
    """A saved value in generic form; `unpack` gives it back, of the same type.
    Lists and tuples are packed element by element.

    Raises NotImplementedError, which names the type, for what no schema can carry.
    """
    kind = type(value)
    if isinstance(value, Tensor):
        return Packed("Tensor", value)
    if isinstance(value, Type):
        return Packed("Type", value)
    if kind is list or kind is tuple or kind is Size:
        return Packed(f"{kind.__name__}[]", tuple([pack(v) for v in value]))
    name = _KINDS.get(kind)
    if name is None:
        raise NotImplementedError(
            f"compiled autograd cannot pack a value of type {kind.__name__}: no argument of an operator has such a type"
        )
    return Packed(name, value)


def unpack(packed: Packed) -> Any:
    """The value that was packed."""
    if not packed.kind.endswith("[]"):
        return packed.value
    values = [unpack(v) for v in packed.value]
    return values if packed.kind == "list[]" else (Size if packed.kind == "Size[]" else tuple)(values)
