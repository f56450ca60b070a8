"""Boxes: which of those that overlap are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.onnx.registry import operator
from weft.onnx.values import Host, number
from weft.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


@operator("NonMaxSuppression", counts_elements=True)
def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: Host = None, overlap: Host = None, least: Host = None, *,
    center_point_box: int = 0,
) -> Tensor:
    """Reads the values: how many boxes are kept hangs on them."""
    count = 0 if most is None else int(number(most, "max_output_boxes_per_class"))
    limit = 0.0 if overlap is None else number(overlap, "iou_threshold")
    floor = None if least is None else number(least, "score_threshold")
    selected = []
    for batch, (places, classes) in enumerate(zip(boxes.detach().numpy(), scores.detach().numpy(), strict=True)):
        corners = _corners(places, center_point_box)
        for label, values in enumerate(classes):
            kept: list[int] = []
            for i in np.argsort(-values, kind="stable"):
                if len(kept) == count or (floor is not None and values[i] <= floor):
                    break
                if all(_overlap(corners[i], corners[j]) <= limit for j in kept):
                    kept.append(int(i))
            selected += [(batch, label, i) for i in kept]
    return weft.from_numpy(np.array(selected, np.int64).reshape(-1, 3))


def _corners(boxes: Array, centred: int) -> Array:
    """Boxes as (least, most) of both axes."""
    if centred:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([middle - half, middle + half], 1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], 1)


def _overlap(a: Array, b: Array) -> float:
    """The share of two boxes' union that both cover."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    both = float(sides.prod())
    whole = float((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod()) - both
    return both / whole if whole > 0 else 0.0
