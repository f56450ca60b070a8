"""Densities, entropies, moments, quantiles, supports, shapes and divergences beside those of PyTorch 2.13, of
parameters drawn in cases.py (data/, written by make_torch_values.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.distributions as D

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import DRAWS, KL, MOMENTS, build, build_pair, everything  # noqa: E402

VALUES = np.load(HERE / "data" / "torch_values.npz")
FACTS = json.loads((HERE / "data" / "torch_facts.json").read_text(encoding="utf-8"))
DTYPES = {"f32": (weft.float32, 5e-5), "f64": (weft.float64, 1e-9)}
# where PyTorch's own formula is not exact: polynomials for Bessel functions, short series near a half (of which it
# loses all digits in float32), a constant in float32
ROUGH = {"VonMises": 2e-5, "ContinuousBernoulli": 2e-5, "Multinomial": 1e-7}
WRONG = {("ContinuousBernoulli", "f32"), ("Kumaraswamy", "mode")}  # (the mode is NaN there, whatever the parameters)
NAMES = sorted({name for name, _ in everything()})


def same(actual: Any, key: str, rtol: float) -> None:
    stored = VALUES[key]
    assert tuple(actual.shape) == stored.shape, key
    assert str(actual.dtype).removeprefix("weft.") == str(stored.dtype), key
    np.testing.assert_allclose(actual.detach().numpy(), stored, rtol, rtol, err_msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_values(name: str) -> None:
    compared = 0
    for number in range(DRAWS):
        stored = VALUES[f"{name}/{number}/sample"]
        for short, (dtype, tolerance) in DTYPES.items():
            if (name, short) in WRONG:
                continue
            d, _ = build(weft, name, number, dtype)
            d._validate_args = False
            key, rtol = f"{name}/{number}/{short}", max(tolerance, ROUGH.get(name, 0) if short == "f64" else 0)
            is_index = name == "Categorical"
            value = weft.tensor(stored.tolist(), dtype=weft.int64 if is_index else dtype)
            level = weft.tensor([0.02, 0.3, 0.9], dtype=dtype).reshape((3,) + (1,) * len(d.batch_shape))
            answers = {
                "log_prob": lambda d=d, v=value: d.log_prob(v), "cdf": lambda d=d, v=value: d.cdf(v),
                "icdf": lambda d=d, v=level: d.icdf(v), "entropy": lambda d=d: d.entropy(),
                "enumerate_support": lambda d=d: d.enumerate_support(),
                **{m: lambda d=d, m=m: getattr(d, m) for m in MOMENTS},
            }
            for what, answer in answers.items():
                if f"{key}/{what}" in VALUES.files and (name, what) not in WRONG:
                    same(answer(), f"{key}/{what}", rtol * (20 if short == "f32" and name in ROUGH else 1))
                    compared += 1
    assert compared >= 2 * DRAWS


@pytest.mark.parametrize("name", NAMES)
def test_facts(name: str) -> None:
    """Shapes, supports and what they answer, before and after `expand`."""
    for number in range(DRAWS):
        d, _ = build(weft, name, number, weft.float64)
        facts = FACTS[f"{name}/{number}"]
        for wide, batch in ((d, facts["batch"]), (d.expand((2, *d.batch_shape)), [2, *facts["batch"]])):
            assert list(wide.batch_shape) == batch and list(wide.event_shape) == facts["event"]
            assert bool(wide.has_rsample) == facts["rsample"]
            assert bool(wide.has_enumerate_support) == facts["enumerate"]
            assert wide.support.event_dim == facts["event_dim"]
            assert wide.support.is_discrete == facts["is_discrete"]
            drawn = wide.sample((3,))
            assert list(drawn.shape) == [3, *batch, *facts["event"]] and not drawn.requires_grad
            assert list(wide.log_prob(drawn).shape) == [3, *batch]
        assert repr(d.support).partition("(")[0] == facts["support"].partition("(")[0]


@pytest.mark.parametrize("p, q", KL)
def test_divergences(p: str, q: str) -> None:
    for number in range(2):
        for short, (dtype, tolerance) in DTYPES.items():
            key = f"{p}|{q}/{number}/{short}/kl"
            if key in VALUES.files:
                of_p, of_q = build_pair(weft, p, q, number, dtype)
                actual, stored = D.kl_divergence(of_p, of_q), VALUES[key]
                rtol = max(tolerance * (40 if short == "f32" else 1), ROUGH.get(p, 0), ROUGH.get(q, 0))
                np.testing.assert_allclose(*np.broadcast_arrays(actual.numpy(), stored), rtol, rtol, err_msg=key)


def test_all_names_and_pairs_are_there() -> None:
    assert set(FACTS["names"]) <= set(D.__all__)
    assert all(getattr(D, name) is not None for name in D.__all__)
    pairs = {f"{p.__name__}|{q.__name__}" for p, q in D.kl._KL_REGISTRY}
    assert set(FACTS["registry"]) <= pairs, set(FACTS["registry"]) - pairs
