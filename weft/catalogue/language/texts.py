"""The methods of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.catalogue.language.entries import ORDERED, language
from weft.types.tensor_type import STR


def _method(name: str) -> Callable[..., Any]:
    def kernel(text: str, *args: Any) -> Any:
        while args and args[-1] is None:
            args = args[:-1]
        return getattr(text, name)(*args)

    return kernel


def _text(names: str, arguments: str, signature: str, effect: str = "pure", observes: str = "") -> None:
    for name in names.split():
        language(
            f"prim::{name}", arguments, f"Python's str.{name}.", _method(name), signature, effect=effect,
            observes=observes,
        )


_text("upper lower capitalize title swapcase casefold", "self", "str -> str")
_text(
    "isalpha isdigit isalnum isdecimal isidentifier islower isupper isnumeric isspace istitle isprintable isascii",
    "self", "str -> bool",
)
_text("strip lstrip rstrip", "self, chars=None", "str, str? -> str")
_text("rsplit", "self, sep=None, maxsplit=-1", "str, str?, int -> str[]")
_text("splitlines", "self, keepends=False", "str, bool -> str[]")
_text("replace", "self, old, new, count=-1", "str, str, str, int -> str")
_text("startswith endswith", "self, affix, start=None, end=None", "str, str, int?, int? -> bool")
_text("find rfind", "self, sub, start=None, end=None", "str, str, int?, int? -> int")
_text("rindex", "self, sub, start=None, end=None", "str, str, int?, int? -> int", "raises")
_text("center ljust rjust", 'self, width, fillchar=" "', "str, int, str -> str")
_text("zfill", "self, width", "str, int -> str")
_text("expandtabs", "self, tabsize=8", "str, int -> str")
_text("partition rpartition", "self, sep", "str, str -> (str, str, str)", "raises")
_text("removeprefix removesuffix", "self, affix", "str, str -> str")
_text("join", "self, parts", "str, str[] -> str", ORDERED, observes="pure")

# Without a separator, any run of blanks separates.
language(
    "prim::split", "self, sep=None, maxsplit=-1", "Python's str.split.", lambda text, sep, most: text.split(sep, most),
    "str, str?, int -> str[]",
)


def _format(text: str, values: tuple[Any, ...], names: tuple[str, ...]) -> str:
    first = len(values) - len(names)
    return text.format(*values[:first], **dict(zip(names, values[first:], strict=True)))


language(
    "prim::format", "self, values=[], names=[]", "Python's str.format; the last values have the names.", _format,
    rule=lambda text, values, names: STR, effect=ORDERED, observes="raises",
)
