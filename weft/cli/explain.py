"""`python -m weft explain`: what the compiler makes of the demo's training step."""

from __future__ import annotations

import argparse
from typing import Any

from weft.cli import recipe
from weft.cli.checkpoint import Settings
from weft.cli.failure import CommandError
from weft.cli.memory import check_memory

SUMMARY = "summary"


def add_command(commands: Any) -> None:
    """Add `explain` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="show what the compiler makes of a training step",
        description="Compile the training step of `weft train` and print what became of it: a summary, or one stage "
        "in full (captured, opened and optimized graphs, loop nests, LLVM code). --stage list names the stages. "
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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the summary or the stage."""
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
        print(weft.explain(training.compiled, *batch))
        return 0
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
