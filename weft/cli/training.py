"""What `train` does and says, from the first line to the text at the end."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft
from weft.cli import recipe
from weft.cli.checkpoint import FILE_NAME, Checkpoint, Settings, save_checkpoint
from weft.cli.failure import CommandError
from weft.cli.files import write_file
from weft.cli.first_step import describe_first_step
from weft.cli.interrupt import StopRequest
from weft.cli.ngrams import ngram_losses
from weft.cli.plot import can_plot, plot_losses
from weft.cli.progress import show_progress
from weft.cli.run import Run
from weft.cli.sampling import continue_text
from weft.cli.text import Text

Array = NDArray[Any]

CURVE_NAME = "loss.png"
SHOWN = 400  # bytes of text at the end
PROMPT = 60  # bytes of the held-out part that it continues


def train(settings: Settings, text: Text, resumed: Checkpoint | None, out: Path, options: argparse.Namespace) -> int:
    """Train, or go on from `resumed`; write results into `out`. Returns the exit code. Raises CommandError."""
    if options.threads is not None:
        weft.set_num_threads(options.threads)
    if options.ranks > 1:
        weft.distributed.init_process_group()
    tokens, tail = recipe.split(text.content)
    run = Run(settings, tokens, options.mode, options.deterministic)
    if resumed:
        run.restore(resumed)
    if run.rank:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), StopRequest() as stop:
            _train_steps(run, None, options.save_every, stop)
        return stop.exit_code
    _introduce(run, text, tail)
    checkpoint = out / FILE_NAME
    with StopRequest() as stop:
        _train_steps(run, checkpoint, options.save_every, stop)
        save_checkpoint(checkpoint, run.checkpoint())
    if stop.asked:
        print(f"stopped after step {run.steps_done}; saved {checkpoint}")
        print(f"go on with: python -m weft train --resume {shlex.quote(str(checkpoint))}")
        return stop.exit_code
    print(f"wrote {checkpoint}", flush=True)
    held_out = run.held_out_loss(tail)
    levels = dict(zip(("bigram", "trigram"), ngram_losses(tokens, tail)[1:], strict=True))
    _report(run, text, held_out, levels)
    _write_curve(out / CURVE_NAME, np.array(run.losses), held_out, levels)
    _show_text(run, options.prompt or opening(tail))
    return 0


def _train_steps(run: Run, checkpoint: Path | None, save_every: int, stop: StopRequest) -> None:
    """All steps that are left. checkpoint: None in ranks that write nothing."""
    steps, tokens = run.settings.steps, run.settings.batch * run.settings.size.context
    if run.steps_done == steps:
        return
    first, start = run.steps_done, time.perf_counter()
    weft.counters.reset()
    _train_step(run, checkpoint, save_every)
    print(describe_first_step(run, time.perf_counter() - start), flush=True)
    with show_progress(first, steps) as progress:
        progress.step_done(run.steps_done, run.losses, tokens)
        while run.steps_done < steps and not run.agree(stop.asked):
            _train_step(run, checkpoint, save_every)
            progress.step_done(run.steps_done, run.losses, tokens)
    seconds, done = time.perf_counter() - start, run.steps_done - first
    print(f"{done:,} steps in {seconds:.1f} s, {done * tokens / seconds:,.0f} tokens/s with the first step")


def _train_step(run: Run, checkpoint: Path | None, save_every: int) -> None:
    """The next step; every so often a checkpoint. Raises CommandError if training has diverged,
    so that none is overwritten by what it left."""
    loss = run.train_step()
    if not math.isfinite(loss):
        raise CommandError(
            f"the loss of step {run.steps_done} is {loss}: training has diverged, and what came of it is not saved; "
            "try a smaller --learning-rate"
        )
    if checkpoint is None:
        return
    if run.steps_done % save_every == 0 and run.steps_done < run.settings.steps:  # the last is saved by the caller
        save_checkpoint(checkpoint, run.checkpoint())


def _introduce(run: Run, text: Text, tail: Array) -> None:
    settings, size = run.settings, run.settings.size
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    print(f"weft {weft.__version__}, {run.mode} mode")
    print(f"text   {text.name}: {len(text.content):,} bytes, the last {len(tail):,} held out")
    print(
        f"model  {size.blocks} blocks, width {size.width}, {size.heads} heads, context {size.context}: "
        f"{parameters:,} parameters"
    )
    print(f"run    {settings.steps:,} steps of {settings.batch} windows, seed {settings.seed}", flush=True)
    if run.steps_done:
        print(f"going on after step {run.steps_done:,}", flush=True)


def _report(run: Run, text: Text, held_out: float, levels: dict[str, float]) -> None:
    beside = ", ".join(f"{name} {level:.3f}" for name, level in levels.items())
    print(f"held-out loss {held_out:.3f} nats per byte (beside it: {beside})")
    reference = torch_held_out(run.settings, text)
    if reference is not None:
        difference = (held_out / reference - 1) * 100
        print(f"PyTorch, from the same weights and data order: {reference:.3f} (weft {difference:+.2f}%)")


def torch_held_out(settings: Settings, text: Text) -> float | None:
    """PyTorch's stored held-out loss for exactly this run, if there is one (scripts/make_torch_reference.py)."""
    records = json.loads(Path(__file__).with_name("torch_reference.json").read_text())
    for record in records:
        same = Settings(steps=record["steps"], batch=record["batch"], seed=record["seed"], data=settings.data,
                        text_sha256=record["sha256"])
        if same == settings and text.sha256 == record["sha256"]:
            return float(record["held_out"])
    return None


def _write_curve(path: Path, losses: Array, held_out: float, levels: dict[str, float]) -> None:
    if not can_plot():
        print("no loss curve: matplotlib is missing (pip install 'weft[plot]')", file=sys.stderr)
        return
    write_file(path, plot_losses(losses, held_out, levels))
    print(f"wrote {path}")


def opening(tail: Array) -> str:
    """The beginning of the held-out part, up to the end of a word."""
    text = tail[: PROMPT * 2].tobytes().decode(errors="ignore").strip()
    cut = text.rfind(" ", 0, PROMPT)
    return text[:cut] if cut > 0 else text[:PROMPT] or " "


def _show_text(run: Run, prompt: str) -> None:
    print(f"\nthe model continues {prompt!r}:\n\n{prompt}", end="", flush=True)
    run.model.cpu().eval()
    for piece in continue_text(run.model, prompt, SHOWN, temperature=0.8, top=40, seed=run.settings.seed):
        print(piece, end="", flush=True)
    print("\n")
