"""Whether a run can fit this machine, asked before any work is done: a number typed with a digit too many is told,
not killed."""

from __future__ import annotations

import os

from weft.cli import recipe
from weft.cli.checkpoint import Settings
from weft.cli.failure import CommandError

FLOAT = 4  # bytes
COPIES = 4  # of each parameter: value, gradient, and AdamW's two averages


def check_memory(settings: Settings) -> None:
    """Raise CommandError if the run needs more memory than the machine has. It says nothing where that is not known."""
    there, needed = memory(), least_needed(settings)
    if there is not None and needed > there:
        raise CommandError(
            f"this run needs at least {needed / 1e9:,.1f} GB of memory, of which this machine has {there / 1e9:,.1f}; "
            "choose smaller sizes or a smaller --batch"
        )


def memory() -> int | None:
    """Bytes of memory that the machine has, or None."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def least_needed(settings: Settings) -> int:
    """Bytes that no way of running a step does without: parameters, what training keeps for each,
    and activations of two kinds."""
    size = settings.size
    width = size.width
    parameters = size.blocks * 12 * width * width + (2 * recipe.BYTES + size.context) * width
    positions = settings.batch * size.context
    kept = positions * (recipe.BYTES + size.blocks * 8 * width)  # logits; each block's inputs of its four products
    return FLOAT * (COPIES * parameters + kept)
