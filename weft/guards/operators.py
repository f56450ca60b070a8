"""Which special methods stand behind an instruction; CPython 3.10 to 3.14."""

from __future__ import annotations

import dis
from typing import Final

_SIGNS: Final = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}
_WORDS: Final = {  # as CPython 3.10 spells them
    "ADD": "add", "SUBTRACT": "sub", "MULTIPLY": "mul", "TRUE_DIVIDE": "truediv", "FLOOR_DIVIDE": "floordiv",
    "MODULO": "mod", "POWER": "pow", "MATRIX_MULTIPLY": "matmul", "AND": "and", "OR": "or", "XOR": "xor",
    "LSHIFT": "lshift", "RSHIFT": "rshift",
}
_COMPARED: Final = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_SINGLE: Final = {
    "BINARY_SUBSCR": "__getitem__", "BINARY_SLICE": "__getitem__", "STORE_SUBSCR": "__setitem__",
    "STORE_SLICE": "__setitem__", "DELETE_SUBSCR": "__delitem__", "UNARY_NEGATIVE": "__neg__",
    "UNARY_INVERT": "__invert__", "UNARY_POSITIVE": "__pos__", "GET_ITER": "__iter__",
    "CONTAINS_OP": "__contains__",
}


def operator_methods(ins: dis.Instruction) -> tuple[str, ...]:
    """The special methods that the instruction may call, on either operand."""
    single = _SINGLE.get(ins.opname)
    if single is not None:
        return (single,)
    if ins.opname == "COMPARE_OP":
        word = _COMPARED.get(ins.argrepr.removeprefix("bool(").rstrip(")"))
        return () if word is None else (f"__{word}__",)
    if ins.opname == "BINARY_OP":
        sign = ins.argrepr
        if sign == "[]":
            return ("__getitem__",)
        return _arithmetic(_SIGNS.get(sign.removesuffix("=")), sign.endswith("="))
    kind, _, word = ins.opname.partition("_")
    return _arithmetic(_WORDS.get(word), kind == "INPLACE") if kind in ("BINARY", "INPLACE") else ()


def _arithmetic(word: str | None, is_in_place: bool) -> tuple[str, ...]:
    if word is None:
        return ()
    names = (f"__{word}__", f"__r{word}__")
    return (f"__i{word}__", *names) if is_in_place else names
