"""Writes torch_values.json beside this file: what PyTorch gives for reference_cases.py.
Run it where torch is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from reference_cases import LBFGS, OPTIMIZERS, SCHEDULERS, minimise, rates, train

values = {
    "torch": torch.__version__,
    "optimizers": [train(torch, name, options) for name, options in OPTIMIZERS],
    "lbfgs": [minimise(torch, options) for options in LBFGS],
    "schedulers": {name: rates(torch, name) for name in SCHEDULERS},
}
Path(__file__).with_name("torch_values.json").write_text(json.dumps(values).replace("], [", "],\n[") + "\n")
