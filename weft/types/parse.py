"""Types and dims from text: the inverse of `str` of a Type or Dim."""

from __future__ import annotations

import re
from collections.abc import Callable

from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.scanner import Scanner
from weft.types.tensor_type import (
    SIMPLE,
    Type,
    class_of,
    dict_of,
    list_of,
    named_tuple_of,
    optional,
    tensor_type,
    tuple_of,
    union_of,
)

_SYMBOL = re.compile(r"[siu]\d+\Z")


def parse_type(text: str) -> Type:
    """`f32[s0, 128]`, `Tensor`, `f32[*, *]`, `i64[...]`, `int[]`, `List(f32[3])?`, `(int, float)`.
    Raises ParseError with line and column."""
    scanner = Scanner(text)
    parsed = read_type(scanner)
    scanner.expect_end()
    return parsed


def parse_dim(text: str) -> Dim:
    """`s0*s1 + 2`, `(s0 // 2)`, `max(s0, 4)`. Raises ParseError with line and column."""
    scanner = Scanner(text)
    parsed = read_dim(scanner)
    scanner.expect_end()
    return parsed


# ---- types
def read_type(scanner: Scanner) -> Type:
    """Read one type."""
    kind = _read_plain(scanner)
    while True:
        if scanner.take("?"):
            kind = optional(kind)
        elif scanner.sees("[") and scanner.after_next().text == "]":
            scanner.read(), scanner.read()
            kind = list_of(kind)
        else:
            return kind


def _read_plain(scanner: Scanner) -> Type:
    if scanner.take("("):
        elements = _read_types(scanner)
        return tuple_of(*elements)
    token = scanner.expect_kind("word", "a type")
    if token.text in _COMPOUND and scanner.take("("):
        return _COMPOUND[token.text](scanner)
    if token.text in SIMPLE:
        return SIMPLE[token.text]
    dtype = dt.by_short(token.text)
    if dtype is None and token.text != "Tensor":
        scanner.fail(
            (
                f"{token.text!r} is no type; types are f32[...] and the like, Tensor, {', '.join(SIMPLE)}, List(T), "
                "Dict(K, V), Union(T, T), Class(name), (T, T), T?"
            ),
            token,
        )
    dims = _read_tensor_dims(scanner) if dtype is not None or scanner.sees("[") else None
    device = scanner.read().text[1:] if scanner.next.kind == "graph" else "cpu"
    return tensor_type(dtype, dims, device)


def _read_list(scanner: Scanner) -> Type:
    element = read_type(scanner)
    scanner.expect(")")
    return list_of(element)


def _read_dict(scanner: Scanner) -> Type:
    key = read_type(scanner)
    scanner.expect(",")
    value = read_type(scanner)
    scanner.expect(")")
    return dict_of(key, value)


def _read_union(scanner: Scanner) -> Type:
    return union_of(*_read_types(scanner))


def _read_name(scanner: Scanner) -> str:
    parts = [scanner.expect_kind("word", "a name").text]
    while scanner.take("."):
        parts.append(scanner.expect_kind("word", "a name").text)
    scanner.expect(")")
    return ".".join(parts)


def _read_named_tuple(scanner: Scanner) -> Type:
    """`NamedTuple(Point)(x: Tensor, y: int)`."""
    name = _read_name(scanner)
    fields: dict[str, Type] = {}
    scanner.expect("(")
    while not scanner.take(")"):
        token = scanner.expect_kind("word", "the name of a field")
        if token.text in fields:
            scanner.fail(f"field {token.text!r} is there twice", token)
        scanner.expect(":")
        fields[token.text] = read_type(scanner)
        if not scanner.sees(")"):
            scanner.expect(",")
    return named_tuple_of(name, fields)


_COMPOUND: dict[str, Callable[[Scanner], Type]] = {
    "List": _read_list, "Dict": _read_dict, "NamedTuple": _read_named_tuple,
    "Union": _read_union,
    "Class": lambda scanner: class_of(_read_name(scanner)),
}


def _read_types(scanner: Scanner) -> list[Type]:
    types: list[Type] = []
    while not scanner.take(")"):
        types.append(read_type(scanner))
        if not scanner.sees(")"):
            scanner.expect(",")
    return types


def _read_tensor_dims(scanner: Scanner) -> tuple[Dim | None, ...] | None:
    scanner.expect("[")
    if scanner.take("..."):
        scanner.expect("]")
        return None
    dims: list[Dim | None] = []
    while not scanner.take("]"):
        dims.append(None if scanner.take("*") else read_dim(scanner))
        if not scanner.sees("]"):
            scanner.expect(",")
    return tuple(dims)


# ---- dims
def read_dim(scanner: Scanner) -> Dim:
    """Read a sum of terms."""
    total = _read_term(scanner)
    while True:
        if scanner.take("+"):
            total = total + _read_term(scanner)
        elif scanner.take("-"):
            total = total - _read_term(scanner)
        else:
            return total


def _read_term(scanner: Scanner) -> Dim:
    product = _read_factor(scanner)
    while True:
        if scanner.take("*"):
            product = product * _read_factor(scanner)
        elif scanner.take("//"):
            product = dm.floordiv(product, _read_divisor(scanner))
        elif scanner.take("%"):
            product = dm.mod(product, _read_divisor(scanner))
        else:
            return product


def _read_divisor(scanner: Scanner) -> Dim:
    token = scanner.next
    divisor = _read_factor(scanner)
    if isinstance(divisor, int) and divisor == 0:
        scanner.fail("a size divided by zero", token)
    return divisor


def _read_factor(scanner: Scanner) -> Dim:
    token = scanner.next
    if scanner.take("-"):
        return -_read_factor(scanner)
    if scanner.take("("):
        inner = read_dim(scanner)
        scanner.expect(")")
        return inner
    if token.kind == "int":
        return scanner.read_int()
    if token.kind == "word" and token.text in ("max", "min"):
        scanner.read()
        return _read_choice(scanner, token.text)
    if token.kind == "word" and is_symbol(token.text):
        return dm.symbol(scanner.read().text)
    scanner.fail(f"expected a size (an integer, a symbol such as s0, an expression of them), found {token.text!r}")


def _read_choice(scanner: Scanner, name: str) -> Dim:
    scanner.expect("(")
    a = read_dim(scanner)
    scanner.expect(",")
    b = read_dim(scanner)
    scanner.expect(")")
    return dm.maximum(a, b) if name == "max" else dm.minimum(a, b)


def is_symbol(word: str) -> bool:
    """Whether a word is a symbol of a size or number (`s0`, `i3`, `u1`), and not a dtype (`i8`)."""
    return _SYMBOL.match(word) is not None and dt.by_short(word) is None
