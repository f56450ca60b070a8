"""Checkpoints come back whole, and a file that is not one is refused with its name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from weft.cli.checkpoint import FILE_NAME, KEY, Checkpoint, Settings, load_checkpoint, save_checkpoint
from weft.cli.failure import CommandError
from weft.cli.recipe import GPTSize, initial_weights


def some_checkpoint(rng: np.random.Generator) -> Checkpoint:
    size = GPTSize(blocks=int(rng.integers(1, 3)), width=8, heads=2, context=int(rng.integers(2, 9)))
    settings = Settings(size, steps=9, batch=2, seed=4, dropout=0.25, data=("a b.txt",), text_sha256="ab" * 32)
    model = initial_weights(size, 1)
    optimizer: list[dict[str, np.ndarray | float]] = [
        {
            "step": np.array(3, np.float32), "rate": 0.1,
            "exp_avg": rng.standard_normal(value.shape[::-1]).astype(value.dtype).T,
        }
        for value in model.values()
    ]
    return Checkpoint(settings, 3, model, optimizer, rng.standard_normal(3), {"state": [4, 255, 0]})


def test_everything_comes_back_bit_for_bit(tmp_path: Path, rng: np.random.Generator) -> None:
    saved = some_checkpoint(rng)
    save_checkpoint(tmp_path / FILE_NAME, saved)
    for place in (tmp_path, tmp_path / FILE_NAME):
        loaded = load_checkpoint(place)
        assert (loaded.settings, loaded.step, loaded.random) == (saved.settings, saved.step, saved.random)
        assert loaded.losses.tobytes() == saved.losses.tobytes()
        for name, value in saved.model.items():
            assert loaded.model[name].dtype == value.dtype and loaded.model[name].tobytes() == value.tobytes()
        for before, after in zip(saved.optimizer, loaded.optimizer, strict=True):
            assert after.keys() == before.keys() and after["rate"] == 0.1
            for name in ("step", "exp_avg"):
                old, new = np.asarray(before[name]), np.asarray(after[name])
                assert (new.shape, new.dtype, new.tobytes()) == (old.shape, old.dtype, old.tobytes())


def test_the_same_run_writes_the_same_bytes(tmp_path: Path, rng: np.random.Generator) -> None:
    saved = some_checkpoint(rng)
    for name in ("one", "two"):
        save_checkpoint(tmp_path / name, saved)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / FILE_NAME
    save_checkpoint(path, some_checkpoint(rng))
    whole = path.read_bytes()
    for length in {0, 4, 8, 100, len(whole) // 2, len(whole) - 1, *rng.integers(0, len(whole), 20).tolist()}:
        path.write_bytes(whole[:length])
        with pytest.raises(CommandError) as caught:
            load_checkpoint(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_files_of_others_are_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "x"
    for content in (b"just some text, long enough to look like a header", rng.bytes(3000)):
        path.write_bytes(content)
        with pytest.raises(CommandError, match="not a checkpoint"):
            load_checkpoint(path)
    save_file({"w": np.zeros(3)}, path)
    with pytest.raises(CommandError, match="not a checkpoint that `weft train` wrote"):
        load_checkpoint(path)
    with pytest.raises(CommandError, match="there is no such checkpoint"):
        load_checkpoint(tmp_path / "missing")


@pytest.mark.parametrize("damage", ["{", "[]", "null", "{}", json.dumps({"format": 1}), json.dumps({"format": 99})])
def test_metadata_that_makes_no_sense_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x"
    save_file({"losses": np.zeros(0)}, path, metadata={KEY: damage})
    with pytest.raises(CommandError, match="a damaged checkpoint"):
        load_checkpoint(path)


@pytest.mark.parametrize("entry", [
    "steps", "batch", "seed", "learning_rate", "dropout", "data", "text_sha256", "size.blocks", "size.context", "step",
    "random", "optimizer",
])
@pytest.mark.parametrize("value", [None, "x", -1, 1.5, [1], {}, True, 10**30, float("nan"), float("inf")])
def test_entries_of_another_kind_are_refused_or_harmless(
    tmp_path: Path, rng: np.random.Generator, entry: str, value: object
) -> None:
    path = tmp_path / FILE_NAME
    save_checkpoint(path, some_checkpoint(rng))
    about = json.loads(stored_metadata(path))
    part = about if entry in about else about["settings"]["size"] if "." in entry else about["settings"]
    part[entry.split(".")[-1]] = value
    save_file(load_file(path), path, metadata={KEY: json.dumps(about)})
    harmless = {
        ("steps", 10**30), ("batch", 10**30), ("seed", 10**30), ("learning_rate", 1.5), ("learning_rate", 10**30),
        ("text_sha256", "x"),
    }
    if value in [kept for name, kept in harmless if name == entry] and not isinstance(value, bool):
        load_checkpoint(path)
    elif entry == "optimizer" and value == {}:
        assert all("rate" not in state for state in load_checkpoint(path).optimizer)
    else:
        with pytest.raises(CommandError, match="a damaged checkpoint"):
            load_checkpoint(path)


def stored_metadata(path: Path) -> str:
    with safe_open(path, framework="numpy") as file:
        return str(file.metadata()[KEY])


def test_tensors_that_do_not_fit_the_settings_are_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    good, path = some_checkpoint(rng), tmp_path / "x"
    size = good.settings.size
    damaged = [
        replace(good, model={**good.model, "head.weight": good.model["head.weight"][:-1]}),
        replace(good, model={name: value for name, value in good.model.items() if name != "norm.bias"}),
        replace(good, model={name: value.astype(np.int32) for name, value in good.model.items()}),
        replace(good, settings=replace(good.settings, size=replace(size, context=size.context + 1))),
        replace(good, losses=good.losses[1:]),
        replace(good, losses=good.losses.astype(np.int64)),
        replace(good, optimizer=[*good.optimizer, {"step": 3.0}]),
        replace(good, optimizer=[{**good.optimizer[0], "exp_avg": np.zeros(7, np.float32)}, *good.optimizer[1:]]),
    ]
    for checkpoint in damaged:
        save_checkpoint(path, checkpoint)
        with pytest.raises(CommandError, match=r"x: a damaged checkpoint"):
            load_checkpoint(path)
