"""Write printed.json: texts of tensors as PyTorch prints them, for test_printing.py. Needs torch;
run it in this folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch

EXPRESSIONS = [
    "{t}.tensor([1.0, 2.5])", "{t}.tensor([1.0, 2.0])", "{t}.tensor([1e-5, 2.0])", "{t}.tensor([1e9, 2.0])",
    "{t}.tensor([1e10, 2.5])", "{t}.tensor([float('inf'), 1.0])", "{t}.tensor([float('nan'), 1.5])",
    "{t}.tensor([float('inf'), float('nan')])", "{t}.tensor([-0.0, 1.0])",
    "{t}.tensor([[1.5, float('nan')], [float('-inf'), 2]])", "{t}.tensor([1, 2, 300])",
    "{t}.tensor([[1, 2], [3, -4]], dtype={t}.int32)", "{t}.tensor(True)", "{t}.tensor([True, False])",
    "{t}.tensor(3.5)", "{t}.tensor(3)", "{t}.tensor([])", "{t}.zeros(0, 3)", "{t}.zeros(0, dtype={t}.int64)",
    "{t}.zeros((0, 2), dtype={t}.bool)", "{t}.arange(2000)", "{t}.arange(2000.0).reshape(20, 100)", "{t}.zeros(50, 50)",
    "{t}.ones(2, 3, 4)",
    "{t}.ones(2, 2, 2, 2) * 0.1", "{t}.arange(30.0) * 1.5", "{t}.tensor([1 + 2j, 3.5 - 4j])",
    "{t}.tensor([1 + 2j, 3 - 4j])", "{t}.tensor(1j)",
    "{t}.tensor([1.5, 2], dtype={t}.float64)", "{t}.tensor([1.5, 2], dtype={t}.float16)",
    "{t}.tensor([1.5, 2], dtype={t}.bfloat16)",
    "{t}.tensor([1, 2], dtype={t}.uint8)", "{t}.ones(3, requires_grad=True)", "{t}.ones(3, requires_grad=True) * 2",
    "{t}.tensor([0.00001, 0.0002])",
    "{t}.tensor([-1.5, 2.25, 1000.125])", "{t}.ones(10, 10, 20)", "{t}.tensor([100000000.0])",
    "{t}.tensor([99999999.5])", "{t}.tensor([1e20, 1])",
    "{t}.tensor([1e-3, 2.5])", "{t}.tensor([1.0, 1e4 + 0.5])", "{t}.arange(3000.0).reshape(3, 10, 100)",
    "{t}.nn.Parameter({t}.ones(2))",
    "{t}.empty(2, 3, device='meta')", "{t}.empty(0, device='meta', dtype={t}.int32)",
    "{t}.ones(4).unsqueeze(0).expand(3, 4)",
    "{t}.tensor([1.0, 2.0]).requires_grad_()[1]", "{t}.ones(2, 5).max(1)",
]
OPTIONS: list[dict[str, object]] = [
    {}, {"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"threshold": 5, "edgeitems": 1}, {"linewidth": 40},
    {"profile": "short"},
]


def main() -> None:
    texts = []
    for options in OPTIONS:
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**options)
        texts += [[options, e, repr(eval(e.format(t="torch"))).replace("torch.", "weft.")] for e in EXPRESSIONS]
    (Path(__file__).parent / "printed.json").write_text(json.dumps(texts, indent=0) + "\n")


if __name__ == "__main__":
    main()
