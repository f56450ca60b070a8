"""Numbers that take more than one random word: an element's own stream, which follows from the 64 random bits of its
counter. A draw takes one counter an element, however often it has to try, so that its count is known to the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.ops.batching import same
from weft.ops.op import define
from weft.support.errors import NotForDType
from weft.types.tensor_type import TensorType, tensor_type

Array = np.ndarray[Any, Any]
_STEP, _FIRST, _SECOND = (np.uint64(v) for v in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def uniform_of(words: Array, number: int) -> Array:
    """Number `number` of the stream of each word (splitmix64), in (0, 1)."""
    with np.errstate(over="ignore"):
        state = words + _STEP * np.uint64(number + 1)
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
    state ^= state >> np.uint64(31)
    uniform: Array = ((state >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return uniform


def first_accepted(words: Array, propose: Callable[..., tuple[Array, Array]], uniforms: int, first: int = 0) -> Array:
    """The first proposals that are taken: `propose(at, u, v, ...)` gives numbers for the elements `at` of so many
    uniform ones, and which to take. first: the number of the stream with which it begins."""
    out, at, number = np.zeros(len(words)), np.arange(len(words)), first
    while len(at):
        proposed, taken = propose(at, *(uniform_of(words[at], number + i) for i in range(uniforms)))
        out[at[taken]] = proposed[taken]
        at, number = at[~taken], number + uniforms
    return out


def of_elements(numbers: Callable[..., Array], words: Array, *parameters: Array) -> Array:
    """`numbers` of flat arrays: the words as uint64, the parameters as float64; shaped and rounded as they are."""
    flat = [np.asarray(p, np.float64).reshape(-1) for p in parameters]
    values = numbers(np.ascontiguousarray(words).reshape(-1).view(np.uint64), *flat)
    rounded: Array = values.reshape(words.shape).astype(parameters[0].dtype)
    return rounded


def check_floating(first: TensorType, *rest: TensorType) -> None:
    """Raises NotForDType for parameters of another kind."""
    for kind in (first, *rest):
        if kind.dtype is not None and not kind.dtype.is_floating_point:
            raise NotForDType(f"a distribution's parameters are floating point numbers, not {kind.dtype}")


def _type(words: TensorType, first: TensorType, *rest: TensorType) -> TensorType:
    check_floating(first, *rest)
    return tensor_type(first.dtype, words.dims, first.device)


def numbers_of_words(name: str, parameters: str, doc: str, kernel: Callable[..., Array], **fields: Any) -> None:
    """The pure entry of a draw: a number for each word of 64 random bits and its parameters, all of one size."""
    define(
        f"aten::{name}(Tensor words, {parameters}) -> Tensor", doc,
        type=_type,
        kernel=kernel,
        batch=same,
        public=(),
        **fields,
    )
