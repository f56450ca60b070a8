"""What the examples share: their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import weft


def options(doc: str | None, steps: int) -> argparse.Namespace:
    """--steps, --mode and --seed from the command line; the seed is set."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default: {steps})")
    parser.add_argument(
        "--mode", choices=("compiled", "eager"), default="compiled", help="how a step runs (default: compiled)"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.steps < 1:
        parser.error("--steps must be at least 1")
    weft.manual_seed(given.seed)
    return given


def prepared(step: Callable[..., Any], given: argparse.Namespace) -> Callable[..., Any]:
    """The step as --mode wants it."""
    return weft.compile(step) if given.mode == "compiled" else step
