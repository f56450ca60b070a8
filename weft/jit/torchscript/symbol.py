"""Symbol: an operator's name with its namespace, interned: equal symbols are one object."""

from __future__ import annotations

import re
from typing import Any

from weft.support.errors import ValueProblem

_FORM = re.compile(r"[A-Za-z_]\w*::\w+")
_KNOWN: dict[str, Symbol] = {}


class Symbol(str):
    """`Symbol("aten::add")`. Compares equal to its text. Raises ValueProblem for a name without a namespace."""

    __slots__ = ()

    def __new__(cls, text: Any) -> Symbol:
        symbol = _KNOWN.get(text)
        if symbol is None:
            if not isinstance(text, str) or _FORM.fullmatch(text) is None:
                raise ValueProblem(f"Symbol: {text!r} has no namespace; write it as in 'aten::add'")
            symbol = _KNOWN[text] = str.__new__(cls, text)
        return symbol

    def ns(self) -> str:
        """The namespace: `aten`."""
        return self.partition("::")[0]

    def unqual(self) -> str:
        """The name without its namespace: `add`."""
        return self.partition("::")[2]

    def is_aten(self) -> bool:
        """Whether it is one of PyTorch's operators on tensors."""
        return self.ns() == "aten"

    def is_prim(self) -> bool:
        """Whether it belongs to the language."""
        return self.ns() == "prim"

    def is_onnx(self) -> bool:
        """Whether it is one of ONNX's operators."""
        return self.ns() == "onnx"
