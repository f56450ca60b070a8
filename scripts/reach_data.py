"""Data sets that scripts would download, as files of the same format with drawn content.

    reach_data.py FOLDER NAME:PATH ...

They are learnable, so that a loss that falls says something: classes differ in their means, words follow each other by
a chain, most edges of a graph stay within a class. The same seed gives both sides the same files.
"""

from __future__ import annotations

import gzip
import pickle
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

WORDS, SENTENCES = 400, 4000
PIXELS = 28


def text(path: Path, sentences: int = SENTENCES) -> None:
    """One file of sentences: each word depends on the one before."""
    rng = np.random.default_rng(0)
    letters = np.array(list("aaabcdeeeefghiiijklmnooopqrstuuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 8))) for _ in range(WORDS)]
    follow = rng.integers(0, WORDS, (WORDS, 6))
    lines, word = [], 0
    for _ in range(sentences):
        line = []
        for _ in range(rng.integers(4, 14)):
            word = int(follow[word, rng.integers(0, 6)]) if rng.random() < 0.9 else int(rng.integers(0, WORDS))
            line.append(words[word])
        lines.append(" ".join(line).capitalize() + ".")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def corpus(folder: Path) -> None:
    """train.txt, valid.txt and test.txt, as WikiText and the Penn Treebank have them."""
    for name, sentences in (("train", 2500), ("valid", 300), ("test", 300)):
        text(folder / f"{name}.txt", sentences)


def tokens(folder: Path) -> None:
    """Shards of tokens below 32000 as uint16, as llama2.c's tinystories.py writes them for Llama 2's vocabulary."""
    rng = np.random.default_rng(0)
    follow = rng.integers(3, 32000, (200, 4))
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(2):
        state, ids = 0, []
        for _ in range(40_000):
            ids.append(int(follow[state, rng.integers(0, 4)]))
            state = ids[-1] % 200
        (folder / f"data{shard:02d}.bin").write_bytes(np.array(ids, dtype=np.uint16).tobytes())


def mnist(folder: Path, train: int = 1000, test: int = 300) -> None:
    """MNIST's four files of ubyte in `folder`/MNIST/raw, plain and packed: ten smooth shapes, moved and noisy."""
    rng = np.random.default_rng(0)
    axis = np.linspace(-1, 1, PIXELS)
    waves = [np.outer(np.cos(i * np.pi * axis), np.cos(j * np.pi * axis)) for i in range(1, 4) for j in range(1, 4)]
    shapes = np.tensordot(rng.standard_normal((10, 9)), np.array(waves), 1)
    shapes /= np.abs(shapes).max((1, 2), keepdims=True)
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        moves = rng.integers(-2, 3, (count, 2))
        images = np.stack([np.roll(shapes[k], tuple(move), (0, 1)) for k, move in zip(labels, moves, strict=True)])
        images = np.clip(images + 0.2 * rng.standard_normal(images.shape), 0, 1)
        pixels = (255 * images).astype(np.uint8).tobytes()
        for kind, content in (
            ("images-idx3", struct.pack(">4i", 2051, count, PIXELS, PIXELS) + pixels),
            ("labels-idx1", struct.pack(">2i", 2049, count) + labels.tobytes()),
        ):
            (raw / f"{name}-{kind}-ubyte").write_bytes(content)
            (raw / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(content, 1))


def citations(nodes: int, words: int, edges: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words [nodes, words], classes [nodes] and edges [edges, 2] of a graph of papers in seven classes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 7, nodes)
    likely = np.where(rng.random((7, words)) < 0.1, 0.08, 0.01)
    has = rng.random((nodes, words)) < likely[classes]
    has[np.arange(nodes), rng.integers(0, words, nodes)] = True
    members = [np.flatnonzero(classes == k) for k in range(7)]
    source = rng.integers(0, nodes, edges)
    same = np.array([rng.choice(members[classes[node]]) for node in source])
    target = np.where(rng.random(edges) < 0.8, same, rng.integers(0, nodes, edges))
    keep = source != target
    return has, classes, np.unique(np.stack([source, target], 1)[keep], axis=0)


def cora(folder: Path) -> None:
    """cora.content (number, words, class) and cora.cites, as the original archive has them."""
    has, classes, edges = citations(2000, 300, 5400)
    rng = np.random.default_rng(1)
    numbers = rng.choice(10_000, len(classes), replace=False) + 30
    folder.mkdir(parents=True, exist_ok=True)
    rows = has.astype(int).astype(str)
    (folder / "cora.content").write_text(
        "".join(f"{n}\t" + "\t".join(row) + f"\tClass_{k}\n" for n, row, k in zip(numbers, rows, classes, strict=True))
    )
    (folder / "cora.cites").write_text("".join(f"{numbers[a]}\t{numbers[b]}\n" for a, b in edges))


def planetoid(folder: Path) -> None:
    """Cora in the pickled files of Planetoid: x, tx, allx, y, ty, ally, graph, test.index in `folder`/Cora/raw."""
    from scipy.sparse import csr_matrix  # what the files hold

    has, classes, edges = citations(2708, 300, 5400)
    one_hot = np.eye(7, dtype=np.int32)[classes]
    graph: dict[int, list[int]] = {node: [] for node in range(len(classes))}
    for a, b in edges.tolist():
        graph[a].append(b)
        graph[b].append(a)
    features, labelled, known = csr_matrix(has.astype(np.float32)), 140, 1708
    parts = {
        "x": features[:labelled], "y": one_hot[:labelled], "allx": features[:known], "ally": one_hot[:known],
        "tx": features[known:], "ty": one_hot[known:], "graph": graph,
    }  # fmt: skip
    raw = folder / "Cora" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(part, protocol=2))
    (raw / "ind.cora.test.index").write_text("".join(f"{i}\n" for i in range(known, len(classes))))


def molecules(folder: Path) -> None:
    """MUTAG in the text files of TUDataset, in `folder`/MUTAG/raw: rings and trees of seven kinds of atoms."""
    rng = np.random.default_rng(0)
    lines: dict[str, list[str]] = {
        key: [] for key in ("A", "edge_labels", "graph_indicator", "graph_labels", "node_labels")
    }
    first = 1
    for graph in range(1, 189):
        ring, size = bool(rng.random() < 0.6), int(rng.integers(10, 28))
        pairs = [(k, int(rng.integers(0, k))) for k in range(1, size)] if not ring else []
        pairs = pairs or [(k, (k + 1) % size) for k in range(size)]
        for a, b in pairs + [(b, a) for a, b in pairs]:
            lines["A"].append(f"{first + a}, {first + b}")
            lines["edge_labels"].append(str(rng.integers(0, 4)))
        lines["graph_indicator"] += [str(graph)] * size
        lines["graph_labels"].append("1" if ring else "-1")
        lines["node_labels"] += [str(k) for k in [*range(7), *rng.integers(0, 7, size - 7).tolist()]]
        first += size
    raw = folder / "MUTAG" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for key, rows in lines.items():
        (raw / f"MUTAG_{key}.txt").write_text("\n".join(rows) + "\n")


WRITERS: dict[str, Callable[[Path], None]] = {
    "text": text, "corpus": corpus, "tokens": tokens, "mnist": mnist, "cora": cora, "planetoid": planetoid,
    "molecules": molecules,
}  # fmt: skip


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0])
    for argument in arguments[1:]:
        name, _, path = argument.partition(":")
        WRITERS[name](folder / path)


if __name__ == "__main__":
    main(sys.argv[1:])
