"""A Layout as text and back: JSON with a tag on every record, so that a program can be kept on disk."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from weft.runtime import segments as seg
from weft.support.errors import ParseError
from weft.types import dtype as dt
from weft.types.dtype import DType

FORMAT = 1
_RECORDS: dict[str, type] = {
    c.__name__: c
    for c in (
        seg.TensorSlot, seg.NumberSlot, seg.ObjectSlot, seg.Bind, seg.ForeignSegment, seg.NativeSegment, seg.Result, seg.Commit, seg.Constant,
        seg.Check, seg.Layout,
    )
}  # fmt: skip


def encode(layout: seg.Layout) -> str:
    """The text of a layout. Raises TypeError for a result that is no number, string, dtype or tuple of them."""
    return json.dumps([FORMAT, _plain(layout)], separators=(",", ":"))


def decode(text: str) -> seg.Layout:
    """The layout of a text. Raises ParseError if it is none, or one of another format."""
    try:
        version, body = json.loads(text)
        layout = _rich(body) if version == FORMAT else None
    except (ValueError, KeyError, TypeError) as problem:
        raise ParseError(f"not a stored program: {problem}") from None
    if not isinstance(layout, seg.Layout):
        raise ParseError(f"not a stored program of format {FORMAT}")
    return layout


def _plain(value: Any) -> Any:
    """Lists for tuples; {"tag": fields} for everything that JSON has not."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is tuple:
        return [_plain(v) for v in value]
    if kind is float:
        return {"float": value.hex()}
    if kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if kind is DType:
        return {"dtype": value.name}
    if kind.__name__ in _RECORDS:
        return {kind.__name__: [_plain(getattr(value, f.name)) for f in dataclasses.fields(value)]}
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
    return _RECORDS[tag](*_rich(body))
