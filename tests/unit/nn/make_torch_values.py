"""Writes torch_values.json beside this file: what PyTorch gives for reference_layers.py.
Run it where torch is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from reference_layers import LAYERS, compute

torch.set_default_dtype(torch.float64)
values = {
    "torch": torch.__version__,
    "layers": {expression + str(specs): compute(torch, i) for i, (expression, specs) in enumerate(LAYERS)},
}
rounded = json.loads(json.dumps(values), parse_float=lambda text: float(f"{float(text):.13g}"))
Path(__file__).with_name("torch_values.json").write_text(json.dumps(rounded).replace("}, ", "},\n") + "\n")
