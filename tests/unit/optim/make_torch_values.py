"""Writes torch_values.json and torch_random_runs.json beside this file: what PyTorch gives for reference_cases.py and
random_runs.py. Run it where torch is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

import random_runs
from reference_cases import LBFGS, OPTIMIZERS, SCHEDULERS, minimise, rates, train

values = {
    "torch": torch.__version__,
    "optimizers": [train(torch, name, options) for name, options in OPTIMIZERS],
    "lbfgs": [minimise(torch, options) for options in LBFGS],
    "schedulers": {name: rates(torch, name) for name in SCHEDULERS},
}
Path(__file__).with_name("torch_values.json").write_text(json.dumps(values).replace("], [", "],\n[") + "\n")

runs = {"torch": torch.__version__, "runs": [random_runs.train(torch, seed) for seed in random_runs.SEEDS]}
Path(__file__).with_name("torch_random_runs.json").write_text(json.dumps(runs).replace("], [", "],\n[") + "\n")
