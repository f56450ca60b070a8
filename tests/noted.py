"""Operators with effects: noted::io and noted::python write their text into a log when they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.ops.op import OPS, PACKETS, define
from weft.ops.packet import namespace_of

noted = namespace_of("noted")


@contextmanager
def noted_operators(log: list[str]) -> Iterator[None]:
    """They are defined within the block."""

    def note(x: Any, text: str) -> Any:
        log.append(text)
        return x.copy()

    for effect in ("io", "python"):
        define(
            f"noted::{effect}(Tensor self, str text) -> Tensor", "The tensor itself, once the text is in the log.",
            type=lambda self, text: self, kernel=note, vjp={"self": lambda g, text: noted.io(g, text + " back")},
            effect=effect, public=(),
        )
    yield
    for effect in ("io", "python"):
        del OPS[f"noted::{effect}"], PACKETS[f"noted::{effect}"]
        vars(noted).pop(effect, None)
