"""Graphs whose sizes are symbols that guards decide: native code of them, for every size that is admitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.evaluate import interpret
from weft.ir.parser import parse_graph
from weft.programs.executable import make_executable
from weft.support.errors import ShapeError


def _agree(text: str, *calls: dict[str, int], **symbols: int) -> None:
    """Native code and the interpreter give the same for the sizes, and for those of each further call."""
    graph = parse_graph(text)
    executable = make_executable(graph, "llvm")
    rng = np.random.default_rng(3)
    for sizes in (symbols, *calls):
        inputs: list[Any] = []
        for p in graph.params:
            shape = [d if isinstance(d, int) else sizes[str(d)] for d in p.tensor_type.shape]
            inputs.append(rng.integers(-4, 5, shape).astype(p.tensor_type.dtype.numpy))  # type: ignore[union-attr]
        wanted = interpret(graph, [x.copy() for x in inputs], sizes)
        for a, b in zip(executable.run(inputs, sizes), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_symbol_that_is_1_beside_a_constant_1() -> None:
    _agree(
        """graph @g(%x0: i32[s0, s1]) {
          example s0 = 3, s1 = 1
          guard s0*s1 == s1 + 2
          guard s0 == 3
          guard s1 == 1
          %1: i32[s0 - 1, s1] = aten::slice.Tensor(%x0, start=1)
          %3: i32[2, 1] = aten::view(%1, size=[2, 1])
          %5: i32[s0 - 1, s1] = aten::neg(%1)
          %6: i32[2, 1] = aten::copy(%3, %5)
          return %6
        }""", s0=3, s1=1,
    )


def test_a_symbol_that_is_1_in_a_broadcast_of_three() -> None:
    """It was read as many times as the other had elements: beyond its end."""
    _agree(
        """graph @g(%x: i64[s0, s1, s2], %y: i64[s3, s4, s5], %z: i64[s6, s7]) {
          example s0 = 0, s1 = 1, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 1, s7 = 0
          guard s1 == s6
          guard s2 == s7
          guard s0 == s3
          guard s1 == 1
          guard s2 == s5
          %0: i64[s0, s4, s2] = aten::addcmul(%x, %z, %y)
          return %0
        }""",
        dict(s0=3, s1=1, s2=5, s3=3, s4=4, s5=5, s6=1, s7=5),
        s0=2, s1=1, s2=2, s3=2, s4=2, s5=2, s6=1, s7=2,
    )


def test_a_quotient_that_is_1() -> None:
    """The shape of the last view was refused when kernels were made: nobody saw that i0 is 1."""
    _agree(
        """graph @g(%x: f32[s0, s1]) {
          example s0 = 1, s1 = 1, i0 = 1
          guard s0*s1 == 1
          guard (1 // i0)*i0 == 1
          guard (1 // i0) == 1
          %0: f32[1, 1] = aten::view(%x, size=[1, 1])
          %1: f32[1, (1 // i0), i0] = aten::view(%0, size=[1, -1, i0])
          %2: f32[1, (1 // i0), i0] = aten::neg(%1)
          %3: f32[(1 // i0), 1] = aten::view(%2, size=[(1 // i0), 1])
          %4: f32[s0, s1] = aten::view_scatter(%x, %3, size=[1, 1])
          return %1, %4
        }""", s0=1, s1=1, i0=1,
    )


def test_a_write_through_a_view_whose_sizes_cannot_be_asked_again() -> None:
    _agree(
        """graph @g(%x: f32[s0, s1], %y: f32[3, 2]) {
          example s0 = 2, s1 = 3, i0 = 3
          guard ((s0*s1) // i0)*i0 == s0*s1
          guard ((s0*s1) // i0)*i0 == 6
          guard i0 == 3
          guard ((s0*s1) // i0) == 2
          %0: f32[s0, s1] = aten::view_scatter(%x, %y, size=[i0, -1])
          return %0
        }""",
        dict(s0=6, s1=1, i0=3), dict(s0=1, s1=6, i0=3), s0=2, s1=3, i0=3,
    )


def test_nothing_is_read_of_an_empty_tensor() -> None:
    """What does not vary along an axis is read before its loop: there was nothing to read."""
    _agree(
        """graph @g(%x: f64[s0, s1]) {
          example s0 = 4, s1 = 0
          guard s1 == 0
          %0: f64[s0, s1] = aten::neg(%x)
          %1: f64[s1, 1] = aten::as_strided(%0, size=[s1, 1], stride=[0, 0], storage_offset=0)
          %2: f64[s1, 1] = aten::neg(%1)
          return %2
        }""", s0=4, s1=0,
    )


@pytest.mark.parametrize("index", [(4, 0), (0,)])
def test_an_index_without_elements_has_any_other_sizes(index: tuple[int, ...]) -> None:
    x, source = weft.arange(6.0).view(2, 3), weft.ones(2, 3)
    empty = weft.zeros(*index, dtype=weft.int64)
    step = weft.compile(lambda x, i, s: (x.scatter_add(0, i, s), x.scatter(-1, i, s), x.gather(1, i)))
    summed, written, picked = step(x, empty, source)
    assert summed.tolist() == written.tolist() == x.tolist() and picked.shape == index
    one = weft.tensor([[1]])
    assert step(x, one, source)[0].tolist() == [[0.0, 1.0, 2.0], [4.0, 4.0, 5.0]]


def test_padding_that_cuts_more_than_there_is_is_refused_for_every_size() -> None:
    pad = weft.nn.functional.pad
    step = weft.compile(lambda x, n: pad(x, (n, 3)))
    for size, n in ((3, -1), (3, -2), (1, -2), (2, -2), (0, -1)):
        if size + n < 0:
            with pytest.raises(RuntimeError, match="negative output size"):
                step(weft.ones(size), n)
        else:
            assert step(weft.ones(size), n).tolist() == [1.0] * (size + n) + [0.0] * 3


def test_no_element_of_an_empty_storage_is_shown() -> None:
    for x in (weft.zeros(2, 0), weft.zeros(0)):
        with pytest.raises(ShapeError, match="reach outside of a storage of 0 elements"):
            weft.as_strided(x, (1,), (2,))
        assert weft.as_strided(x, (0,), (2,)).shape == (0,)


def test_a_condition_of_numbers_is_refused_before_anything_is_known_of_it() -> None:
    for dtype in (weft.float32, weft.int64):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="where expected condition to be a boolean tensor"):
                weft.where(weft.ones(2, dtype=dtype), weft.ones(2), weft.zeros(2))
