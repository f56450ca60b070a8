"""Files of events: their summaries are PyTorch's bytes, their records have the checksums that TensorBoard asks for."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.utils.tensorboard import SummaryWriter, messages, summaries

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from tensorboard_calls import calls  # noqa: E402

STORED: dict[str, str] = json.loads((HERE / "data" / "tensorboard.json").read_text())


def test_summaries_are_pytorch_s() -> None:
    ours = {name: one.hex() for name, one in calls(summaries, weft, summaries.tensor).items()}
    assert ours == STORED


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8"])
def test_tensors_whose_field_pytorch_mistakes(dtype: str) -> None:
    """PyTorch writes halves as float32's bits, and bytes where TensorFlow looks for uint32: TensorBoard shows zeros."""
    x = weft.tensor([1, 0, 3]).to(getattr(weft, dtype))
    (fields,) = parsed(summaries.tensor("x", x))[1]
    (tensor,) = parsed(fields)[8]
    number, bits = (7, [1, 0, 3]) if dtype == "uint8" else (13, x.view(weft.int16).tolist())
    assert list(varints(parsed(tensor)[number][0])) == bits


def test_checksum() -> None:
    assert messages.crc32c(b"123456789") == 0xE3069283  # RFC 3720's check value of CRC-32C


def test_files_hold_what_was_added(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, max_queue=3) as writer:
        for step in range(5):
            writer.add_scalar("loss", weft.tensor(1.0 / (step + 1)), step, walltime=100.0 + step)
        writer.add_scalars("both", {"a": 1, "b": 2}, 7)
        writer.add_hparams({"lr": 0.5}, {"accuracy": 0.25}, run_name="run")
    (file,) = tmp_path.glob("events.out.tfevents.*")
    first, *events = [parsed(event) for event in records(file.read_bytes())]
    assert first[3] == [b"brain.Event:2"]
    assert [(event.get(2, [0])[0], event[1][0]) for event in events] == [(k, 100.0 + k) for k in range(5)]
    assert [event[5] for event in events] == [[summaries.scalar("loss", 1.0 / (k + 1))] for k in range(5)]
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    below = {path.name: len(list(records(next(path.iterdir()).read_bytes()))) for path in folders}
    assert below == {"both_a": 2, "both_b": 2, "run": 5}


def test_a_run_that_starts_again_hides_later_steps(tmp_path: Path) -> None:
    SummaryWriter(tmp_path, purge_step=9).close()
    (file,) = tmp_path.iterdir()
    _, version, start = [parsed(event) for event in records(file.read_bytes())]
    assert (version[2], version[3], start[2], parsed(start[7][0])) == ([9], [b"brain.Event:2"], [9], {1: [1]})


def test_after_close_another_file_begins(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path)
    writer.close()
    writer.add_text("note", "more")
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("order", ["CHW", "HWC", "NCHW", "NHWC", "HW"])
def test_images(order: str, rng: np.random.Generator) -> None:
    sizes = {"N": int(rng.integers(1, 20)), "C": 3, "H": int(rng.integers(1, 9)), "W": int(rng.integers(1, 9))}
    image = rng.integers(0, 256, [sizes[axis] for axis in order], dtype=np.uint8)
    (fields,) = parsed(summaries.image("i", weft.tensor(image), order))[1]
    shown = parsed(parsed(fields)[4][0])
    pixels = decoded(shown[4][0])
    assert pixels.shape == (shown[1][0], shown[2][0], 3)
    for row, column, expected in cells(image, order):
        at = np.s_[row * sizes["H"] : (row + 1) * sizes["H"], column * sizes["W"] : (column + 1) * sizes["W"]]
        np.testing.assert_array_equal(pixels[at], expected)
    fractions = summaries.pixels_of(image / 255.0, order)
    assert abs(fractions.astype(int) - pixels).max() <= 1


def test_what_is_not_written_is_refused(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(NotImplementedError, match="graphs of models"):
            writer.add_graph(weft.nn.Linear(2, 1), weft.ones(1, 2))
        with pytest.raises(RuntimeError, match="one number"):
            writer.add_scalar("x", weft.ones(2))
        with pytest.raises(TypeError, match="no element"):
            writer.add_histogram("x", weft.ones(0))


# ---------------------------------------------------------------- readers of the formats


def records(data: bytes) -> Iterator[bytes]:
    """What the records of a file hold; their checksums are compared with ones that are computed bit by bit."""
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body, rest = data[12 : 12 + length], data[12 + length :]
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        assert struct.unpack("<I", rest[:4])[0] == masked(body)
        yield body
        data = rest[4:]


def masked(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            low = (register ^ byte >> bit) & 1
            register = register >> 1 ^ (0x82F63B78 if low else 0)
    crc = register ^ 0xFFFFFFFF
    return ((crc >> 15) + (crc << 17) + 0xA282EAD8) % 2**32


def varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def parsed(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number."""
    fields: dict[int, list[Any]] = {}

    def varint() -> int:
        nonlocal data
        end = next(k for k, byte in enumerate(data) if byte < 128) + 1
        (value,) = varints(data[:end])
        data = data[end:]
        return value

    while data:
        number, kind = divmod(varint(), 8)
        if kind == 0:
            fields.setdefault(number, []).append(varint())
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        body, data = data[:size], data[size:]
        fields.setdefault(number, []).append(struct.unpack("<d", body)[0] if kind == 1 else body)
    return fields


def decoded(png: bytes) -> np.ndarray[Any, Any]:
    """Pixels of a PNG file of three channels without filters."""
    width, height = struct.unpack(">2I", png[16:24])
    at = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[at - 4 : at])
    rows = np.frombuffer(zlib.decompress(png[at + 4 : at + 4 + length]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def cells(image: np.ndarray[Any, Any], order: str) -> Iterator[tuple[int, int, np.ndarray[Any, Any]]]:
    """The row, the column and the pixels [H, W, 3] of each image in the grid."""
    if len(order) == 2:
        yield 0, 0, np.stack([image] * 3, -1)
        return
    many = image if "N" in order else image[None]
    for k, one in enumerate(many):
        yield k // 8, k % 8, np.moveaxis(one, order.replace("N", "").index("C"), -1)
