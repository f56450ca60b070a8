"""`python -m weft explain`: what the compiler makes of a training step."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(commands: Any) -> None:
    """Add `explain` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser("explain", help="show what the compiler makes of a training step")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return 0
