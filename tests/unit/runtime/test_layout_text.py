"""Layouts survive the way to text and back; anything else is refused."""

from __future__ import annotations

import dataclasses
import math

import pytest

from weft.runtime import segments as seg
from weft.runtime.layout_text import decode, encode
from weft.support.errors import ParseError
from weft.types import dtype as dt


def _layout(*values):
    tensor = seg.TensorSlot(0, "bfloat16", 20, 2, 22, 24)
    segments = (
        seg.HostSegment(
            3, (tensor, seg.ObjectSlot(1)), (seg.NumberSlot(9, "int"),), (seg.Bind(1, 2, 3),), True, (4,)
        ),
        seg.NativeSegment("entry", "plan", (tensor,)),
        seg.NativeSegment("", "late"),
    )
    results = (seg.Result("fresh", tensor), *(seg.Result("value", None, v) for v in values))
    return seg.Layout(
        (tensor, seg.NumberSlot(30, "float")), results, segments, 5, 99, ((1, -(2**63)), (2, 2**63 - 1)), ("s0", "u0"),
        1, 13, "plan", (0,),
        (seg.Commit(1, 0),), (seg.Constant(2, "float32", (2,), "00ff00ff00ff00ff"),), (seg.Check("aten::gather", 7),),
        12, True, 3, ("a", "b"))


def test_round_trip():
    layout = _layout(1, 2.5, -0.0, math.inf, True, None, "text", dt.float16, 1 - 2j, (1, (2.0, None)))
    assert decode(encode(layout)) == layout
    assert layout.entries == ("plan", "late", "entry")
    nan, zero = decode(encode(_layout(math.nan, -0.0))).results[1:]
    assert math.isnan(nan.value) and math.copysign(1, zero.value) == -1


def test_objects_are_refused():
    with pytest.raises(TypeError, match="cannot be stored"):
        encode(_layout(object()))


@pytest.mark.parametrize("text", [
    "", "[]", "[1,2]", '[1,{"Check":["a",1]}]', '[99,{"Layout":[]}]', '[1,{"Nothing":[]}]', "[1,{}]",
    "[1," + "[" * 99_999,
])
def test_other_text_is_refused(text):
    with pytest.raises(ParseError, match="stored program"):
        decode(text)


@pytest.mark.parametrize("change", [
    {"roots": "5"}, {"words": 30}, {"roots": 0}, {"params": (seg.ObjectSlot(0), 7)},
    {"segments": (seg.NativeSegment(3),)}, {"parallel": 1},
    {"params": (seg.TensorSlot(0, "float32", -2),)}, {"params": (seg.TensorSlot(0, "float32", 98, 2),)},
    {"params": (seg.TensorSlot(-1, "float32"),)},
])
def test_records_of_other_types_and_places_are_refused(change):
    with pytest.raises(ParseError, match="stored program"):
        decode(encode(dataclasses.replace(_layout(1), **change)))
