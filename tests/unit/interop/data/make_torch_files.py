"""Write the PyTorch files that test_torch_files.py reads, and what they hold as plain numbers. Needs torch;
run it in this folder."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import torch

HERE = Path(__file__).parent


class Custom:
    """Something that only code can build again."""


def main() -> None:
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.randn(4, 3)).square().sum().backward()
    optimizer.step()
    checkpoint = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "note": "text",
        "losses": [1.5, 0.25],
    }
    torch.save(checkpoint, HERE / "checkpoint.pt")
    numbers = {name: [list(t.shape), t.flatten().tolist()] for name, t in model.state_dict().items()}
    exp_avg = optimizer.state_dict()["state"][0]["exp_avg"]
    (HERE / "checkpoint.json").write_text(json.dumps({"model": numbers, "exp_avg": exp_avg.tolist()}, indent=1) + "\n")

    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    kinds = (
        "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"
    )
    torch.save(
        OrderedDict(
            base=base, turned=base.t(), row=base[1, 1:], empty=torch.zeros(0, 3), scalar=torch.tensor(2.5),
            parameter=torch.nn.Parameter(torch.ones(2)), wants=torch.ones(1, requires_grad=True), size=base.shape,
            dtype=torch.bfloat16, raw=b"\x00\xff", nothing=None, pair=(1, True), names={"a", "b"},
            number=1 + 2j, **{k: torch.tensor([0, 1, 2]).to(getattr(torch, k)) for k in kinds},
        ),
        HERE / "kinds.pt",
    )
    torch.save({"x": torch.ones(2)}, HERE / "protocol4.pt", pickle_protocol=4)
    torch.save({"x": Custom()}, HERE / "custom.pt")
    torch.save({"x": torch.ones(2)}, HERE / "legacy.pt", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
