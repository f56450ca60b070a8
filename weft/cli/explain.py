"""`python -m weft explain`: what ran as programs in a script, or what becomes of the demo's training step."""

from __future__ import annotations

import argparse
from typing import Any

from weft.cli import recipe
from weft.cli.checkpoint import Settings
from weft.cli.failure import CommandError
from weft.cli.memory import check_memory
from weft.cli.script import add_script, check_script, run_script

SUMMARY = "summary"


def add_command(commands: Any) -> None:
    """Add `explain` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="run a script, and explain what ran as programs in it",
        description="Run a Python script and explain each compiled function, split function, lazy step, captured "
        "backward call and scripted function that ran in it: its times, its slowest kernels with your lines, breaks, "
        "and why the last call missed. "
        "Without a script: compile the training step of `weft train` and print what became of it, a summary or one "
        "stage in full (captured, opened and optimized graphs, loop nests, LLVM code). --stage list names the stages. "
        "The sizes in a stage are symbols, so a small model reads like a large one.",
    )
    size = recipe.GPTSize(blocks=1, width=32, heads=2, context=16)
    number: Any = {"type": int, "metavar": "N"}
    parser.add_argument("--stage", default=SUMMARY, metavar="NAME", help="what to print (default: summary)")
    for name in ("blocks", "width", "heads", "context"):
        parser.add_argument(
            f"--{name}", **number, default=getattr(size, name),
            help=f"{recipe.SIZES[name]} (default: {getattr(size, name)})",
        )
    parser.add_argument("--batch", **number, default=4, help="pieces of text per step (default: 4)")
    parser.add_argument("--details", action="store_true", help="all kernels, state and guards as well")
    parser.add_argument(
        "--html", metavar="FILE",
        help="write a page for a browser, too: your source with the time of each line, kernels with their loops and "
        "machine code, a timeline of threads, memory over time",
    )
    add_script(parser, is_optional=True)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what ran in the script; or the summary or stage of the demo."""
    if options.script is not None:
        return _explain_script(options)
    import weft
    from weft.cli.run import Run  # weft.nn is not needed to print help
    from weft.cli.text import check_length, load_text

    try:
        size = recipe.GPTSize(options.blocks, options.width, options.heads, options.context)
    except ValueError as error:
        raise CommandError(str(error)) from None
    if options.batch < 1:
        raise CommandError("--batch must be at least 1")
    settings = Settings(size, batch=options.batch)
    text = load_text(())
    check_length(text, size.context)
    check_memory(settings)
    training = Run(settings, recipe.split(text.content)[0], "compiled")
    batch = training.next_batch()
    if options.stage == SUMMARY:
        explanation = weft.explain(training.compiled, *batch)
        print(explanation.details() if options.details else explanation)
        return _write_page(options, [explanation])
    stages = training.compiled.stages(*batch)
    if options.stage == "list":
        print("\n".join([SUMMARY, *stages]))
    elif options.stage in stages:
        print(stages[options.stage])
    else:
        raise CommandError(
            f"--stage {options.stage}: there is no such stage; there are {', '.join([SUMMARY, *stages])}"
        )
    return 0


def _explain_script(options: argparse.Namespace) -> int:
    """Run it, and explain what ran as programs, what took longest first."""
    from weft.explanations.watched import watched_explanations  # brings in the compiler, which help does not need

    check_script(options.script)
    code, explanations = watched_explanations(lambda: run_script(options.script, options.arguments))
    if not explanations:
        print(
            f"{options.script}: nothing in it ran as a program; "
            f"`python -m weft profile {options.script}` shows where its time goes"
        )
    for number, explanation in enumerate(explanations):
        print(("\n" if number else "") + (explanation.details() if options.details else str(explanation)))
    return code or _write_page(options, explanations)


def _write_page(options: argparse.Namespace, explanations: list[Any]) -> int:
    """Write the page that was asked for, if there is anything on it."""
    if options.html is None or not explanations:
        return 0
    from weft.explanations.page import write_page  # with the explanations

    try:
        write_page(explanations, options.html, title=str(options.script or "weft train"))
    except OSError as error:
        raise CommandError(f"--html {options.html}: {error.strerror or error}") from None
    print(f"\nwrote {options.html}")
    return 0
