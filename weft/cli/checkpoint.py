"""A training run in one safetensors file: parameters, optimizer, losses so far, random state, position in the data.

Tensors are named model.<parameter>, optimizer.<index>.<state> and losses. Everything else is JSON under the metadata key
"weft_checkpoint". A file is checked against its own settings before any of it is used.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.cli import recipe
from weft.cli.failure import CommandError
from weft.cli.files import write_file

Array = NDArray[Any]

KEY = "weft_checkpoint"
FORMAT = 1
FILE_NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Settings:
    """What a run was asked to do. Together with the text it determines every number of the run."""

    size: recipe.GPTSize = field(default_factory=recipe.GPTSize)
    steps: int = 1000
    batch: int = 16
    seed: int = 0
    learning_rate: float = recipe.LEARNING_RATE
    dropout: float = 0.0
    data: tuple[str, ...] = ()  # files, none for the default text
    text_sha256: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A run after `step` steps. optimizer: per parameter, in order, its state by name: arrays, or plain numbers."""

    settings: Settings
    step: int
    model: dict[str, Array]
    optimizer: list[dict[str, Array | float]]
    losses: Array
    random: dict[str, Any]


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file, or leave the old one as it was. Raises CommandError."""
    from safetensors.numpy import save  # not needed to print help

    tensors = {f"model.{name}": value for name, value in checkpoint.model.items()}
    numbers: dict[str, float] = {}
    for index, state in enumerate(checkpoint.optimizer):
        for name, value in state.items():
            key = f"optimizer.{index}.{name}"
            if isinstance(value, np.ndarray):
                tensors[key] = value
            else:
                numbers[key] = value
    tensors["losses"] = checkpoint.losses
    about = {
        "format": FORMAT,
        "settings": asdict(checkpoint.settings),
        "step": checkpoint.step,
        "random": checkpoint.random,
        "optimizer": numbers,
    }
    contiguous = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    write_file(path, save(contiguous, {KEY: json.dumps(about, sort_keys=True)}))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and check a file, or the checkpoint in a folder. Raises CommandError that names the file and what is wrong."""
    path = path / FILE_NAME if path.is_dir() else path
    tensors, metadata = _read(path)
    if KEY not in metadata:
        raise CommandError(f"{path}: a safetensors file, but not a checkpoint that `weft train` wrote")
    try:
        checkpoint = _parse(tensors, json.loads(metadata[KEY]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise CommandError(f"{path}: a damaged checkpoint ({type(error).__name__}: {error})") from None
    return checkpoint


def _read(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    from safetensors import SafetensorError, safe_open  # not needed to print help

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise CommandError(f"{path}: there is no such checkpoint") from None
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (SafetensorError, TypeError) as error:  # TypeError: a dtype that NumPy lacks
        raise CommandError(f"{path}: not a checkpoint, or cut short ({error})") from None


def _parse(tensors: dict[str, Array], about: dict[str, Any]) -> Checkpoint:
    if about["format"] != FORMAT:
        raise ValueError(f"format {about['format']!r}; this version reads format {FORMAT}")
    settings = _parse_settings(about["settings"])
    shapes = recipe.parameter_shapes(settings.size)
    model = {name: tensors[f"model.{name}"] for name in shapes}
    for name, shape in shapes.items():
        if model[name].shape != shape or model[name].dtype.kind != "f":
            raise ValueError(f"{name} is {model[name].dtype}{list(model[name].shape)}, not {list(shape)}")
    optimizer: list[dict[str, Array | float]] = [{} for _ in shapes]
    states: dict[str, Any] = {**tensors, **about["optimizer"]}
    for key, value in states.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            optimizer[int(index)][name] = value
    step, losses = int(about["step"]), tensors["losses"]
    if losses.shape != (step,):
        raise ValueError(f"{losses.shape} losses after {step} steps")
    return Checkpoint(settings, step, model, optimizer, losses, dict(about["random"]))


def _parse_settings(stored: dict[str, Any]) -> Settings:
    size = recipe.GPTSize(**{name: int(value) for name, value in stored["size"].items()})
    settings = Settings(**{**stored, "size": size, "data": tuple(stored["data"])})
    if min(settings.steps, settings.batch) < 1:
        raise ValueError("steps and batch must be at least 1")
    return settings
