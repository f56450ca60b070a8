"""`python -m weft train`: train a small GPT from scratch on text, the demo of the whole path."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.cli import recipe
from weft.cli.checkpoint import Checkpoint, Settings, load_checkpoint
from weft.cli.failure import CommandError
from weft.cli.files import make_folder
from weft.cli.memory import check_memory
from weft.cli.text import Text, check_length, check_prompt, load_text

MODES = ("compiled", "lazy", "interpret", "eager")
OF_THE_RUN = ("batch", "seed", "learning_rate", "dropout")  # options that a checkpoint answers
OF_THE_SIZE = ("blocks", "width", "heads", "context")


def add_command(commands: Any) -> None:
    """Add `train` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train a small GPT from scratch on text",
        description="Train a small GPT over bytes from scratch, and write a checkpoint, the loss curve, and text that "
        "the model continues. Without --data it reads the reference topics that every Python install carries.",
    )
    default = Settings()
    number: Any = {"type": int, "metavar": "N"}
    parser.add_argument("--data", nargs="+", action="extend", default=[], metavar="FILE", help="UTF-8 text to train on")
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="folder for the results (default: weft-run; with --resume, the checkpoint's)",
    )
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from this checkpoint, bit for bit")
    parser.add_argument(
        "--mode", choices=MODES, default="compiled",
        help=(
            "compiled: one native program; lazy: the same from lazy tensors, traced at every step; interpret: "
            "the graph, node by node; eager: operator by operator (default: compiled)"
        ),
    )
    parser.add_argument(
        "--steps", **number, help=f"steps of the whole run, those before --resume included (default: {default.steps})"
    )
    parser.add_argument(
        "--seed", **number, help=f"decides initial weights, data order and dropout (default: {default.seed})"
    )
    parser.add_argument("--batch", **number, help=f"pieces of text per step (default: {default.batch})")
    for name in OF_THE_SIZE:
        parser.add_argument(
            f"--{name}", **number, help=f"{recipe.SIZES[name]} (default: {getattr(default.size, name)})"
        )
    parser.add_argument(
        "--learning-rate", type=float, metavar="X",
        help=f"its largest value, reached after {recipe.WARM_UP} steps (default: {default.learning_rate})",
    )
    parser.add_argument(
        "--dropout", type=float, metavar="P",
        help=f"share of numbers dropped in each residual branch (default: {default.dropout})",
    )
    parser.add_argument(
        "--save-every", type=int, default=250, metavar="N", help="steps between checkpoints (default: 250)"
    )
    parser.add_argument("--threads", **number, help="worker threads (default: as many as there are cores)")
    parser.add_argument(
        "--ranks", type=int, default=1, metavar="N",
        help="processes that share each batch out (needs 'weft[mpi]'; default: 1)",
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="sum the ranks' gradients in the order of ranks, not in MPI's"
    )
    parser.add_argument("--prompt", help="text to continue at the end (default: the beginning of the held-out part)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check everything that can be checked at once, then train."""
    if options.save_every < 1 or (options.threads is not None and options.threads < 1):
        raise CommandError("--save-every and --threads must be at least 1")
    if options.prompt is not None:
        check_prompt(options.prompt)
    if options.ranks != 1 and "RANK" not in os.environ:
        return _start_ranks(options)
    resumed = load_checkpoint(options.resume) if options.resume else None
    settings = _settings(options, resumed)
    if settings.batch % options.ranks:
        raise CommandError(f"--batch {settings.batch} does not divide into {options.ranks} ranks")
    text = load_text(settings.data)
    check_length(text, settings.size.context)
    check_memory(settings)
    settings = replace(settings, text_sha256=_check_same(text, resumed))
    out = _out_folder(options)
    make_folder(out)
    from weft.cli.training import train  # weft.nn is not needed to say that a file is missing

    return train(settings, text, resumed, out, options)


def _start_ranks(options: argparse.Namespace) -> int:
    """The same command in each of several processes."""
    if options.ranks < 1:
        raise CommandError("--ranks must be at least 1")
    from weft.distributed.run import main as start  # only for several processes

    return start(["-n", str(options.ranks), "--module", "weft", *options.command_line])


def _settings(options: argparse.Namespace, resumed: Checkpoint | None) -> Settings:
    """The options over the checkpoint's settings over the defaults."""
    base = resumed.settings if resumed else Settings()
    run_options = {name: getattr(options, name) for name in OF_THE_RUN if getattr(options, name) is not None}
    size = {name: getattr(options, name) for name in OF_THE_SIZE if getattr(options, name) is not None}
    try:
        settings = replace(base, size=replace(base.size, **size), **run_options)
    except ValueError as error:
        raise CommandError(_as_option(str(error))) from None
    if resumed and settings != base:
        changed = {**run_options, **size}
        stored = {name: getattr(base.size if name in OF_THE_SIZE else base, name) for name in changed}
        raise CommandError(
            f"{options.resume}: was trained with {_as_options(stored)}; a run cannot go on with {_as_options(changed)}"
        )
    steps = base.steps if options.steps is None else options.steps
    if steps < (resumed.step if resumed else 1):
        raise CommandError(f"--steps {steps}: must be at least {resumed.step if resumed else 1}")
    data = tuple(str(Path(file).absolute()) for file in options.data) or base.data
    return replace(settings, steps=steps, data=data)


def _as_options(values: dict[str, Any]) -> str:
    return " ".join(_as_option(f"{name} {value}") for name, value in values.items())


def _as_option(text: str) -> str:
    """A text that begins with a setting's name, as the user gave it: learning_rate 3 -> --learning-rate 3."""
    name, rest = text.split(" ", 1)
    return f"--{name.replace('_', '-')} {rest}" if name in (*OF_THE_RUN, *OF_THE_SIZE) else text


def _check_same(text: Text, resumed: Checkpoint | None) -> str:
    if resumed and text.sha256 != resumed.settings.text_sha256:
        raise CommandError(f"{text.name}: not the text that the checkpoint was trained on; name that with --data")
    return text.sha256


def _out_folder(options: argparse.Namespace) -> Path:
    if options.out is not None:
        return Path(options.out)
    if options.resume is None:
        return Path("weft-run")
    resume = Path(options.resume)
    return resume if resume.is_dir() else resume.parent


