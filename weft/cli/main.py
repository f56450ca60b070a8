"""Which command runs: the arguments of `python -m weft`, and what becomes of an error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from weft.cli import explain, generate, knobs, train
from weft.cli.failure import CommandError

INTERRUPTED = 130  # the exit code that shells give a program stopped by Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0, 2 after a mistake, 130 after Ctrl-C."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        return int(options.run(options))
    except CommandError as error:
        print(f"weft {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"weft {options.command}: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output (head, less) has left
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m weft",
        description="Train and run a small GPT, look inside the compiler, and list its switches.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in (train, generate, explain, knobs):
        module.add_command(commands)
    return parser
