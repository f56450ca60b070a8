"""Which command runs: the arguments of `python -m weft`, and what becomes of an error."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping, Sequence

from weft import __version__
from weft.cli import debug, explain, generate, knobs, opt, profile, run_stored, train
from weft.cli.failure import CommandError
from weft.support.errors import ValueProblem

MISTAKE = 2
INTERRUPTED = 130  # the exit code that shells give a program stopped by Ctrl-C
LEFT = 141  # and one whose output nobody reads


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0, 2 after a mistake, 130 after Ctrl-C, 141 when the reader of the output
    has left."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a model may write any character, also where the output takes only some
        sys.stdout.reconfigure(errors="replace")
    parser, commands = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:  # argparse would print the usage of all commands
        commands.get(options.command, parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    options.command_line = list(sys.argv[1:] if arguments is None else arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        return int(options.run(options))
    except CommandError as error:
        print(f"weft {options.command}: {error}", file=sys.stderr)
        return MISTAKE
    except MemoryError as error:
        print(
            f"weft {options.command}: this machine has not enough memory ({error or 'none is left'})", file=sys.stderr
        )
        return MISTAKE
    except KeyboardInterrupt:
        print(f"weft {options.command}: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output (head, less) has left
        sys.stderr.close()
        return LEFT
    except OSError as error:  # a folder that a knob names (WEFT_DUMP), a disk that is full
        if error.filename is None:
            raise
        print(f"weft {options.command}: {error.filename}: {error.strerror}", file=sys.stderr)
        return MISTAKE
    except ValueProblem as error:
        if not str(error).startswith("WEFT_"):  # a knob's value that this machine does not have
            raise
        print(f"weft {options.command}: {error}", file=sys.stderr)
        return MISTAKE


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of the commands by name."""
    parser = argparse.ArgumentParser(
        prog="python -m weft",
        description="Train and run a small GPT, see where a script's time goes, look inside the compiler, and list its "
        "switches.",
    )
    parser.add_argument("--version", action="version", version=f"weft {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in (train, generate, explain, profile, debug, run_stored, opt, knobs):
        module.add_command(commands)
    return parser, commands.choices
