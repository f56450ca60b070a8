"""`python -m weft generate`: continue a prompt from a checkpoint."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from weft.cli.checkpoint import load_checkpoint
from weft.cli.failure import CommandError
from weft.cli.text import check_prompt


def add_command(commands: Any) -> None:
    """Add `generate` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "generate",
        help="continue a prompt from a checkpoint",
        description="Print text that a trained model continues.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("checkpoint", nargs="?", type=Path, default=Path("weft-run"),
                        help="the file that training wrote, or its folder")
    parser.add_argument("--prompt", default="The ", help="the text to continue")
    parser.add_argument("--length", type=int, default=400, metavar="BYTES", help="how many bytes to add")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 takes the likeliest byte each time")
    parser.add_argument("--top", type=int, default=40, metavar="N", help="draw from the N likeliest bytes only")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the prompt and what follows it."""
    _check(options)
    checkpoint = load_checkpoint(options.checkpoint)
    from weft.cli.run import load_model  # weft.nn is not needed to say that a file is missing
    from weft.cli.sampling import continue_text

    model = load_model(checkpoint)
    print(options.prompt, end="", flush=True)
    start = time.perf_counter()
    for piece in continue_text(model, options.prompt, options.length, options.temperature, options.top, options.seed):
        print(piece, end="", flush=True)
    seconds = time.perf_counter() - start
    print(f"\n\n({options.length} bytes in {seconds:.1f} s, {options.length / max(seconds, 1e-9):,.0f} a second)")
    return 0


def _check(options: argparse.Namespace) -> None:
    check_prompt(options.prompt)
    if options.length < 1 or options.top < 1:
        raise CommandError("--length and --top must be at least 1")
    if not 0 <= options.temperature < float("inf"):
        raise CommandError("--temperature must be 0 or more")
    if options.seed < 0:
        raise CommandError("--seed must be 0 or more")
