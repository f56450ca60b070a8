"""A training run in one safetensors file: parameters, optimizer, losses so far, random state, position in the data.

Tensors are named model.<parameter>, optimizer.<index>.<state> and losses. Everything else is JSON under the metadata
key "weft_checkpoint". A file is checked against its own settings before any of it is used.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
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
    """What a run was asked to do. Together with the text it determines every number of the run.
    Raises ValueError, which begins with the field's name, for a value that none can have."""

    size: recipe.GPTSize = field(default_factory=recipe.GPTSize)
    steps: int = 1000
    batch: int = 16
    seed: int = 0
    learning_rate: float = recipe.LEARNING_RATE
    dropout: float = 0.0
    data: tuple[str, ...] = ()  # files, none for the default text
    text_sha256: str = ""

    def __post_init__(self) -> None:
        _check_whole("steps", self.steps, 1)
        _check_whole("batch", self.batch, 1)
        _check_whole("seed", self.seed, 0)
        if not _is_number(self.learning_rate) or not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate {self.learning_rate!r}: must be more than 0 and finite")
        if not _is_number(self.dropout) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout {self.dropout!r}: must be at least 0 and less than 1")
        if not isinstance(self.text_sha256, str) or not all(isinstance(file, str) for file in self.data):
            raise ValueError("data and text_sha256: must be names of files and a digest")


def _check_whole(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise ValueError(f"{name} {value!r}: must be a whole number, at least {least}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
    """Read and check a file, or the checkpoint in a folder. Raises CommandError that names the file
    and what is wrong."""
    path = path / FILE_NAME if path.is_dir() else path
    tensors, metadata = _read(path)
    if KEY not in metadata:
        raise CommandError(f"{path}: a safetensors file, but not a checkpoint that `weft train` wrote")
    try:
        checkpoint = _parse(tensors, json.loads(metadata[KEY]))
    except KeyError as error:
        raise CommandError(f"{path}: a damaged checkpoint (it lacks {error})") from None
    except (IndexError, TypeError, ValueError, AttributeError) as error:
        raise CommandError(f"{path}: a damaged checkpoint ({error})") from None
    return checkpoint


def _read(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    from safetensors import SafetensorError, safe_open  # not needed to print help

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        folder = path.parent if path.suffix else path
        raise CommandError(
            f"{path}: there is no such checkpoint; `python -m weft train --out {folder}` makes one"
        ) from None
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (SafetensorError, TypeError) as error:  # TypeError: a dtype that NumPy lacks
        raise CommandError(f"{path}: not a checkpoint, or cut short ({error})") from None


def _parse(tensors: dict[str, Array], about: dict[str, Any]) -> Checkpoint:
    if about["format"] != FORMAT:
        raise ValueError(f"format {about['format']!r}; this version reads format {FORMAT}")
    settings = _parse_settings(about["settings"])
    if settings.size.blocks > len(tensors):  # said before that many names are listed
        raise ValueError(f"{len(tensors)} tensors for {settings.size.blocks} blocks")
    shapes = recipe.parameter_shapes(settings.size)
    model = {name: tensors[f"model.{name}"] for name in shapes}
    for name, shape in shapes.items():
        if model[name].shape != shape or model[name].dtype.kind != "f":
            raise ValueError(f"{name} is {model[name].dtype}{list(model[name].shape)}, not {list(shape)}")
    step, losses = about["step"], tensors["losses"]
    _check_whole("step", step, 0)
    if losses.shape != (step,) or losses.dtype != np.float64:
        raise ValueError(f"{losses.dtype}{list(losses.shape)} losses after {step} steps")
    return Checkpoint(
        settings, step, model, _parse_optimizer(tensors, about["optimizer"], shapes), losses,
        _parse_random(about["random"]),
    )


def _parse_optimizer(
    tensors: dict[str, Array], numbers: dict[str, Any], shapes: dict[str, tuple[int, ...]]
) -> list[dict[str, Array | float]]:
    """Each parameter's state, whose arrays have the parameter's shape or are single numbers."""
    optimizer: list[dict[str, Array | float]] = [{} for _ in shapes]
    parameter_shapes = list(shapes.values())
    states: dict[str, Any] = {**tensors, **numbers}
    for key, value in states.items():
        if not key.startswith("optimizer."):
            continue
        _, index, name = key.split(".", 2)
        if not (index.isdecimal() and int(index) < len(parameter_shapes)):
            raise ValueError(f"{key}: there are {len(parameter_shapes)} parameters")
        floats = value.dtype.kind == "f" if isinstance(value, np.ndarray) else _is_number(value)
        if not floats or np.shape(value) not in ((), parameter_shapes[int(index)]):
            raise ValueError(f"{key} does not fit its parameter, {list(parameter_shapes[int(index)])}")
        optimizer[int(index)][name] = value
    return optimizer


def _parse_random(stored: dict[str, Any]) -> dict[str, Any]:
    if (
        not isinstance(stored["state"], list)
        or not all(type(byte) is int and 0 <= byte < 256 for byte in stored["state"])
    ):
        raise ValueError("random: state must be a list of bytes")
    return stored


def _parse_settings(stored: dict[str, Any]) -> Settings:
    for part, kind in ((stored, Settings), (stored["size"], recipe.GPTSize)):
        for entry in fields(kind):
            part[entry.name]  # none may be left to a default, which another version may have changed
    for name, value in stored["size"].items():
        _check_whole(name, value, 1)
    if not isinstance(stored["data"], list):
        raise ValueError("data: must be a list of files")
    return Settings(**{**stored, "size": recipe.GPTSize(**stored["size"]), "data": tuple(stored["data"])})
