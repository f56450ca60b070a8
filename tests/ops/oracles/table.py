"""Where oracles and samples stand that are no line of an entry: loops and sums written out, for operators
that open to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.catalogue.samples import Samples, draw

ORACLES: dict[str, Callable[..., Any]] = {}
SAMPLES: dict[str, Samples] = {}
# Oracles of bits: they take the operands in their own dtype, not widened to float64.
OF_BITS: set[str] = set()
# Oracles of real numbers: they answer for floats alone.
OF_FLOATS: set[str] = set()


def given(
    names: str, oracle: Callable[..., Any] | None, *cases: Any, of_bits: bool = False, of_floats: bool = False
) -> None:
    """What operators (of aten, where no namespace is written) are held against, and inputs for them.
    An oracle takes all arguments, in schema order."""
    for short in names.split():
        name = short if "::" in short else f"aten::{short}"
        assert name not in ORACLES and name not in SAMPLES, f"{name} is given twice"
        if oracle is not None:
            ORACLES[name] = oracle
        if cases:
            SAMPLES[name] = cases[0] if callable(cases[0]) else draw(*cases)
        if of_bits:
            OF_BITS.add(name)
        if of_floats:
            OF_FLOATS.add(name)


def given_floats(names: str, oracle: Callable[..., Any] | None, *cases: Any) -> None:
    """As `given`, for real numbers alone."""
    given(names, oracle, *cases, of_floats=True)
