"""Checkpoints of many ranks in a folder: each rank writes a share of the tensors, any number of ranks reads them.

    step-00000012/                 one folder for each save
        rank-0.safetensors ...     the shares
    latest.json                    which folder is whole, and where each tensor is: renamed into place last

A save that is cut short, by a rank that dies or a full disk, leaves `latest.json` as it was, and so the checkpoint
before. Values that are no tensors stand in the index, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.distributed import collectives, objects
from weft.distributed.groups import ProcessGroup, is_initialized, the_group
from weft.interop.safetensors import load_file, save_file
from weft.support.errors import StateError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

INDEX = "latest.json"


def _group(process_group: Any) -> ProcessGroup | None:
    return the_group(process_group) if process_group is not None or is_initialized() else None


def _flat(value: Any, path: str, tensors: dict[str, Tensor], others: dict[str, Any]) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flat(inner, f"{path}/{key}" if path else str(key), tensors, others)
    elif isinstance(value, Tensor):
        tensors[path] = value
    else:
        others[path] = value


def save(state_dict: Mapping[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None) -> None:
    """Write a state (a dict of tensors, JSON values and such dicts), equal in all ranks, into the folder
    `checkpoint_id`. Every rank calls it; when it returns, the checkpoint is whole. Raises ValueProblem for other
    values."""
    group = _group(process_group)
    rank, size = (0, 1) if group is None else (group.rank(), group.size())
    folder = Path(checkpoint_id)
    tensors: dict[str, Tensor] = {}
    others: dict[str, Any] = {}
    _flat(state_dict, "", tensors, others)
    try:
        text = json.dumps(others)
    except TypeError as error:
        raise ValueProblem(f"checkpoint.save: values must be tensors, JSON values or dicts of them ({error})") from None
    name = [f"step-{_next_number(folder):08d}"]
    if group is not None:
        objects.broadcast_object_list(name, group=group, group_src=0)
    shares = _shares(tensors, size)
    part = folder / name[0]
    part.mkdir(parents=True, exist_ok=True)
    file = part / f"rank-{rank}.safetensors"
    save_file({key: tensors[key].detach().contiguous() for key in shares[rank]}, str(file))
    with file.open("rb") as written:
        os.fsync(written.fileno())
    if group is not None:
        collectives.barrier(group)
    if rank == 0:
        places = {key: f"{name[0]}/rank-{r}.safetensors" for r, keys in enumerate(shares) for key in keys}
        _write_index(folder, {"folder": name[0], "tensors": places, "values": json.loads(text)})
    if group is not None:
        collectives.barrier(group)


def _next_number(folder: Path) -> int:
    numbers = [int(p.name[5:]) for p in folder.glob("step-*") if p.name[5:].isdecimal()]
    return max(numbers, default=-1) + 1


def _shares(tensors: dict[str, Tensor], size: int) -> list[list[str]]:
    """Names for each rank, of about equal numbers of bytes."""
    filled, shares = [0] * size, [[] for _ in range(size)]  # type: tuple[list[int], list[list[str]]]
    for key in sorted(tensors, key=lambda key: (-tensors[key].numel() * tensors[key].element_size(), key)):
        rank = filled.index(min(filled))
        shares[rank].append(key)
        filled[rank] += tensors[key].numel() * tensors[key].element_size()
    return shares


def _write_index(folder: Path, index: dict[str, Any]) -> None:
    """Put the new index in the place of the old one, then delete what no index names."""
    draft = folder / f"{INDEX}.part"
    with draft.open("w", encoding="utf-8") as file:
        json.dump(index, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / INDEX)
    for old in folder.glob("step-*"):
        if old.name != index["folder"]:
            shutil.rmtree(old, ignore_errors=True)


def load(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None) -> None:
    """Read a checkpoint into `state_dict`: its tensors are written in place, other values replaced. Any number of
    ranks may read what any number wrote. Raises StateError where it is not there, or lacks a tensor."""
    folder = Path(checkpoint_id)
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(f"checkpoint.load: there is no whole checkpoint in {folder} ({error.strerror})") from None
    tensors: dict[str, Tensor] = {}
    _flat(state_dict, "", tensors, {})
    missing = sorted(tensors.keys() - index["tensors"].keys())
    if missing:
        raise StateError(f"checkpoint.load: {folder} has no {', '.join(missing[:5])}")
    files = sorted({index["tensors"][key] for key in tensors})
    with no_grad():
        for file in files:
            for key, stored in load_file(str(folder / file)).items():
                if key in tensors:
                    tensors[key].copy_(stored)
    for path, value in index["values"].items():
        _put(state_dict, path, value)


def _put(state_dict: Any, path: str, value: Any) -> None:
    for key in state_dict:
        if str(key) == path:
            state_dict[key] = value
        elif isinstance(state_dict[key], dict) and path.startswith(f"{key}/"):
            _put(state_dict[key], path[len(str(key)) + 1 :], value)
