"""Python objects between ranks, pickled: only for ranks that trust each other, as those of one job do."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from weft.distributed.channel import Array
from weft.distributed.collectives import root_in
from weft.distributed.groups import ProcessGroup, is_member, the_group
from weft.support.errors import ValueProblem


def _pickled(value: Any) -> Array:
    data: Array = np.frombuffer(pickle.dumps(value), np.uint8).copy()
    return data


def _all_sizes(on: ProcessGroup, size: int) -> Array:
    sizes = np.empty(on.size(), np.int64)
    on.start("all_gather_object", on.channel.all_gather(sizes, np.array([size], np.int64))).wait()
    return sizes


def _all_to_one(on: ProcessGroup, value: Any, root: int | None) -> list[Any]:
    """Every rank's object, in rank `root` or (None) in all."""
    mine = _pickled(value)
    sizes = _all_sizes(on, mine.size)
    longest = int(sizes.max())
    padded = np.zeros(longest, np.uint8)
    padded[: mine.size] = mine
    out = np.empty(longest * on.size(), np.uint8)
    if root is None:
        on.start("all_gather_object", on.channel.all_gather(out, padded), keeps=padded).wait()
    else:
        received = out if on.rank() == root else None
        on.start("gather_object", on.channel.gather(received, padded, root), keeps=padded).wait()
        if received is None:
            return []
    rows = out.reshape(on.size(), longest)
    return [pickle.loads(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Every rank's object, in every rank: rank r's in object_list[r]."""
    if is_member(group):
        object_list[:] = _all_to_one(the_group(group), obj, None)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Every rank's object in rank `dst` (0 if not given)."""
    if not is_member(group):
        return
    on = the_group(group)
    root = root_in(on, dst, group_dst, "gather_object", default=0)
    if (on.rank() == root) != (object_gather_list is not None):
        raise ValueProblem("gather_object: the destination gives object_gather_list, and no other rank does")
    values = _all_to_one(on, obj, root)
    if object_gather_list is not None:
        object_gather_list[:] = values


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Rank `src`'s objects (0 if not given), in every rank's list."""
    if not is_member(group):
        return
    on = the_group(group)
    root = root_in(on, src, group_src, "broadcast_object_list", default=0)
    data = _pickled(list(object_list)) if on.rank() == root else np.empty(0, np.uint8)
    size = np.array([data.size], np.int64)
    on.start("broadcast_object_list", on.channel.broadcast(size, root)).wait()
    if on.rank() != root:
        data = np.empty(int(size[0]), np.uint8)
    on.start("broadcast_object_list", on.channel.broadcast(data, root), keeps=data).wait()
    object_list[:] = pickle.loads(data.tobytes())


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:
    """Rank r gets the r-th object of rank `src` (0 if not given) as the first of its output list."""
    if not is_member(group):
        return
    on = the_group(group)
    if not scatter_object_output_list:
        raise ValueProblem("Expected argument scatter_object_output_list to be a list of size at least 1.")
    values = [scatter_object_input_list]
    broadcast_object_list(values, src, on, None, group_src)
    if values[0] is None or len(values[0]) != on.size():
        raise ValueProblem(f"scatter_object_list: the source's list must have {on.size()} objects")
    scatter_object_output_list[0] = values[0][on.rank()]
