"""What PyTorch gives for the programs of programs.py: `python make_torch_values.py` with PyTorch installed writes
torch_values.json beside it. Programs that PyTorch refuses are left out."""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from programs import COUNT, OPTIMIZERS, Program, rows_of, table_of

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
programs: dict[str, object] = {}
for seed in itertools.count():
    try:
        programs[str(seed)] = Program(torch, seed).run()
    except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError):
        continue
    if len(programs) == COUNT:
        break
steps = []
for name, options in OPTIMIZERS:
    table, step = table_of(torch, name, options)
    losses = [step(rows_of(torch, i)).item() for i in range(4)]
    steps.append({"losses": losses, "weight": table.weight.flatten().tolist()})
stored = {"torch": torch.__version__, "programs": programs, "steps": steps}
Path(__file__).with_name("torch_values.json").write_text(json.dumps(stored).replace("}, ", "},\n") + "\n")
