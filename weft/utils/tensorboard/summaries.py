"""What a summary of each kind holds: scalars, histograms, images, sound, texts, tensors, curves, hyperparameters.

Each function gives the bytes of a Summary; the numbers of the fields are TensorBoard's (summary.proto, tensor.proto,
and the proto files of its plugins).
"""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.support.errors import ArgumentError, ShapeError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.utils.tensorboard import messages as m

# TensorFlow's numbers of dtypes, and how a tensor's numbers are stored: the field and its writer
_FLOAT, _DOUBLE, _INT32, _STRING, _INT64 = 1, 2, 3, 7, 9
_INT_FIELD, _LARGE_FIELD = 7, 10
_TENSORS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "float32": (_FLOAT, lambda x: m.singles(5, x.tolist())),
    "float64": (_DOUBLE, lambda x: m.doubles(6, x.tolist())),
    "float16": (19, lambda x: m.integers(13, x.view(np.uint16).tolist())),
    "bfloat16": (14, lambda x: m.integers(13, x.view(np.uint16).tolist())),
    "uint8": (4, lambda x: m.integers(_INT_FIELD, x.tolist())),
    "int16": (5, lambda x: m.integers(_INT_FIELD, x.tolist())),
    "int8": (6, lambda x: m.integers(_INT_FIELD, x.tolist())),
    "int32": (_INT32, lambda x: m.integers(_INT_FIELD, x.tolist())),
    "int64": (_INT64, lambda x: m.integers(_LARGE_FIELD, x.tolist())),
    "bool": (10, lambda x: m.integers(11, x.astype(int).tolist())),
    "complex64": (8, lambda x: m.singles(9, x.view(np.float32).tolist())),
    "complex128": (18, lambda x: m.doubles(12, x.view(np.float64).tolist())),
}
_MOST_THRESHOLDS = 127
_LEAST_COUNT = 1e-7


def array_of(x: Any) -> np.ndarray[Any, Any]:
    """A tensor, an array or a number as an array. Raises ArgumentError."""
    if isinstance(x, Tensor):
        x = x.detach()
        return np.asarray((x.float() if x.dtype == dt.bfloat16 else x).numpy())
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    raise ArgumentError(f"a summary is of a number, an array or a tensor, not of {type(x).__name__}")


def value(tag: str, *fields: bytes) -> bytes:
    """A Summary of one value."""
    return m.message(1, m.text(1, tag) + b"".join(fields))


def plugin(name: str, content: bytes = b"") -> bytes:
    """The metadata that says which of TensorBoard's plugins shows a value."""
    return m.message(9, m.message(1, m.text(1, name) + m.text(2, content)))


def tensor_field(dtype: int, shape: Iterable[int], numbers: bytes) -> bytes:
    """A tensor as a value has it."""
    dims = b"".join(m.message(2, m.integer(1, size)) for size in shape)
    return m.message(8, m.integer(1, dtype) + m.message(2, dims) + numbers)


def scalar(tag: str, x: Any, new_style: bool = False, double_precision: bool = False) -> bytes:
    """One number: as a value of its own (float32), or as a tensor. Raises ShapeError if x holds several."""
    array = array_of(x).squeeze()
    if array.ndim:
        raise ShapeError(f"add_scalar: {tag!r} should be one number, not {array.size} in {array.ndim} dimensions")
    number = float(array)
    if not new_style:
        return value(tag, m.single(2, number, always=True))
    dtype, numbers = (_DOUBLE, m.doubles(6, [number])) if double_precision else (_FLOAT, m.singles(5, [number]))
    return value(tag, m.message(8, m.integer(1, dtype) + numbers), plugin("scalars"))


def tensor(tag: str, x: Tensor) -> bytes:
    """All numbers of a tensor, with its dtype and shape. Raises ArgumentError for a dtype that the format has not."""
    name = str(x.dtype).partition(".")[2]
    if name not in _TENSORS:
        raise ArgumentError(f"add_tensor: {tag!r} has unsupported tensor dtype {x.dtype}")
    dtype, write = _TENSORS[name]
    flat = np.ascontiguousarray(x.detach().view(dt.int16).numpy() if name == "bfloat16" else x.detach().numpy())
    return value(tag, tensor_field(dtype, x.shape, write(flat.reshape(-1))), plugin("tensor"))


def text(tag: str, words: str) -> bytes:
    """A text (Markdown)."""
    return value(f"{tag}/text_summary", tensor_field(_STRING, [1], m.text(8, words, always=True)), plugin("text"))


# ---------------------------------------------------------------- histograms


def histogram_raw(
    tag: str, least: float, most: float, count: float, total: float, squares: float,
    limits: Sequence[float], counts: Sequence[float],
) -> bytes:  # fmt: skip
    """A histogram that is there already: limits are the upper ends of its bins."""
    fields = [m.double(k + 1, float(x)) for k, x in enumerate((least, most, count, total, squares))]
    return value(tag, m.message(5, b"".join(fields) + m.doubles(6, limits) + m.doubles(7, counts)))


def histogram(tag: str, x: Any, bins: Any, most_bins: int | None = None) -> bytes:
    """The histogram of numbers: bins as numpy.histogram takes them, of which only those from the first to the last
    that is not empty are kept, with an empty one before. Raises ArgumentError if there is no number."""
    numbers = array_of(x).astype(np.float64).reshape(-1)
    if not numbers.size:
        raise ArgumentError(f"add_histogram: {tag!r} has no element")
    counts, limits = np.histogram(numbers, bins=bins)
    if most_bins is not None and len(counts) > most_bins:
        width = len(counts) // most_bins
        counts = np.pad(counts, (0, -len(counts) % width)).reshape(-1, width).sum(-1)
        limits = np.append(limits[:-1:width], limits[-1])
    filled = np.flatnonzero(counts)
    first, end = int(filled[0]), int(filled[-1]) + 1
    kept = np.concatenate([[0], counts[first:end]])
    return histogram_raw(
        tag, numbers.min(), numbers.max(), numbers.size, numbers.sum(), float(numbers @ numbers),
        limits[first : end + 1].tolist(), kept.tolist(),
    )  # fmt: skip


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int = 127, weights: Any = None) -> bytes:
    """Precision and recall of predictions in [0, 1] over thresholds (127 at most). labels: 0 or 1."""
    thresholds = min(thresholds, _MOST_THRESHOLDS)
    buckets = np.floor(array_of(predictions) * (thresholds - 1)).astype(np.int32)
    weight = 1.0 if weights is None else array_of(weights)
    positive = array_of(labels).astype(np.float64)
    above = [
        np.cumsum(np.histogram(buckets, thresholds, (0, thresholds - 1), weights=kind * weight)[0][::-1])[::-1]
        for kind in (positive, 1.0 - positive)
    ]
    tp, fp = above
    tn, fn = fp[0] - fp, tp[0] - tp
    precision, recall = tp / np.maximum(_LEAST_COUNT, tp + fp), tp / np.maximum(_LEAST_COUNT, tp + fn)
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, thresholds)


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any, thresholds: int = 127
) -> bytes:
    """A curve that is there already: each of the six is an array [thresholds]."""
    data = np.stack([array_of(row) for row in (tp, fp, tn, fn, precision, recall)])
    field = tensor_field(_FLOAT, data.shape, m.singles(5, data.reshape(-1).tolist()))
    return value(tag, field, plugin("pr_curves", m.integer(2, min(thresholds, _MOST_THRESHOLDS))))


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> bytes:
    """How charts are laid out: {category: {chart: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}."""
    categories = []
    for category, charts in layout.items():
        parts = [m.text(1, category)]
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                chart = m.message(3, m.message(1, b"".join(m.text(k + 1, tag) for k, tag in enumerate(tags))))
            else:
                chart = m.message(2, b"".join(m.text(1, tag, always=True) for tag in tags))
            parts.append(m.message(2, m.text(1, title) + chart))
        categories.append(m.message(2, b"".join(parts)))
    field = tensor_field(_STRING, [], m.text(8, b"".join(categories), always=True))
    return value("custom_scalars__config__", field, plugin("custom_scalars"))


# ---------------------------------------------------------------- images and sound


def image(tag: str, x: Any, dataformats: str) -> bytes:
    """An image. dataformats: the order of x's axes: CHW, HWC, HW; NCHW and NHWC are several in a grid."""
    pixels = pixels_of(x, dataformats)
    height, width, channels = pixels.shape
    fields = m.integer(1, height) + m.integer(2, width) + m.integer(3, channels) + m.text(4, png(pixels))
    return value(tag, m.message(4, fields))


def pixels_of(x: Any, dataformats: str) -> np.ndarray[Any, Any]:
    """Bytes [height, width, channels] of an image whose numbers are bytes, or from 0 to 1. Raises ShapeError."""
    array, order = array_of(x), dataformats.upper()
    if array.ndim != len(order) or len(set(order)) != len(order):
        raise ShapeError(f"an image of size {array.shape} has not the axes {dataformats!r}")
    if len(order) == 4:
        array = grid(array.transpose([order.index(axis) for axis in "NCHW"])).transpose(1, 2, 0)
    elif len(order) == 3:
        array = array.transpose([order.index(axis) for axis in "HWC"])
    else:
        array = array.transpose([order.index(axis) for axis in "HW"])[..., None]
    if array.shape[2] == 1:
        array = np.repeat(array, 3, 2)
    scale = 1 if array.dtype == np.uint8 else 255
    return (array.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def grid(images: np.ndarray[Any, Any], columns: int = 8) -> np.ndarray[Any, Any]:
    """Images [n, channels, height, width] beside each other, eight in a row."""
    if images.shape[1] == 1:
        images = np.repeat(images, 3, 1)
    count, channels, height, width = images.shape
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    padded = np.zeros((rows * columns, channels, height, width), images.dtype)
    padded[:count] = images
    cells = padded.reshape(rows, columns, channels, height, width).transpose(2, 0, 3, 1, 4)
    return np.ascontiguousarray(cells).reshape(channels, rows * height, columns * width)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG file of bytes [height, width, channels]; three channels, or four with opacity."""
    height, width, channels = pixels.shape
    if channels not in (3, 4):
        raise ShapeError(f"an image has 1, 3 or 4 channels, not {channels}")

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    head = struct.pack(">2I5B", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    body = zlib.compress(rows.tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def audio(tag: str, x: Any, rate: int) -> bytes:
    """A sound [samples] from -1 to 1, as a WAV file of 16 bits. Raises ShapeError if it has other axes."""
    array = array_of(x).squeeze()
    if array.ndim != 1:
        raise ShapeError(f"add_audio: {tag!r} should have one dimension, not {array.ndim}")
    samples = (array.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(samples.tobytes())
    fields = m.single(1, rate) + m.integer(2, 1) + m.integer(3, len(samples)) + m.text(4, file.getvalue())
    return value(tag, m.message(6, fields + m.text(5, "audio/wav")))


# ---------------------------------------------------------------- hyperparameters


def hparams(
    values: Mapping[str, Any], metrics: Mapping[str, Any], domains: Mapping[str, Sequence[Any]] | None = None
) -> tuple[bytes, bytes, bytes]:
    """Three summaries: the experiment (which hyperparameters and metrics there are), the session's start (their
    values) and its end. domains: the values that a hyperparameter can have. Raises ArgumentError for values of other
    types than numbers, strings, bools and tensors."""
    starts, infos = [], []
    for name, setting in values.items():
        if setting is None:
            continue
        kind, number = _setting(name, setting)
        starts.append(m.message(1, m.text(1, name) + m.message(2, number)))
        domain = b""
        if domains and name in domains:
            domain = m.message(5, b"".join(m.message(1, _setting(name, x)[1]) for x in domains[name]))
        infos.append(m.message(4, m.text(1, name) + m.integer(4, kind) + domain))
    wanted = [m.message(5, m.message(1, m.text(2, name))) for name in metrics]
    return (
        value("_hparams_/experiment", plugin("hparams", m.message(2, b"".join([*infos, *wanted])))),
        value("_hparams_/session_start_info", plugin("hparams", m.message(3, b"".join(starts)))),
        value("_hparams_/session_end_info", plugin("hparams", m.message(4, m.integer(1, 1)))),
    )


def _setting(name: str, x: Any) -> tuple[int, bytes]:
    """TensorBoard's number of a value's type, and the value."""
    if isinstance(x, str):
        return 1, m.text(3, x, always=True)
    if isinstance(x, (int, float)):  # a bool is a number here, as PyTorch has it
        return 3, m.double(2, float(x), always=True)
    if isinstance(x, Tensor):
        return 3, m.double(2, float(array_of(x).reshape(-1)[0]), always=True)
    raise ArgumentError(f"add_hparams: {name!r} should be an int, float, str, bool or tensor, not {type(x).__name__}")
