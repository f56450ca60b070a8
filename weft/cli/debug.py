"""`python -m weft debug SCRIPT.py`: what goes wrong in a script."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from weft.cli.script import add_script, check_script, run_script


def add_command(commands: Any) -> None:
    """Add `debug` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "debug",
        help="run a script, and name the lines of NaN, wrong values, recompilations and held memory",
        description="Run a Python script under watch and name the line that made the first NaN or infinity; the pass "
        "or kernel of each compiled program that does not give what its operators give one by one (weft.debug.bisect), "
        "with a script that repeats it; why functions were compiled again, and what to do about it; and the lines "
        "whose tensors hold the most memory. Runs some times slower. Options stand before the script; what follows it "
        "is given to it.",
    )
    number: Any = {"type": float, "metavar": "X"}
    parser.add_argument("--rtol", **number, help="how far compiled values may be off, relative to each element")
    parser.add_argument("--atol", **number, help="and in absolute terms (default: by dtype; see docs/seeing.md)")
    parser.add_argument(
        "--folder", type=Path, default=Path(), metavar="DIR", help="where scripts that repeat a miscompile are written"
    )
    add_script(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script and print what was seen."""
    from weft.debug.run import debug_run  # brings in the compiler, which help does not need
    from weft.debug.tolerance import Tolerance

    check_script(options.script)
    tolerance = Tolerance(options.rtol, options.atol)
    code, lines = debug_run(lambda: run_script(options.script, options.arguments), options.folder, tolerance)
    print("\n".join(lines))
    return int(code)
