"""Summaries of every kind, as calls of both libraries: weft's `summaries` and PyTorch's
`torch.utils.tensorboard.summary`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "bool", "complex64", "complex128")
LAYOUT = {"losses": {"both": ["Multiline", ["a", "b"]], "band": ["Margin", ["v", "low", "high"]]}}


def calls(s: Any, torch: Any, tensor: Callable[..., Any]) -> dict[str, Any]:
    """By name the Summary of each call. s: the module; tensor: its function for whole tensors."""
    numbers, labels = np.arange(40.0) / 8, np.arange(20) % 3 == 0
    x = torch.tensor([[1, 0, 3]])
    return {
        "scalar": s.scalar("a/b", 0.25),
        "zero": s.scalar("a/b", 0),
        "large": s.scalar("a/b", float("inf")),
        "new style": s.scalar("n", torch.tensor(3.5), new_style=True),
        "double": s.scalar("n", np.float64(1 / 3), new_style=True, double_precision=True),
        "text": s.text("t", "words é"),
        "histogram": s.histogram("h", numbers, np.linspace(-4, 8, 17)),
        "few bins": s.histogram("h", torch.tensor(numbers), "auto", 3),
        "raw": s.histogram_raw("r", -1, 2, 3, 4.5, 9, [0.0, 1.0, 2.0], [1, 0, 2]),
        "curve": s.pr_curve("p", labels, np.linspace(0, 1, 20), 8),
        "layout": s.custom_scalars(LAYOUT),
        "sound": s.audio("s", torch.arange(-8.0, 9.0) / 8, 8000),
        "experiment": s.hparams({"lr": 0.1, "n": "adam", "b": True}, {"accuracy": 1.0}, {"lr": [0.1, 0.2]})[0],
        "start": s.hparams({"lr": 0.1}, {})[1],
        "end": s.hparams({}, {})[2],
        **{dtype: tensor("x", x.to(getattr(torch, dtype))) for dtype in DTYPES},
    }
