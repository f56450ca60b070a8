"""Running a user's script under a command of weft's, as `python SCRIPT.py ARGS` would."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from weft.cli.failure import CommandError


def add_script(parser: argparse.ArgumentParser, is_optional: bool = False) -> None:
    """Add the script and its arguments to a command."""
    many: Any = {"nargs": "?"} if is_optional else {}
    parser.add_argument("script", type=Path, metavar="SCRIPT.py", help="a Python file, run as __main__", **many)
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="what follows the script is given to it"
    )


def check_script(path: Path) -> None:
    """Raises CommandError where it is no file."""
    if path.is_dir():
        raise CommandError(f"{path}: a folder, not a Python file")
    if not path.is_file():
        raise CommandError(f"{path}: no such file")


def run_script(path: Path, arguments: list[str]) -> int:
    """Run it. The exit code: 0, that of sys.exit, or 1 after an error, whose traceback is shown."""
    argv, first = sys.argv, sys.path[0] if sys.path else None
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as leave:
        if leave.code is None or isinstance(leave.code, int):
            return leave.code or 0
        print(leave.code, file=sys.stderr)
        return 1
    except Exception as error:
        _show(error, path)
        return 1
    finally:
        sys.argv = argv
        if sys.path and sys.path[0] != first:
            del sys.path[0]
    return 0


def _show(error: Exception, path: Path) -> None:
    """The traceback from the script's own frames on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)
