"""Lists and dicts: making them, reading them, writing to them. They are Python's own, so that aliases see
each other's changes."""

from __future__ import annotations

import copy
from typing import Any

from weft.catalogue.language.elements import contains, count_of, in_order
from weft.catalogue.language.entries import ORDERED, language, type_of
from weft.types.parse import parse_type
from weft.types.tensor_type import (
    BOOL,
    INT,
    STR,
    TENSOR,
    DictType,
    ListType,
    TensorType,
    TupleType,
    Type,
    dict_of,
    list_of,
    unify,
)


# ---- making
def _joined(types: list[Type]) -> Type:
    joint = types[0]
    for kind in types[1:]:
        joint = unify(joint, kind)
    return joint


def _list_type(elements: Any, type: str) -> Type:
    if type:
        return parse_type(type)
    return list_of(_joined([type_of(e) for e in elements]) if elements else TENSOR)


def _dict_type(keys: Any, values: Any, type: str) -> Type:
    if type:
        return parse_type(type)
    return (
        dict_of(_joined([type_of(k) for k in keys]), _joined([type_of(v) for v in values])) if keys
        else dict_of(STR, TENSOR)
    )


language(
    "prim::ListConstruct", 'elements, type=""', "A new list. `type` is its type, where the elements alone do not tell.",
    lambda elements, type: list(elements), rule=_list_type, effect=ORDERED, observes="pure",
    native_of_list=lambda s, elements, type: s.new_list(elements),
)
language(
    "prim::DictConstruct", 'keys, values, type=""',
    "A new dict. `type` is its type, where the elements alone do not tell.",
    lambda keys, values, type: dict(zip(keys, values, strict=True)), rule=_dict_type, effect=ORDERED, observes="pure",
)


def _unpacked(items: Any, count: int) -> tuple[Any, ...]:
    if len(items) != count:
        raise ValueError(
            f"{'too many' if len(items) > count else 'not enough'} values to unpack (expected {count}, "
            f"got {len(items)})"
        )
    return tuple(items)


def _unpacked_types(items: Any, count: int) -> tuple[Type, ...] | None:
    kind = type_of(items)
    return (kind.element,) * count if isinstance(kind, ListType) else None


def _unpacked_around(items: Any, before: int, after: int) -> tuple[Any, ...]:
    if len(items) < before + after:
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    return (*items[:before], items[before:end], *items[end:])


def _types_around(items: Any, before: int, after: int) -> tuple[Type, ...] | None:
    kind = type_of(items)
    return (*(kind.element,) * before, kind, *(kind.element,) * after) if isinstance(kind, ListType) else None


# ---- reading
def _has_length(items: Any) -> Type | None:
    kind = type_of(items)
    return INT if kind is STR or isinstance(kind, (ListType, DictType, TupleType, TensorType)) else None


language(
    "prim::ListUnpack", "self, count", "The elements of a list that must have so many. Raises ValueError.", _unpacked,
    rule=_unpacked_types, effect=ORDERED, several=True, observes="raises",
)
language(
    "prim::ListUnpackAround", "self, before, behind",
    "The first elements of a list, a list of those in the middle, and the last ones. Raises ValueError.",
    _unpacked_around, rule=_types_around, effect=ORDERED, several=True, observes="raises",
)
language(
    "prim::len", "self", "How many elements there are; of a tensor, how many rows.", len, rule=_has_length,
    effect=ORDERED, observes="pure", native_of_list=lambda s, items: s.length(items),
)
language(
    "prim::getitem", "self, index", "An element. Raises IndexError or KeyError.", lambda self, index: self[index],
    "T[], int -> T", "Dict(K, V), K -> V", "str, int -> str", effect=ORDERED, observes="raises",
    native_of_list=lambda s, items, index: s.element(items, index),
)
language(
    "prim::slice", "self, start, stop, step", "A new list or text of some elements.", lambda self, a, b, c: self[a:b:c],
    "T[], int?, int?, int? -> T[]", "str, int?, int?, int? -> str", effect=ORDERED, observes="raises",
    native_of_list=lambda s, items, start, stop, step: s.part(items, start, stop, step),
)
language(
    "prim::contains", "self, item", "Whether there is such an element.", lambda self, item: item in self,
    "T[], T -> bool", "Dict(K, V), K -> bool", "str, str -> bool", "float[], int -> bool", "int[], float -> bool",
    rule=lambda items, item: BOOL if isinstance(type_of(items), TupleType) else None, effect=ORDERED, observes="pure",
    native_of_list=lambda s, items, item: s.has_element(items, item), of_elements=contains,
)
language(
    "prim::index", "self, item, start=None, stop=None", "Where an element is. Raises ValueError.",
    lambda self, item, start, stop: self.index(item, start or 0, len(self) if stop is None else stop),
    "T[], T, int?, int? -> int", "str, str, int?, int? -> int", effect=ORDERED, observes="raises",
    native_of_list=lambda s, items, item, start, stop: s.place_of(items, item, start, stop), compares=True,
)
language(
    "prim::count", "self, item, start=None, stop=None", "How often an element is there.",
    lambda self, item, *places: self.count(item, *places) if isinstance(self, str) else self.count(item),
    "T[], T, None, None -> int", "str, str, int?, int? -> int", effect=ORDERED, observes="pure",
    of_elements=lambda s, items, item, start, stop: count_of(s, items, item),
)
language(
    "prim::copy", "self", "A new list or dict of the same elements.", copy.copy, "T[] -> T[]",
    "Dict(K, V) -> Dict(K, V)", effect=ORDERED, observes="pure",
    native_of_list=lambda s, items: s.part(items, None, None, None),
)
language(
    "prim::sorted", "self, reverse=False", "A new list, in order.", lambda self, reverse: sorted(self, reverse=reverse),
    "int[], bool -> int[]", "float[], bool -> float[]", "str[], bool -> str[]", "bool[], bool -> bool[]",
    "List((T, K)), bool -> List((T, K))", "List(Tensor), bool -> List(Tensor)", effect=ORDERED, observes="raises",
    of_elements=in_order,
)
language(
    "prim::reversed", "self", "A new list, the last element first.", lambda self: list(self)[::-1], "T[] -> T[]",
    effect=ORDERED, observes="pure",
)
language(
    "prim::keys", "self", "The keys, in the order in which they came.", lambda self: list(self), "Dict(K, V) -> K[]",
    effect=ORDERED, observes="pure",
)
language(
    "prim::values", "self", "The values, in the order of their keys.", lambda self: list(self.values()),
    "Dict(K, V) -> V[]", effect=ORDERED, observes="pure",
)
language(
    "prim::items", "self", "Keys with values.", lambda self: list(self.items()), "Dict(K, V) -> List((K, V))",
    effect=ORDERED, observes="pure",
)
language(
    "prim::get", "self, key", "The value of a key, or None.", lambda self, key: self.get(key), "Dict(K, V), K -> V?",
    effect=ORDERED, observes="pure",
)
language(
    "prim::get_or", "self, key, default", "The value of a key, or a default.",
    lambda self, key, default: self.get(key, default), "Dict(K, V), K, V -> V", "Dict(K, V), K, None -> V?",
    effect=ORDERED, observes="pure",
)


# ---- writing
def _delete(self: Any, at: Any) -> None:
    del self[at]


def _set_slice(self: Any, start: Any, stop: Any, step: Any, items: Any) -> None:
    self[start:stop:step] = items


def _delete_slice(self: Any, start: Any, stop: Any, step: Any) -> None:
    del self[start:stop:step]


def _set(self: Any, at: Any, item: Any) -> None:
    self[at] = item


language(
    "prim::setitem", "self, at, item", "Put an element in place. Raises IndexError.", _set, "T[], int, T -> None",
    "Dict(K, V), K, V -> None", effect=ORDERED,
    native_of_list=lambda s, items, at, item: s.set_element(items, at, item),
)
language(
    "prim::set_slice", "self, start, stop, step, items", "Put elements in place of others. Raises ValueError.",
    _set_slice, "T[], int?, int?, int?, T[] -> None", effect=ORDERED,
)
language(
    "prim::delitem", "self, at", "Take an element away. Raises IndexError or KeyError.", _delete, "T[], int -> None",
    "Dict(K, V), K -> None", effect=ORDERED,
)
language(
    "prim::delete_slice", "self, start, stop, step", "Take elements away.", _delete_slice,
    "T[], int?, int?, int? -> None", effect=ORDERED,
)
language(
    "prim::append", "self, item", "Put an element at the end.", lambda self, item: self.append(item), "T[], T -> None",
    effect=ORDERED, native_of_list=lambda s, items, item: s.append(items, item),
)
language(
    "prim::extend", "self, items", "Put elements at the end.", lambda self, items: self.extend(items),
    "T[], T[] -> None", effect=ORDERED, native_of_list=lambda s, items, others: s.extend(items, others),
)
language(
    "prim::insert", "self, at, item", "Put an element before another.", lambda self, at, item: self.insert(at, item),
    "T[], int, T -> None", effect=ORDERED,
)
language(
    "prim::remove", "self, item", "Take the first such element away. Raises ValueError.",
    lambda self, item: self.remove(item), "T[], T -> None", effect=ORDERED, compares=True,
)
language("prim::reverse", "self", "Turn the order round.", lambda self: self.reverse(), "T[] -> None", effect=ORDERED)
language(
    "prim::sort", "self, reverse=False", "Put the elements in order.", lambda self, reverse: self.sort(reverse=reverse),
    "int[], bool -> None", "float[], bool -> None", "str[], bool -> None", "bool[], bool -> None",
    "List((T, K)), bool -> None", "List(Tensor), bool -> None", effect=ORDERED, compares=True,
)
language(
    "prim::clear", "self", "Take every element away.", lambda self: self.clear(), "T[] -> None", "Dict(K, V) -> None",
    effect=ORDERED, native_of_list=lambda s, items: s.clear(items),
)
language(
    "prim::update", "self, other", "Put another dict's items in.", lambda self, other: self.update(other),
    "Dict(K, V), Dict(K, V) -> None", effect=ORDERED,
)
language("prim::setdefault", "self, key, default", "The value of a key, which is put there if it is new.",
         lambda self, key, default: self.setdefault(key, default), "Dict(K, V), K, V -> V", effect=ORDERED)
language(
    "prim::popitem", "self", "Take the last item away and give it back. Raises KeyError.", lambda self: self.popitem(),
    "Dict(K, V) -> (K, V)", effect=ORDERED,
)


def _pop(self: Any, at: Any) -> Any:
    return self.pop() if at is None else self.pop(at)


language(
    "prim::pop", "self, at=None",
    "Take an element away (of a list, the last) and give it back. Raises IndexError or KeyError.", _pop,
    "T[], int? -> T", "Dict(K, V), K -> V", effect=ORDERED, native_of_list=lambda s, items, at: s.take_last(items, at),
)
language(
    "prim::pop_or", "self, key, default", "Take a key away and give its value back, or the default.",
    lambda self, key, default: self.pop(key, default), "Dict(K, V), K, V -> V", effect=ORDERED,
)
