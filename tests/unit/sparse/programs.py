"""Random programs with sparse tensors, and training loops with sparse gradients, of PyTorch's names alone: they run
with either library (make_torch_values.py stores what PyTorch gives)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Chain = dict[str, Callable[[Any], Any]]
COUNT = 100


class Program:
    """Sparse and dense leaves and a chain of operators on them, drawn by a seed."""

    def __init__(self, torch: Any, seed: int) -> None:
        self.torch, self.draw, self.numbers = torch, random.Random(seed), np.random.default_rng(seed)
        self.leaves: list[Any] = []
        n, m, k = (self.draw.randint(1, 5) for _ in range(3))
        self.kind = self.draw.choice(["coo", "coo", "coo", "csr", "csc", "hybrid", "deep"])
        sizes = {"hybrid": (n, m, k), "deep": (2, n, m)}.get(self.kind, (n, m))
        self.x, self.y = (self._sparse(sizes, self.draw.choice([0, 3, 12])) for _ in range(2))
        self.like, self.right, self.total = (self._values(*s) for s in (sizes, (m, k), (n, k)))
        self.index = torch.from_numpy(self.numbers.integers(0, sizes[0], 3))
        operators = self._operators()
        self.names = [self.draw.choice(sorted(operators)) for _ in range(self.draw.choice([1, 1, 2, 3]))]
        self.chain = [operators[name] for name in self.names]

    def _values(self, *sizes: int) -> Any:
        values = self.numbers.standard_normal(sizes)
        leaf = self.torch.from_numpy(np.where(np.abs(values) < 0.1, 0.5, values)).requires_grad_()
        self.leaves.append(leaf)
        return leaf

    def _sparse(self, sizes: tuple[int, ...], count: int) -> Any:
        dense = 1 if self.kind == "hybrid" else 0
        places = np.stack([self.numbers.integers(0, n, count) for n in sizes[: len(sizes) - dense]])
        values = self._values(count, *sizes[len(sizes) - dense :])
        tensor = self.torch.sparse_coo_tensor(self.torch.from_numpy(places), values, sizes)
        if self.kind in ("csr", "csc"):
            return tensor.coalesce().to_sparse(layout=getattr(self.torch, f"sparse_{self.kind}"))
        return tensor

    def _operators(self) -> Chain:
        torch, sparse, y, like, right = self.torch, self.torch.sparse, self.y, self.like, self.right
        return {
            "coalesce": lambda x: x.coalesce(), "neg": lambda x: -x, "times": lambda x: x * 2.5,
            "half": lambda x: x / 2, "add": lambda x: x + y, "sub": lambda x: x - y, "mul": lambda x: x * y,
            "mul_dense": lambda x: x * like, "add_dense": lambda x: like + x,
            "alpha": lambda x: torch.add(x, y, alpha=-0.5), "sin": lambda x: x.sin(), "abs": lambda x: x.abs(),
            "relu": lambda x: x.relu(), "square": lambda x: x.pow(2), "sign": lambda x: x.sign(),
            "transpose": lambda x: x.transpose(0, 1), "matmul": lambda x: x @ right,
            "mm": lambda x: sparse.mm(x, right), "of_sparse": lambda x: sparse.mm(x, x.t()),
            "addmm": lambda x: sparse.addmm(self.total, x, right, beta=0.5, alpha=2.0),
            "mv": lambda x: x.mv(right[:, 0]), "bmm": lambda x: torch.bmm(x, torch.stack((right, right))),
            "sum": lambda x: x.sum(), "sum_0": lambda x: sparse.sum(x, 0), "sum_1": lambda x: sparse.sum(x, [1]),
            "sum_last": lambda x: sparse.sum(x, -1), "sum_01": lambda x: sparse.sum(x, [0, 1]),
            "row": lambda x: x[0], "column": lambda x: x.select(1, 0), "last": lambda x: x.select(-1, -1),
            "chosen": lambda x: x.index_select(0, self.index), "narrow": lambda x: x.narrow_copy(0, 0, 1),
            "cat": lambda x: torch.cat([x, y]), "cat_1": lambda x: torch.cat([x, y], 1),
            "stack": lambda x: torch.stack([x, y]), "unsqueeze": lambda x: x.unsqueeze(1),
            "softmax": lambda x: sparse.softmax(x, 1), "softmax_0": lambda x: sparse.softmax(x, 0),
            "log_softmax": lambda x: sparse.log_softmax(x, 1), "mask": lambda x: like.sparse_mask(y),
            "masked": lambda x: x.coalesce().sparse_mask(y.coalesce()), "csr": lambda x: x.to_sparse_csr(),
            "csc": lambda x: x.to_sparse_csc(), "dense": lambda x: x.to_dense(),
            "again": lambda x: x.to_dense().to_sparse(), "by_rows": lambda x: x.to_dense().to_sparse(1),
            "values": lambda x: x.coalesce().values(), "float": lambda x: x.to(torch.float32).to(torch.float64),
            "norm": lambda x: x.norm(), "scaled": lambda x: x.detach().clone().mul_(2),
            "increased": lambda x: x.detach().clone().add_(y.detach()),
            "collected": lambda x: like.detach().clone().add_(x.detach()),
        }

    def run(self) -> dict[str, Any]:
        """The result's layout, sizes and elements, and the gradients of all leaves of a weighted sum of them."""
        x = self.x
        for operator in self.chain:
            x = operator(x)
        full = x.to_dense()
        facts = {"layout": str(x.layout).rpartition(".")[2], "sizes": list(x.shape), "value": _listed(full)}
        if full.requires_grad:
            weights = np.random.default_rng(7).standard_normal(tuple(full.shape))
            (full * self.torch.from_numpy(weights)).sum().backward()
            facts["gradients"] = [[] if t.grad is None else _listed(t.grad.to_dense()) for t in self.leaves]
        return facts


def _listed(tensor: Any) -> list[float]:
    return [round(x, 7) for x in tensor.detach().double().flatten().tolist()]


OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}), ("SGD", {"lr": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.3}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5, "maximize": True}), ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3, "maximize": True}),
]


def table_of(torch: Any, name: str, options: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """A table of six rows, and a step that looks some of them up and moves them."""
    table = torch.nn.Embedding(6, 2, sparse=True, padding_idx=5, dtype=torch.float64)
    with torch.no_grad():
        table.weight.copy_(torch.arange(12.0).reshape(6, 2) / 7)
    optimizer = getattr(torch.optim, name)(table.parameters(), **options)

    def step(rows: Any) -> Any:
        optimizer.zero_grad()
        loss = table(rows).sin().pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return table, step


def rows_of(torch: Any, i: int) -> Any:
    """The rows of step i: some twice, more at each step."""
    return torch.tensor([1, 1, 3 - i % 3] + [4, 5, 0] * i)
