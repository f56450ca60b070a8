"""Write data/tensorboard.json: the bytes of PyTorch 2.13's summaries (python make_tensorboard_values.py, with torch and
tensorboard)."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tensorboard_calls import calls
from torch.utils.tensorboard import summary


def main() -> None:
    written = calls(summary, torch, summary.tensor_proto)
    values = {name: one.SerializeToString(deterministic=True).hex() for name, one in written.items()}
    path = Path(__file__).parent / "data" / "tensorboard.json"
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
