"""Write torch_values.json: what PyTorch gives for the calls of calls.txt within autocast. Needs torch; run it in this
folder. Results of modules, whose weights are drawn, are stored as dtypes alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def calls() -> dict[str, str]:
    """The calls, by name. `a(...)` is a tensor of float32 or bfloat16, `f(...)` one of float32."""
    lines = (HERE / "calls.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def result(torch: Any, code: str, kind: str, dtype: str) -> Any:
    """The tensor that a call gives on operands of one dtype, within autocast to another one."""
    rng = np.random.default_rng(3)

    def f(*size: int) -> Any:
        return torch.from_numpy(rng.uniform(0.1, 0.9, size).astype(np.float32))

    scope = {
        "torch": torch, "nn": torch.nn, "F": torch.nn.functional, "f": f, "index": torch.arange(3),
        "a": lambda *size: f(*size).to(getattr(torch, kind)),
    }
    with torch.autocast("cpu", dtype=getattr(torch, dtype)):
        return eval(code, scope)


def stored(tensor: Any, code: str) -> dict[str, Any]:
    """The dtype of a tensor, and its elements as numbers."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    if "nn." in code:
        return {"dtype": dtype}
    parts = tensor.abs() if tensor.is_complex() else tensor
    return {"dtype": dtype, "values": [round(float(v), 6) for v in parts.detach().double().reshape(-1)]}


def main() -> None:
    import torch

    values = {
        f"{name} {kind} {dtype}": stored(result(torch, code, kind, dtype), code)
        for name, code in calls().items() for kind in ("float32", "bfloat16") for dtype in ("bfloat16", "float16")
        if kind == "float32" or dtype == "bfloat16"
    }
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
    (HERE / "torch_values.json").write_text(f"{{\n{text}\n}}\n")


if __name__ == "__main__":
    main()
