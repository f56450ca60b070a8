"""Types from Python's annotations."""

from __future__ import annotations

import collections
import enum
import sys
import types
import typing
import weakref
from typing import Any, Dict, Final, List, Optional, Tuple, Union, get_args, get_origin  # noqa: F401, UP035  (PyTorch's)

from weft.catalogue.language.tuples import NAMED
from weft.jit.interpreter.futures import Future
from weft.support.naming import is_own
from weft.tensor import legacy
from weft.tensor.device import Device
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.dtype import DType
from weft.types.tensor_type import Type, class_of, dict_of, list_of, named_tuple_of, tuple_of, union_of

_PLAIN: dict[Any, Type] = {
    int: tt.INT,
    float: tt.FLOAT,
    bool: tt.BOOL,
    complex: tt.COMPLEX,
    str: tt.STR,
    None: tt.NONE,
    type(None): tt.NONE,
    DType: tt.DTYPE,
    Size: list_of(tt.INT),
    Device: tt.DEVICE,
    Any: tt.ANY,
    object: tt.ANY,
    **dict.fromkeys(legacy.TYPES.values(), tt.TENSOR),  # FloatTensor: PyTorch does not ask either
}
class Repeated:
    """In a parameter's annotation: one value stands for a list of so many of it."""

    def __init__(self, count: int) -> None:
        self.count = count


class _BroadcastingList:
    """`BroadcastingList2[int]`: a list of ints, for which one int stands too."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, element: Any) -> Any:
        return typing.Annotated[list[element], Repeated(self.count)]


BroadcastingList1, BroadcastingList2, BroadcastingList3, BroadcastingList4, BroadcastingList5, BroadcastingList6 = (
    _BroadcastingList(i) for i in range(1, 7)
)
NAMES = {
    **{f"BroadcastingList{i}": _BroadcastingList(i) for i in range(1, 7)},
    "List": list,
    "Dict": dict,
    "Tuple": tuple,
    "Optional": typing.Optional,
    "Union": typing.Union,
    "Any": Any,
    "Final": Final,
    "Tensor": Tensor,
    "NoneType": type(None),
    "Future": Future,
    "Device": Device,
    "number": tt.NUMBER,
}
_OPEN = {list: "List[int]", dict: "Dict[str, Tensor]", tuple: "Tuple[int, Tensor]"}  # with an example of what is meant


class UnknownType(Exception):
    """An annotation that names no type of the language."""


def type_of_annotation(annotation: Any) -> Type:
    """The type that an annotation means. Raises UnknownType with the reason."""
    plain = annotation if isinstance(annotation, Type) else _plain(annotation)
    if plain is not None:
        return plain
    if isinstance(annotation, type) and issubclass(annotation, Tensor):
        return tt.TENSOR
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return enumeration_type(annotation)
    if is_named_tuple(annotation):
        return type_of_named_tuple(annotation)
    if is_plain_class(annotation) or (isinstance(annotation, type) and annotation in INTERFACES):
        return class_type(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    _refuse_open(annotation, origin, arguments)
    if origin is not None:
        return _compound(annotation, origin, arguments)
    raise UnknownType(
        f"{getattr(annotation, '__name__', annotation)!r} is no type of a scripted program; there are Tensor, int, "
        f"float, bool, complex, str, "
        "None, Any, dtypes, devices, List, Dict, Tuple, Optional and named tuples"
    )


def _refuse_open(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> None:
    """Raises UnknownType for `List` and the like, which do not say what they hold."""
    kind = annotation if origin is None else origin
    if annotation is typing.Optional:
        name, example = "Optional", "Optional[int]"
    elif annotation is typing.Tuple or (  # noqa: UP006  (not `tuple`)
        isinstance(kind, type) and kind in _OPEN and origin is not tuple and not arguments
    ):
        example = _OPEN[kind]
        name = example.partition("[")[0]
    else:
        return
    raise UnknownType(
        f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {example}"
    )


def _plain(annotation: Any) -> Type | None:
    try:
        return _PLAIN.get(annotation)
    except TypeError:  # not hashable
        return None


def _compound(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Type:
    if origin in (Final, typing.Annotated) and arguments:
        return type_of_annotation(arguments[0])
    if origin is list:
        return list_of(type_of_annotation(arguments[0]))
    if origin in (dict, collections.OrderedDict):
        key, value = map(type_of_annotation, arguments)
        if key not in (tt.STR, tt.INT, tt.FLOAT, tt.BOOL, tt.COMPLEX, tt.TENSOR):
            raise UnknownType(f"a dict's keys are texts or numbers, not {key}")
        return dict_of(key, value)
    if origin is tuple:
        if Ellipsis in arguments:
            raise UnknownType(
                "a tuple has a fixed number of elements: Tuple[int, int]; a list has any number: List[int]"
            )
        return tuple_of(*(type_of_annotation(a) for a in arguments if a != ()))
    if origin is Future:
        return named_tuple_of("Future", {"value": type_of_annotation(arguments[0])})
    if origin in (typing.Union, types.UnionType):
        return union_of(*map(type_of_annotation, arguments))
    raise UnknownType(f"{annotation} is no type of a scripted program")


def repeats_of(annotation: Any) -> int:
    """How many times one value stands in the list that a parameter takes; 0 where it takes lists only."""
    notes = getattr(annotation, "__metadata__", ())
    return next((n.count for n in notes if isinstance(n, Repeated)), 0)


def written(kind: Type) -> str:
    """A type as people write it: `List[int]`, `Optional[Tensor]`."""
    if isinstance(kind, tt.OptionalType):
        return f"Optional[{written(kind.inner)}]"
    if isinstance(kind, tt.ListType):
        return f"List[{written(kind.element)}]"
    if isinstance(kind, tt.DictType):
        return f"Dict[{written(kind.key)}, {written(kind.value)}]"
    if isinstance(kind, tt.TupleType):
        return kind.name or f"Tuple[{', '.join(map(written, kind.elements))}]"
    if isinstance(kind, tt.UnionType):
        return f"Union[{', '.join(map(written, kind.members))}]"
    return kind.name if isinstance(kind, tt.ClassType) else "number" if kind is tt.NUMBER else str(kind)


ENUMERATIONS: dict[str, type[enum.Enum]] = {}  # by the names of their types
INTERFACES: weakref.WeakSet[type] = weakref.WeakSet()
CLASSES: dict[str, type] = {}  # those of the user's, and of files, by the names of their types


def enumeration_type(cls: type[enum.Enum]) -> Type:
    """The type of the members of an enumeration."""
    return class_of(_unique_name(ENUMERATIONS, f"Enum_{_identifier(f'{cls.__module__}.{cls.__qualname__}')}", cls))


def class_type(cls: type) -> Type:
    """The type of the objects of a class; one that was read from a file knows its own."""
    stored = vars(cls).get("__weft_type__")
    if stored is not None:
        return class_of(stored)
    path = f"{cls.__module__}.{cls.__qualname__}".replace(".<locals>", "")
    return class_of(_unique_name(CLASSES, ".".join(map(_identifier, path.split("."))), cls))


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in text)


def _unique_name(table: dict[str, Any], stem: str, cls: type) -> str:
    name, count = stem, 1
    while table.setdefault(name, cls) is not cls:  # another class of this name
        name, count = f"{stem}_{count}", count + 1
    return name


_HEAP_TYPE = 1 << 9  # of a class that was defined in Python (CPython's Py_TPFLAGS_HEAPTYPE)


def is_plain_class(value: Any) -> bool:
    """Whether a class is one of the user's whose objects programs can make: no Module, exception, or kind of list."""
    return isinstance(value, type) and value is not object and not any(map(_is_foreign, value.__mro__[:-1]))


def _is_foreign(cls: type) -> bool:
    root = cls.__module__.partition(".")[0]
    return is_own(root) or root in sys.stdlib_module_names or not cls.__flags__ & _HEAP_TYPE


def is_named_tuple(value: Any) -> bool:
    """Whether a class is a named tuple."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


_BEGUN: list[Any] = []  # named tuples whose fields are being looked at


def type_of_named_tuple(cls: Any) -> Type:
    """The type of a class of named tuples; a field without annotation is a tensor."""
    if cls in _BEGUN:
        raise UnknownType(
            f"{cls.__name__!r} is a named tuple with a field of its own type, which has no end; make it a class"
        )
    hints = typing.get_type_hints(cls)
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in cls.__name__)
    _BEGUN.append(cls)
    try:
        kind = named_tuple_of(name, {field: type_of_annotation(hints.get(field, Tensor)) for field in cls._fields})
    finally:
        _BEGUN.pop()
    NAMED[kind] = cls
    return kind
