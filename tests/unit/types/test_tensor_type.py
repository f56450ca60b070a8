"""Types: interning, the order by knowledge and its join, text both ways; promotion is a join of dtypes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from weft.support.errors import ParseError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import promotion
from weft.types.parse import parse_type
from weft.types.tensor_type import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    DTYPE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    class_of,
    dict_of,
    list_of,
    named_tuple_of,
    optional,
    tensor_type,
    tuple_of,
    unify,
)

S0, S1 = dm.symbol("s0"), dm.symbol("s1")
TENSORS = [
    TENSOR, tensor_type(dt.float32), tensor_type(dt.float32, (None, None)), tensor_type(dt.float32, (S0, 128)),
    tensor_type(dt.float32, (3, 4)), tensor_type(dt.float32, (S0 * S1 + 2, None)), tensor_type(dt.int64, ()),
    tensor_type(None, (3,)), tensor_type(None, ()), tensor_type(dt.bfloat16, (dm.maximum(S0, 4), dm.floordiv(S1, 2))),
    tensor_type(dt.bool_, (2,), "meta"),
]
OTHERS = [ANY, INT, FLOAT, BOOL, COMPLEX, STR, NONE, NUMBER, DEVICE, DTYPE]
COMPOUND = [
    list_of(INT), list_of(TENSORS[4]), list_of(optional(INT)), optional(list_of(FLOAT)), optional(TENSORS[3]),
    tuple_of(), tuple_of(INT, TENSORS[2]), tuple_of(optional(STR)), list_of(tuple_of(INT, INT)), dict_of(STR, INT),
    dict_of(STR, TENSORS[3]), dict_of(STR, TENSORS[4]), optional(dict_of(INT, STR)),
    class_of("model.Net"), optional(class_of("Other")), named_tuple_of("Point", {"x": INT, "y": TENSORS[2]}),
    named_tuple_of("Point", {"x": INT, "y": TENSORS[3]}),
    named_tuple_of("Pair", {"x": INT, "y": TENSORS[2]}),
]
TYPES = [*TENSORS, *OTHERS, *COMPOUND]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_text_comes_back_to_the_same_object(kind):
    assert parse_type(str(kind)) is kind


def test_texts_differ():
    assert len({str(t) for t in TYPES}) == len(TYPES)


def test_types_are_interned():
    assert tensor_type(dt.float32, (S0 + S1, 2)) is tensor_type(dt.float32, (S1 + S0, 2))
    assert optional(optional(INT)) is optional(INT) and optional(NONE) is NONE


def test_subtyping_is_an_order():
    for a, b, c in itertools.product(TYPES, repeat=3):
        assert a.is_subtype_of(a)
        if a.is_subtype_of(b) and b.is_subtype_of(a):
            assert a is b, (a, b)
        if a.is_subtype_of(b) and b.is_subtype_of(c):
            assert a.is_subtype_of(c), (a, b, c)


def test_unify_does_not_depend_on_grouping():
    for a, b, c in itertools.product(TYPES, repeat=3):
        assert unify(a, unify(b, c)) is unify(unify(a, b), c), (a, b, c)


def test_what_can_be_written_to_takes_no_other_element():
    assert not list_of(INT).is_subtype_of(list_of(NUMBER)) and unify(list_of(INT), list_of(FLOAT)) is ANY
    assert (
        not dict_of(STR, INT).is_subtype_of(dict_of(STR, optional(INT)))
        and unify(dict_of(STR, INT), dict_of(INT, INT)) is ANY
    )
    assert list_of(TENSORS[3]).is_subtype_of(list_of(TENSOR))


def test_a_named_tuple_is_a_tuple_but_no_other_named_tuple():
    point, pair = (named_tuple_of(name, {"x": INT, "y": FLOAT}) for name in ("Point", "Pair"))
    assert point.is_subtype_of(tuple_of(INT, FLOAT)) and not tuple_of(INT, FLOAT).is_subtype_of(point)
    assert not point.is_subtype_of(pair) and unify(point, pair) is tuple_of(INT, FLOAT)


def test_unify_is_an_upper_bound_that_does_not_depend_on_the_order():
    for a, b in itertools.product(TYPES, repeat=2):
        joined = unify(a, b)
        assert a.is_subtype_of(joined) and b.is_subtype_of(joined), (a, b, joined)
        assert unify(b, a) is joined, (a, b)
        assert unify(a, a) is a


def test_what_a_join_keeps():
    assert str(unify(TENSORS[3], TENSORS[4])) == "f32[*, *]"
    assert str(unify(tensor_type(dt.float32, (3, 4)), tensor_type(dt.float32, (3, 5)))) == "f32[3, *]"
    assert unify(INT, FLOAT) is NUMBER and unify(INT, NONE) is optional(INT) and unify(INT, STR) is ANY


@pytest.mark.parametrize(
    "text", ["f33[2]", "f32[", "f32[2", "f32[2,,3]", "List(int", "(int, ", "f32[2] int", "", "f32[-]"]
)
def test_text_that_is_no_type(text):
    with pytest.raises(ParseError, match="line 1, column"):
        parse_type(text)


# ---- promotion
def test_promotion_is_a_join():
    for a, b in itertools.product(dt.ALL, repeat=2):
        joined = promotion.promote(a, b)
        assert promotion.promote(b, a) is joined and promotion.promote(a, a) is a
        assert joined.category == max(a.category, b.category)
        assert promotion.promote(joined, a) is joined and promotion.promote(joined, b) is joined, (a, b, joined)


def test_promotion_agrees_with_numpy_within_a_category():
    kinds = {
        dt.INT: [d for d in dt.ALL if d.category == dt.INT], dt.FLOAT: [dt.float16, dt.float32, dt.float64],
        dt.COMPLEX: [dt.complex64, dt.complex128],
    }
    for group in kinds.values():
        for a, b in itertools.product(group, repeat=2):
            assert promotion.promote(a, b).numpy == np.promote_types(a.numpy, b.numpy)
    assert promotion.promote(dt.float16, dt.bfloat16) is dt.float32
    assert (
        promotion.promote(dt.int64, dt.float16) is dt.float16
        and promotion.promote(dt.float64, dt.complex64) is dt.complex128
    )


def test_numbers_and_scalars_do_not_widen_within_a_category():
    assert promotion.result_type((dt.float32,), (dt.float64,), ()) is dt.float32
    assert promotion.result_type((dt.int8,), (dt.int64,), (dt.int64,)) is dt.int8
    assert promotion.result_type((dt.int8,), (dt.float64,), ()) is dt.float64
    assert promotion.result_type((), (dt.int8,), (dt.float32,)) is dt.float32
