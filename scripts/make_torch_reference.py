"""Train the demo's model in PyTorch and store what came out, for tests/differential and for the demo to compare with.

    python scripts/make_torch_reference.py steps        # 20 steps in four variants -> tests/differential/data
    python scripts/make_torch_reference.py held-out # 1,000 steps -> weft/cli/torch_reference.json
    (2 minutes on 2 cores)

Needs torch and NumPy, in an environment of their own: weft never has torch. Weights, data order and learning rate
come from weft/cli/recipe.py, which is loaded as a file. Made with torch 2.13 (CPU, 2 threads). PyTorch's eager results:
float64 is deterministic here to about 1e-14, float32 to about 1e-6.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "differential" / "data"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


recipe = load(ROOT / "weft" / "cli" / "recipe.py")
fingerprint = load(ROOT / "tests" / "differential" / "fingerprint.py")


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(width, heads), MLP(width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, size: Any) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, size.width), nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.blocks))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, 256, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def make_model(size: Any, seed: int, dtype: str) -> GPT:
    model = GPT(size).to(getattr(torch, dtype))
    weights = recipe.initial_weights(size, seed, getattr(np, dtype))
    assert list(model.state_dict()) == list(weights)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return model


def make_optimizer(model: nn.Module, name: str) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=recipe.SGD_LEARNING_RATE, momentum=recipe.SGD_MOMENTUM)
    return torch.optim.AdamW(
        model.parameters(), lr=recipe.LEARNING_RATE, betas=recipe.BETAS, weight_decay=recipe.WEIGHT_DECAY
    )


def train_step(model: GPT, optimizer: torch.optim.Optimizer, step: int, x: Any, y: Any) -> float:
    peak = recipe.SGD_LEARNING_RATE if isinstance(optimizer, torch.optim.SGD) else recipe.LEARNING_RATE
    for group in optimizer.param_groups:
        group["lr"] = recipe.learning_rate(step, peak)
    optimizer.zero_grad()
    logits = model(torch.from_numpy(x))
    loss = F.cross_entropy(logits.reshape(-1, 256), torch.from_numpy(y).reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), recipe.CLIP)
    optimizer.step()
    return float(loss.detach())


def default_text(python: str = sys.executable) -> bytes:
    """The text that the demo trains on when it is given none, as that Python has it;
    weft/cli/text.py makes the same bytes."""
    code = """import sys; from pydoc_data.topics import topics
sys.stdout.buffer.write("\\n\\n".join(topics[name].strip() for name in sorted(topics)).encode() + b"\\n")"""
    return subprocess.run([python, "-c", code], check=True, capture_output=True).stdout


# ---------------------------------------------------------------- 20 steps

STEPS, SEED = 20, 7
SIZES = {
    "small": (recipe.GPTSize(blocks=2, width=32, heads=4, context=32), 4),
    "demo": (recipe.GPTSize(), 4),  # a quarter of the demo's batch, so that twenty steps in NumPy stay quick
}


def write_steps() -> None:
    tokens, _ = recipe.split(default_text())
    windows: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    exact: dict[str, Any] = {}
    for label, (size, batch) in SIZES.items():
        batches = [recipe.window_batch(tokens, SEED, step, batch, size.context) for step in range(STEPS)]
        windows[label] = np.stack([np.concatenate([x, y[:, -1:]], axis=1) for x, y in batches]).astype(np.uint8)
        for dtype in ("float64", "float32"):
            for optimizer in ("adamw", "sgd"):
                key = f"{label}/{dtype}/{optimizer}"
                if key == "demo/float64/sgd":  # the small model covers it
                    continue
                losses, parameters = run_steps(size, dtype, optimizer, batches)
                runs[key] = {"losses": losses}
                if label == "demo":
                    runs[key]["parameters"] = fingerprint.fingerprint(parameters)
                elif dtype == "float64" or optimizer == "sgd":
                    exact.update({f"{key}/{name}": value for name, value in parameters.items()})
                print(f"{key:24} {losses[0]:.12f} {losses[-1]:.12f}", flush=True)
    DATA.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(DATA / "gpt_windows.npz", **windows)
    np.savez_compressed(DATA / "gpt_small_parameters.npz", **exact)
    about = {
        "torch": torch.__version__, "numpy": np.__version__, "seed": SEED, "steps": STEPS, "script": Path(__file__).name
    }
    (DATA / "gpt_steps.json").write_text(json.dumps({"about": about, "runs": runs}, indent=1) + "\n")


def run_steps(size: Any, dtype: str, name: str, batches: list[Any]) -> tuple[list[float], dict[str, Any]]:
    model = make_model(size, SEED, dtype)
    optimizer = make_optimizer(model, name)
    losses = [train_step(model, optimizer, step, x, y) for step, (x, y) in enumerate(batches)]
    return losses, {name: value.numpy() for name, value in model.state_dict().items()}


# ---------------------------------------------------------------- the demo's whole run


def write_held_out(steps: int, python: str) -> None:
    text, size, batch, seed = default_text(python), recipe.GPTSize(), 16, 0
    tokens, tail = recipe.split(text)
    model = make_model(size, seed, "float32")
    optimizer = make_optimizer(model, "adamw")
    curve, start = {}, time.perf_counter()
    for step in range(steps):
        loss = train_step(model, optimizer, step, *recipe.window_batch(tokens, seed, step, batch, size.context))
        if step == 0 or (step + 1) % 50 == 0:
            curve[step + 1] = round(loss, 6)
            print(f"{step + 1:5} {loss:.4f} {time.perf_counter() - start:6.1f} s", flush=True)
    record = {
        "sha256": hashlib.sha256(text).hexdigest(),
        "bytes": len(text),
        "seed": seed,
        "steps": steps,
        "batch": batch,
        "held_out": round(held_out_loss(model, tail, batch, size.context), 6),
        "curve": curve,
        "seconds": round(time.perf_counter() - start, 1),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    path = ROOT / "weft" / "cli" / "torch_reference.json"
    records = json.loads(path.read_text()) if path.exists() else []
    records = [old for old in records if old["sha256"] != record["sha256"]] + [record]
    path.write_text(json.dumps(sorted(records, key=lambda one: one["bytes"]), indent=1) + "\n")
    print(json.dumps(record))


@torch.no_grad()
def held_out_loss(model: GPT, tail: Any, batch: int, context: int) -> float:
    total, count = 0.0, 0
    for x, y in recipe.held_out_batches(tail, batch, context):
        logits = model(torch.from_numpy(x)).reshape(-1, 256)
        total += float(F.cross_entropy(logits, torch.from_numpy(y).reshape(-1), reduction="sum"))
        count += y.size
    return total / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("steps", "held-out"))
    parser.add_argument("--steps", type=int, default=1000, help="length of the held-out run")
    parser.add_argument(
        "--python", default=sys.executable, help="whose reference topics to train on: they differ by version"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    if arguments.what == "steps":
        write_steps()
    else:
        write_held_out(arguments.steps, arguments.python)


if __name__ == "__main__":
    main()
