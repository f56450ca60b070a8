"""A Layout as text and back: JSON with a tag on every record, so that a program can be kept on disk."""

from __future__ import annotations

import json
import typing
from typing import Any

from weft.runtime import segments as seg
from weft.support.errors import ParseError, WeftError
from weft.types import dtype as dt
from weft.types.dtype import DType

FORMAT = 4
_RECORDS: dict[str, type] = {
    c.__name__: c
    for c in (
        seg.TensorSlot, seg.NumberSlot, seg.ObjectSlot, seg.Bind, seg.Count, seg.HostSegment, seg.NativeSegment,
        seg.Result, seg.Commit, seg.Constant, seg.Check, seg.Layout,
    )
}

_HOLDERS = (seg.Layout, seg.Count, seg.HostSegment, seg.NativeSegment, seg.Result)  # whose fields hold slots
_TYPES: dict[type, dict[str, Any]] = {}
_OF_JSON = frozenset((type(None), bool, int, str))


def encode(layout: seg.Layout) -> str:
    """The text of a layout. Raises TypeError for a result that is no number, string, dtype or tuple of them."""
    return json.dumps([FORMAT, _plain(layout)], separators=(",", ":"))


def decode(text: str) -> seg.Layout:
    """The layout of a text. Raises ParseError if it is none, or one of another format."""
    try:
        version, body = json.loads(text)
        layout = _rich(body) if version == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, WeftError) as problem:
        raise ParseError(f"not a stored program: {problem}") from None
    if not isinstance(layout, seg.Layout):
        raise ParseError(f"not a stored program of format {FORMAT}")
    _check_places(layout, layout)
    return layout


def _check_places(value: Any, layout: seg.Layout) -> None:
    """Every root and word that a slot names lies within the frame. Raises ParseError."""
    kind = type(value)
    if kind is tuple:
        for item in value:
            _check_places(item, layout)
    elif kind is seg.TensorSlot:
        first, last = (
            min(value.dims, value.strides, value.offset),
            max(max(value.dims, value.strides) + value.ndim, value.offset + 1)
        )
        _check_place(
            value, 0 <= value.root < layout.roots and value.ndim >= 0 and first >= seg.LEFT_ON and last <= layout.words
        )
    elif kind is seg.NumberSlot or kind is seg.Bind:
        _check_place(value, 0 <= value.word < layout.words)
    elif kind in _HOLDERS:
        if kind is seg.Count:
            _check_place(value, layout.symbol_word <= value.word < layout.symbol_word + len(layout.symbols))
        for name in _field_types(kind):
            _check_places(getattr(value, name), layout)


def _check_place(slot: Any, is_inside: bool) -> None:
    if not is_inside:
        raise ParseError(f"not a stored program: {slot} lies outside of its frame")


def _plain(value: Any) -> Any:
    """Lists for tuples; {"tag": fields} for everything that JSON has not."""
    kind = type(value)
    if kind in _OF_JSON:
        return value
    if kind is tuple:
        return [v if type(v) in _OF_JSON else _plain(v) for v in value]
    if kind is float:
        return {"float": value.hex()}
    if kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if kind is DType:
        return {"dtype": value.name}
    if kind.__name__ in _RECORDS:
        return {kind.__name__: [_plain(getattr(value, name)) for name in _field_types(kind)]}
    raise TypeError(f"{value!r} cannot be stored with a program")


def _rich(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_rich(v) for v in value])
    if not isinstance(value, dict):
        return value
    ((tag, body),) = value.items()
    if tag == "float":
        return float.fromhex(body)
    if tag == "complex":
        return complex(*map(float.fromhex, body))
    if tag == "dtype":
        return dt.by_name(body)
    return _record(_RECORDS[tag], _rich(body))


def _record(kind: type, content: tuple[Any, ...]) -> Any:
    """A record whose fields have the types that its class gives them."""
    record = kind(*content)
    for name, wanted in _field_types(kind).items():
        value = getattr(record, name)
        if type(value) is not wanted and not _is_a(value, wanted):
            raise ParseError(f"{kind.__name__}.{name} is {value!r}")
    return record


def _field_types(kind: type) -> dict[str, Any]:
    if kind not in _TYPES:
        _TYPES[kind] = typing.get_type_hints(kind)
    return _TYPES[kind]


def _is_a(value: Any, wanted: Any) -> bool:
    if wanted is Any:
        return True
    origin = typing.get_origin(wanted)
    if origin is None:
        return type(value) is wanted
    parts = typing.get_args(wanted)
    if origin is not tuple:
        return any(_is_a(value, part) for part in parts)
    if type(value) is not tuple:
        return False
    if parts[-1] is Ellipsis:
        return all(_is_a(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(_is_a, value, parts))
