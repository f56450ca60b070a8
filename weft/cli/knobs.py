"""`python -m weft knobs`: every switch, its value now, and what it does."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

import weft


def add_command(commands: Any) -> None:
    """Add `knobs` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "knobs",
        help="list the switches of the compiler",
        description="Print every switch of the compiler, its value and what it does. Set one in the environment "
        "(WEFT_DEBUG=guards) or for a block (with weft.knobs(debug='guards')).",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one paragraph for each switch."""
    for variable, value, default, doc in weft.knobs.describe():
        changed = "" if value == default else f"   (default: {default or 'empty'})"
        print(f"{variable} = {value or 'empty'}{changed}")
        print(textwrap.fill(doc, 100, initial_indent="    ", subsequent_indent="    "))
    return 0
