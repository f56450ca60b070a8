"""Write data/torch_values.npz and data/torch_facts.json: what PyTorch's distributions say of the cases in cases.py.

    python tests/unit/distributions/make_torch_values.py     with a Python that has torch 2.13
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
from cases import KL, MOMENTS, build, build_pair, everything  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64}
values: dict[str, Any] = {}
facts: dict[str, Any] = {}


def keep(key: str, compute: Any) -> None:
    """The value, where PyTorch has one; float32 ones are kept as such."""
    try:
        value = compute()
    except (NotImplementedError, AttributeError, RuntimeError):
        return
    values[key] = value.detach().numpy()


def write() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for name, number in everything():
        exact, _ = build(torch, name, number, torch.float64)
        drawn = exact.sample((2,))
        values[f"{name}/{number}/sample"] = drawn.numpy().astype(np.float32)
        for short, dtype in DTYPES.items():
            d, _ = build(torch, name, number, dtype)
            key = f"{name}/{number}/{short}"
            rounded = torch.tensor(values[f"{name}/{number}/sample"].astype(np.float64))
            value = rounded.to(dtype) if drawn.dtype.is_floating_point else drawn
            d._validate_args = False  # samples were rounded to float32
            keep(f"{key}/log_prob", lambda d=d, value=value: d.log_prob(value))
            keep(f"{key}/cdf", lambda d=d, value=value: d.cdf(value))
            keep(f"{key}/entropy", lambda d=d: d.entropy())
            level = torch.tensor([0.02, 0.3, 0.9], dtype=dtype)
            keep(f"{key}/icdf", lambda d=d, level=level: d.icdf(level.reshape((3,) + (1,) * len(d.batch_shape))))
            if d.has_enumerate_support:
                keep(f"{key}/enumerate_support", lambda d=d: d.enumerate_support())
            for moment in MOMENTS:
                keep(f"{key}/{moment}", lambda d=d, moment=moment: getattr(d, moment))
        facts[f"{name}/{number}"] = {
            "batch": list(exact.batch_shape), "event": list(exact.event_shape), "support": repr(exact.support)[:40],
            "rsample": bool(exact.has_rsample), "enumerate": bool(exact.has_enumerate_support),
            "event_dim": exact.support.event_dim, "is_discrete": bool(exact.support.is_discrete),
        }
    for p, q in KL:
        for number in range(2):
            for short, dtype in DTYPES.items():
                of_p, of_q = build_pair(torch, p, q, number, dtype)
                keep(f"{p}|{q}/{number}/{short}/kl", lambda a=of_p, b=of_q: torch.distributions.kl_divergence(a, b))
    (HERE / "data").mkdir(exist_ok=True)
    np.savez_compressed(HERE / "data" / "torch_values.npz", **values)
    facts["registry"] = sorted(f"{p.__name__}|{q.__name__}" for p, q in torch.distributions.kl._KL_REGISTRY)
    facts["names"] = sorted(torch.distributions.__all__)
    (HERE / "data" / "torch_facts.json").write_text(json.dumps(facts, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    write()
