"""TensorType: what is known about a tensor, from nothing (`Tensor`) through `f32[*, *]`
and `f32[s0, 128]` to `f32[3, 4]`."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakValueDictionary

from weft.support import limits
from weft.support.memo import Memo
from weft.types import dims as dm
from weft.types.dims import Dim, Expr
from weft.types.dtype import DType

Dims = tuple[Dim | None, ...]


class Type:
    """A type of the graph language. Interned: equal types are the same object."""

    __slots__ = ("__weakref__", "text")
    text: str
    is_passing = False

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def is_subtype_of(self, other: Type) -> bool:
        """Whether every value of this type is a value of the other."""
        if self is other or other is ANY:
            return True
        if isinstance(other, OptionalType):
            return self.is_subtype_of(other.inner)
        return any(map(self.is_subtype_of, other.members)) if isinstance(other, UnionType) else self._is_one_of(other)

    def _is_one_of(self, other: Type) -> bool:
        """Whether every value of this type is a value of another one that is neither Any, Optional nor a Union."""
        return False


class TensorType(Type):
    """dtype, device and dims of a tensor; None means unknown, dims None means unknown rank.
    Build with `tensor_type`."""

    __slots__ = ("device", "dims", "dtype", "has_shape", "is_complete", "is_passing", "is_symbolic")
    dtype: DType | None
    dims: Dims | None
    device: str
    has_shape: bool  # whether all dims are known (symbols count as known)
    is_complete: bool  # whether dtype and all dims are
    is_symbolic: bool  # whether a size hangs on symbols
    is_passing: bool  # whether on those of one run, so that nothing is remembered for it

    @property
    def ndim(self) -> int:
        assert self.dims is not None, f"the rank of {self} is not known"
        return len(self.dims)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The dims, all of them known."""
        assert self.has_shape, f"the dims of {self} are not all known"
        return self.dims  # type: ignore[return-value]

    @property
    def numel(self) -> Dim:
        return dm.product(self.shape)

    @property
    def row(self) -> TensorType:
        """The type of one of its rows along the first dim, as a loop takes them."""
        return tensor_type(self.dtype, self.shape[1:])

    def stacked(self, length: Dim) -> TensorType:
        """The type of so many of it, one behind the other along a new first dim, as a loop gives them."""
        return tensor_type(self.dtype, (length, *self.shape))

    def with_dims(self, dims: Dims) -> TensorType:
        return tensor_type(self.dtype, dims, self.device)

    def with_dtype(self, dtype: DType | None) -> TensorType:
        return self if dtype is self.dtype else tensor_type(dtype, self.dims, self.device)

    def _is_one_of(self, other: Type) -> bool:
        if not isinstance(other, TensorType):
            return False
        if other.dtype is not None and other.dtype is not self.dtype:
            return False
        if other.dims is None:
            return True
        if self.dims is None or len(self.dims) != len(other.dims):
            return False
        return all(b is None or a == b for a, b in zip(self.dims, other.dims, strict=True))


_Facts = tuple[DType | None, Dims | None, str]
_RECENT: Memo[_Facts, TensorType] = Memo(limits.TENSOR_TYPES)  # found at once
_recent = _RECENT.get
# every type that anything holds: there is one of each
_ALIVE: WeakValueDictionary[_Facts, TensorType] = WeakValueDictionary()


def tensor_type(dtype: DType | None, dims: Dims | None = None, device: str = "cpu") -> TensorType:
    """The interned TensorType of these facts."""
    key = (dtype, dims, device)
    recent = _recent(key)
    return recent if recent is not None else _made_or_alive(key)


def _made_or_alive(key: _Facts) -> TensorType:
    interned = _ALIVE.get(key)
    if interned is None:
        fresh = TensorType()
        fresh.dtype, fresh.dims, fresh.device = key
        fresh.has_shape = fresh.dims is not None and all([d is not None for d in fresh.dims])
        fresh.is_complete = fresh.has_shape and fresh.dtype is not None
        fresh.is_symbolic = fresh.dims is not None and any([type(d) is Expr for d in fresh.dims])
        symbols = [atom for d in fresh.dims or () if type(d) is Expr for atom in dm.symbol_atoms(d)]
        fresh.is_passing = any([atom.is_passing for atom in symbols])
        fresh.text = _tensor_text(*key)
        interned = _ALIVE.setdefault(key, fresh)  # another thread may have been faster
    if not interned.is_passing:
        _RECENT[key] = interned
    return interned


def _tensor_text(dtype: DType | None, dims: Dims | None, device: str) -> str:
    if dtype is None and dims is None:
        return "Tensor"
    head = dtype.short if dtype is not None else "Tensor"
    body = "[...]" if dims is None else "[" + ", ".join("*" if d is None else str(d) for d in dims) + "]"
    return head + body + ("" if device == "cpu" else f"@{device}")


class SimpleType(Type):
    """A type without parameters: int, float, bool, str, None, Device, DType, Layout, Number, Generator, Object, Any."""

    __slots__ = ()

    def is_subtype_of(self, other: Type) -> bool:
        return (self is NONE and isinstance(other, OptionalType)) or super().is_subtype_of(other)

    def _is_one_of(self, other: Type) -> bool:
        return other is NUMBER and self in (INT, FLOAT, BOOL, COMPLEX)


class OptionalType(Type):
    """None or a value of the inner type. Build with `optional`."""

    __slots__ = ("inner",)
    inner: Type

    def is_subtype_of(self, other: Type) -> bool:
        return (
            self is other or other is ANY or (isinstance(other, OptionalType) and self.inner.is_subtype_of(other.inner))
        )


class UnionType(Type):
    """A value of one of several types, none of them None. Build with `union_of`."""

    __slots__ = ("members",)
    members: tuple[Type, ...]

    def is_subtype_of(self, other: Type) -> bool:
        return self is other or other is ANY or all(m.is_subtype_of(other) for m in self.members)


class ListType(Type):
    """A list of elements of one type. Build with `list_of`.

    Lists can be written to, so a list of ints is no list of numbers: whoever takes it for one could put a float into
    it. What is known of the tensors in it may differ.
    """

    __slots__ = ("element",)
    element: Type

    def _is_one_of(self, other: Type) -> bool:
        return isinstance(other, ListType) and _holds_less(self.element, other.element)


class DictType(Type):
    """A dict from keys of one type to values of one type. Build with `dict_of`. It can be written to, as a list can."""

    __slots__ = ("key", "value")
    key: Type
    value: Type

    def _is_one_of(self, other: Type) -> bool:
        return isinstance(other, DictType) and self.key is other.key and _holds_less(self.value, other.value)


class ClassType(Type):
    """An object of a class, known by its qualified name (a scripted Module's `self`). Build with `class_of`."""

    __slots__ = ("name",)
    name: str

    def _is_one_of(self, other: Type) -> bool:
        return other is OBJECT


def _holds_less(inner: Type, outer: Type) -> bool:
    """Whether the one may stand for the other inside of a container that can be written to."""
    return (
        inner is outer
        or (isinstance(inner, TensorType) and isinstance(outer, TensorType) and inner.is_subtype_of(outer))
    )


class TupleType(Type):
    """A tuple of given element types. Build with `tuple_of`.
    A named one has a `name` and the `fields` of its elements."""

    __slots__ = ("elements", "fields", "name")
    elements: tuple[Type, ...]
    fields: tuple[str, ...]
    name: str

    def _is_one_of(self, other: Type) -> bool:
        return (
            isinstance(other, TupleType)
            and (not other.name or other.name == self.name)
            and len(self.elements) == len(other.elements)
            and all(a.is_subtype_of(b) for a, b in zip(self.elements, other.elements, strict=True))
        )


def _simple(text: str) -> SimpleType:
    simple_type = SimpleType()
    simple_type.text = text
    return simple_type


ANY, INT, FLOAT, BOOL, COMPLEX, STR, NONE = map(_simple, ("Any", "int", "float", "bool", "complex", "str", "None"))
DEVICE, DTYPE, LAYOUT, NUMBER, GENERATOR, OBJECT = map(
    _simple, ("Device", "DType", "Layout", "Number", "Generator", "Object")
)
SIMPLE: dict[str, SimpleType] = {
    t.text: t for t in (ANY, INT, FLOAT, BOOL, COMPLEX, STR, NONE, DEVICE, DTYPE, LAYOUT, NUMBER, GENERATOR, OBJECT)
}
TENSOR = tensor_type(None, None)
_COMPOUND: dict[tuple[object, ...], Type] = {}


def optional(inner: Type) -> Type:
    """Optional[inner]; of an Optional, itself."""
    if isinstance(inner, OptionalType) or inner in (NONE, ANY):
        return inner
    key = ("optional", inner)
    if key not in _COMPOUND:
        optional_type = OptionalType()
        optional_type.inner, optional_type.text = inner, f"{inner}?"
        _COMPOUND[key] = optional_type
    return _COMPOUND[key]


def members_of(kind: Type) -> tuple[Type, ...]:
    """The types that a value of this type may be of: those of a Union, None of an Optional too."""
    if isinstance(kind, OptionalType):
        return (*members_of(kind.inner), NONE)
    if kind is NUMBER:
        return (INT, FLOAT, COMPLEX)
    return kind.members if isinstance(kind, UnionType) else (kind,)


def union_of(*types: Type) -> Type:
    """A value of one of these types: the type itself where there is one, Optional where None is among them."""
    members: list[Type] = []
    for kind in [m for t in types for m in members_of(t)]:
        if not any(kind.is_subtype_of(f) for f in members):
            members = [*(f for f in members if not f.is_subtype_of(kind)), kind]
    plain = [f for f in members if f is not NONE]
    if not plain:
        return NONE
    inner = plain[0] if len(plain) == 1 else NUMBER if set(plain) <= {INT, FLOAT, COMPLEX} else _union(tuple(plain))
    return inner if len(plain) == len(members) else optional(inner)


def _union(members: tuple[Type, ...]) -> Type:
    members = tuple(sorted(members, key=str))
    key = ("union", members)
    if key not in _COMPOUND:
        union_type = UnionType()
        union_type.members, union_type.text = members, f"Union({', '.join(map(str, members))})"
        _COMPOUND[key] = union_type
    return _COMPOUND[key]


def list_of(element: Type) -> Type:
    """The type of lists of `element`."""
    key = ("list", element)
    if key not in _COMPOUND:
        list_type = ListType()
        list_type.element, list_type.text = (
            element, f"{element}[]" if isinstance(element, SimpleType) else f"List({element})"
        )
        _COMPOUND[key] = list_type
    return _COMPOUND[key]


def dict_of(key: Type, value: Type) -> Type:
    """The type of dicts from `key` to `value`."""
    memo_key = ("dict", key, value)
    if memo_key not in _COMPOUND:
        dict_type = DictType()
        dict_type.key, dict_type.value, dict_type.text = key, value, f"Dict({key}, {value})"
        _COMPOUND[memo_key] = dict_type
    return _COMPOUND[memo_key]


def class_of(name: str) -> Type:
    """The type of objects of the class with this qualified name (identifiers with dots between them)."""
    key = ("class", name)
    if key not in _COMPOUND:
        class_type = ClassType()
        class_type.name, class_type.text = name, f"Class({name})"
        _COMPOUND[key] = class_type
    return _COMPOUND[key]


def tuple_of(*elements: Type) -> Type:
    """The type of tuples with these elements."""
    return _tuple(elements, (), "")


def named_tuple_of(name: str, fields: Mapping[str, Type]) -> TupleType:
    """The type of named tuples `name(field: type, ...)`."""
    return _tuple(tuple(fields.values()), tuple(fields), name)


def _tuple(elements: tuple[Type, ...], fields: tuple[str, ...], name: str) -> TupleType:
    key = ("tuple", elements, fields, name)
    interned = _COMPOUND.get(key)
    if not isinstance(interned, TupleType):
        interned = TupleType()
        interned.elements, interned.fields, interned.name = elements, fields, name
        parts = [f"{f}: {t}" for f, t in zip(fields, elements, strict=True)] if name else map(str, elements)
        interned.text = f"{f'NamedTuple({name})' if name else ''}({', '.join(parts)})"
        _COMPOUND[key] = interned
    return interned


def unify(a: Type, b: Type) -> Type:
    """The join: the most that is known about a value that is of one type or the other."""
    if a is b or b.is_subtype_of(a):
        return a
    if a.is_subtype_of(b):
        return b
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _unify_tensors(a, b)
    if NONE in (a, b):
        return optional(b if a is NONE else a)
    if isinstance(a, UnionType) or isinstance(b, UnionType):
        return union_of(a, b)
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner_a = a.inner if isinstance(a, OptionalType) else a
        inner_b = b.inner if isinstance(b, OptionalType) else b
        return optional(unify(inner_a, inner_b))
    if isinstance(a, ListType) and isinstance(b, ListType):
        return list_of(unify(a.element, b.element)) if _are_tensors(a.element, b.element) else ANY
    if isinstance(a, DictType) and isinstance(b, DictType):
        return dict_of(a.key, unify(a.value, b.value)) if a.key is b.key and _are_tensors(a.value, b.value) else ANY
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.elements) == len(b.elements):
        return tuple_of(*(unify(x, y) for x, y in zip(a.elements, b.elements, strict=True)))
    numbers = (INT, FLOAT, BOOL, COMPLEX, NUMBER)
    return NUMBER if a in numbers and b in numbers else ANY


def _are_tensors(*types: Type) -> bool:
    return all(isinstance(t, TensorType) for t in types)


def _unify_tensors(a: TensorType, b: TensorType) -> TensorType:
    dtype = a.dtype if a.dtype is b.dtype else None
    device = a.device if a.device == b.device else "cpu"
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return tensor_type(dtype, None, device)
    return tensor_type(dtype, tuple(x if x == y else None for x, y in zip(a.dims, b.dims, strict=True)), device)
