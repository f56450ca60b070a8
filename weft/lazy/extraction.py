"""A step as a callable: `weft.lazy.extract_compiled_graph`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def extract_compiled_graph(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """placeholder"""
    raise NotImplementedError
