"""Files damaged at random, from a seed: bytes changed, and values of their headers and pickles replaced by odd ones."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import weft
from weft.interop import safetensors

DATA = Path(__file__).parent / "data"
ODD: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**62, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, "", "x", "\ud800", "é" * 50, [], {},
    [[]], [1] * 65, [2**40, 2**40, 0],
    {"dict": [[[], 1]]}, {"tuple": []}, {"ordered": 1}, {"tensor": {}}, {"number": ["V99999999999", 0]},
    {"number": ["object", 0]}, {"bytes": "%"},
    {"complex": ["z", "z"]}, {"float": "z"}, {"dtype": "f"}, {"device": "?"}, {"set": [[1]]}, {"size": ["a"]},
    {"array": 3}, {"array": {"tuple": []}},
]
TEXTS = [b"[" * 50_000, b"1" * 9000, b"1e999999", b"\xff\xfe", b"NaN", b"nul", b'{"a":' * 30_000]


def contents() -> dict[str, list[bytes]]:
    """Whole files of each kind."""
    x = weft.arange(12.0).reshape(3, 4)
    tensors = {
        "a": x, "b.weight": weft.ones(2, dtype=weft.bfloat16), "empty": weft.zeros(0, 3),
        "c": weft.tensor([True, False]),
    }
    own = io.BytesIO()
    weft.save({
        "x": x, "turned": x.t(), "n": [1, 2.5, None, (3, {"k"}), 1j, b"raw", weft.float16, x.shape],
        "state": weft.nn.Linear(2, 3).state_dict(),
    }, own)
    return {
        "safetensors": [safetensors.save(tensors, {"note": "text"})],
        "weft": [own.getvalue()],
        "torch": [(DATA / name).read_bytes() for name in ("kinds.pt", "checkpoint.pt", "protocol4.pt")],
    }


def damaged(kind: str, count: int, seed: int) -> Iterator[bytes]:
    """So many damaged files of a kind."""
    rng = random.Random(f"{kind} {seed}")
    whole = contents()[kind]
    ways: list[Callable[[random.Random, bytes], bytes]] = [_bytes, _torch_pickle if kind == "torch" else _header]
    for _ in range(count):
        yield rng.choice(ways)(rng, rng.choice(whole))


def _bytes(rng: random.Random, content: bytes) -> bytes:
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        at = rng.randrange(len(made) or 1)
        other = rng.randrange(len(made) or 1)
        way = rng.randrange(6)
        if way == 0:
            made[at : at + 1] = bytes([rng.randrange(256)])
        elif way == 1:
            del made[at : at + rng.choice((1, 8, 100, len(made)))]
        elif way == 2:
            made[at:at] = rng.choice((*TEXTS, rng.randbytes(rng.randrange(20))))
        elif way == 3:
            made[at:at] = made[other : other + rng.randrange(64)]
        elif way == 4:
            made[at : at + 8] = struct.pack(
                "<Q", rng.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, rng.randrange(2**64)))
            )
        else:
            made[at : at + 1] = bytes([made[at] ^ 1 << rng.randrange(8)]) if made else b"x"
    return bytes(made)


def _header(rng: random.Random, content: bytes) -> bytes:
    """The header with some of its values replaced; in weft's own files also within the structure,
    which is a text in it."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    structure = header.get("__metadata__", {}).get("weft")
    if structure is not None and rng.random() < 0.7:
        header["__metadata__"]["weft"] = _text_of(rng, json.loads(structure)).decode("utf-8", "surrogateescape")
        text = json.dumps(header).encode("utf-8", "surrogateescape")
    else:
        text = _text_of(rng, header)
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def _text_of(rng: random.Random, tree: Any) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 4))):
        tree = _replaced(rng, tree)
    text = json.dumps(tree).encode()
    if rng.random() < 0.1:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(TEXTS) + text[at + rng.randrange(3) :]
    return text


def _replaced(rng: random.Random, tree: Any) -> Any:
    """The tree with one of its values replaced."""
    if not isinstance(tree, (dict, list)) or not tree or rng.random() < 0.15:
        return rng.choice(ODD)
    if isinstance(tree, list):
        at = rng.randrange(len(tree))
        return [_replaced(rng, v) if i == at else v for i, v in enumerate(tree)]
    chosen = rng.choice(list(tree))
    return {k: _replaced(rng, v) if k == chosen else v for k, v in tree.items()}


def _torch_pickle(rng: random.Random, content: bytes) -> bytes:
    """The archive packed anew, whole, around a damaged pickle."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(
        made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as new:
        for name in old.namelist():
            inner = old.read(name)
            if name.endswith("data.pkl"):
                inner = _opcodes(rng, inner)
            elif rng.random() < 0.05:
                inner = _bytes(rng, inner or b"x")
            new.writestr(name, inner)
    return made.getvalue()


def _opcodes(rng: random.Random, content: bytes) -> bytes:
    """A pickle with opcodes and whole pickled values put in between."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 2, 3, 10))):
        at = rng.randrange(2, len(made))
        if rng.random() < 0.5:
            made[at : at + rng.randrange(2)] = rng.choice((
                b"0", b"2", b"(", b"t", b"e", b"s", b"u", b"R", b"b", b"Q", b"\x85", b"\x86", b"h\x00", b"h\x05",
                b"q\x01", b".",
            ))
        else:
            made[at:at] = pickle.dumps(rng.choice([v for v in ODD if v != "\ud800"]), 2)[2:-1]
    return bytes(made) if rng.random() < 0.7 else _bytes(rng, bytes(made))
