"""`python -m weft profile SCRIPT.py`: where a script's time goes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from weft.cli.failure import CommandError
from weft.cli.script import add_script, check_script, run_script


def add_command(commands: Any) -> None:
    """Add `profile` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "profile",
        help="run a script, and show where its time goes",
        description="Run a Python script under weft.profiler and print its operators, backward calls and the kernels "
        "of its compiled programs, the slowest first, with the lines that they come from. Options stand before the "
        "script; what follows it is given to it.",
    )
    parser.add_argument(
        "--sort", default="self_cpu_time_total", metavar="COLUMN",
        help="the column to sort by: self_cpu_time_total (default), cpu_time_total, cpu_time, count, "
        "self_cpu_memory_usage, bytes or operations",
    )
    parser.add_argument("--rows", type=int, default=20, metavar="N", help="rows of the table (default: 20)")
    parser.add_argument("--memory", action="store_true", help="note what memory operators take and let go")
    parser.add_argument(
        "--shapes", action="store_true", help="show the shapes of operators' arguments, one row for each"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE.json", help="write a trace for ui.perfetto.dev or chrome://tracing there"
    )
    add_script(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script and print the table."""
    from weft.profiler import EventList, profile  # brings in the compiler, which help does not need
    from weft.support.errors import ValueProblem

    check_script(options.script)
    if options.rows < 1:
        raise CommandError("--rows must be at least 1")
    try:
        EventList().table(sort_by=options.sort)  # a mistake is told before the script runs
    except ValueProblem as problem:
        raise CommandError(str(problem).replace("table: sort_by=", "--sort ")) from None
    prof = profile(record_shapes=options.shapes, profile_memory=options.memory, with_stack=True)
    with prof:
        code = run_script(options.script, options.arguments)
    averages = prof.key_averages(group_by_input_shape=options.shapes)
    if not averages:
        print(f"{options.script}: nothing of weft's ran")
        return code
    print(averages.table(sort_by=options.sort, row_limit=options.rows))
    if options.trace is not None:
        prof.export_chrome_trace(str(options.trace))
        print(f"trace: {options.trace}")
    return code
