"""Running a training program: its model filled and its data drawn by NumPy, its step eager or compiled,
and what came out as numbers."""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.training.draw import Program
from tests.training.models import CLASSES, WIDTH


@dataclass(frozen=True)
class Outcome:
    """losses: one for each call. tensors: what the model holds at the end, by name."""

    losses: np.ndarray[Any, Any]
    tensors: dict[str, np.ndarray[Any, Any]]

    def summary(self) -> np.ndarray[Any, Any]:
        """The losses, and two numbers that a difference in any tensor moves: a sum with random weights,
        and the norm."""
        flat = np.concatenate([self.tensors[name].astype(np.float64).ravel() for name in sorted(self.tensors)])
        weights = np.random.default_rng(flat.size).standard_normal(flat.size)
        return np.array([*self.losses, weights @ flat, np.linalg.norm(flat)])

    def difference(self, other: Outcome, dtype: str) -> str | None:
        """What differs by more than rounding explains; of single precision only the losses are asked
        (optimizers divide noise by its own size)."""
        if not _close(self.losses, other.losses, dtype):
            return f"losses {self.losses} and {other.losses}"
        if self.tensors.keys() != other.tensors.keys():
            return f"only one has {sorted(self.tensors.keys() ^ other.tensors.keys())}"
        names = (
            [] if dtype == "float32" else [n for n, a in self.tensors.items() if not _close(a, other.tensors[n], dtype)]
        )
        return f"tensors {names}" if names else None


_TOLERANCE = {"float64": 1e-6, "float32": 5e-3}


def _close(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], dtype: str) -> bool:
    return a.shape == b.shape and np.allclose(a, b, _TOLERANCE[dtype], _TOLERANCE[dtype], equal_nan=True)


def agrees(outcome: Outcome, stored: np.ndarray[Any, Any], dtype: str) -> bool:
    """Whether an outcome has the numbers of a stored summary (padded with NaN at its end)."""
    summary = outcome.summary()
    losses = len(outcome.losses)
    if not _close(summary[:losses], stored[:losses], dtype):
        return False
    return dtype == "float32" or _close(summary[losses:], stored[losses : len(summary)], dtype)


def run(
    program: Program, library: Any, wrap: Callable[[Any], Any] | None = None, device: str = "cpu"
) -> Outcome:
    """Run a program with weft, or with another library of the same interface;
    `wrap` makes its step another one (weft.compile). On a lazy device, a step ends where a loss is read."""
    name = library.__name__
    file = f"<program {program.seed}>"
    source = program.source.replace("weft", name)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    library.set_default_dtype(getattr(library, program.dtype))
    scope: dict[str, Any] = {
        "fill": lambda model: fill(model, library, program.seed, device), "copy": copy,
        "DTYPE": getattr(library, program.dtype), "last": 0.0,
    }
    try:
        exec(compile(source, file, "exec"), scope)
        if wrap is not None:
            scope["step"] = wrap(scope["step"])
        losses = []
        for i, (batch, length, change) in enumerate(program.calls):
            exec(change.replace("weft", name), scope)
            rng = np.random.default_rng([program.seed, i])
            x, y = (
                library.from_numpy(make(what, batch, length, rng, program.dtype)).to(device) for what in program.inputs
            )
            scope["last"] = float(scope["step"](x, y).detach().item())
            if name == "weft":
                _refuse_symbols(scope)
            losses.append(scope["last"])
        tensors = {key: value.detach().cpu().numpy().copy() for key, value in scope["model"].state_dict().items()}
        tensors |= {
            f"{key}.grad": p.grad.detach().cpu().numpy().copy()
            for key, p in scope["model"].named_parameters() if p.grad is not None
        }
        return Outcome(np.array(losses), tensors)
    finally:
        library.set_default_dtype(library.float32)
        linecache.cache.pop(file, None)


def _refuse_symbols(scope: dict[str, Any]) -> None:
    from tests.symbols_left import symbols_left  # weft is not there where PyTorch's numbers are made

    left = symbols_left(scope)
    assert not left, f"symbols are left behind: {left}"


def fill(model: Any, library: Any, seed: int, device: str) -> None:
    """Parameters from NumPy, so that two libraries start alike, on a device."""
    rng = np.random.default_rng(seed)
    with library.no_grad():
        for p in model.parameters():
            p.copy_(library.from_numpy(rng.uniform(-0.6, 0.6, tuple(p.shape))))
    model.to(device)


def make(what: str, batch: int, length: int, rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
    """An input of a program."""
    if what == "classes":
        return rng.integers(0, CLASSES, (batch,))
    if what == "tokens":
        return rng.integers(0, 11, (batch, length))
    shape = {
        "values": (batch, CLASSES), "vectors": (batch, WIDTH), "images": (batch, 2, 6, 6),
        "sequences": (batch, length, WIDTH),
    }[what]
    return rng.standard_normal(shape).astype(dtype)
