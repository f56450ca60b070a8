"""A class that is a Module and a distribution (a prior of GPyTorch's): an internal name was one of Module's, so that it
could not be made; and what was set in the base was not seen through the parameter's own name."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import distributions as D

MAKE: dict[str, tuple[type, dict[str, float]]] = {
    "LogNormal": (D.LogNormal, {"loc": -4.0, "scale": 1.0}), "HalfNormal": (D.HalfNormal, {"scale": 2.0}),
    "HalfCauchy": (D.HalfCauchy, {"scale": 2.0}), "InverseGamma": (D.InverseGamma, {"concentration": 2.0, "rate": 3.0}),
    "Normal": (D.Normal, {"loc": 1.0, "scale": 2.0}), "Gamma": (D.Gamma, {"concentration": 2.0, "rate": 1.0}),
}


@pytest.mark.parametrize("name", MAKE)
def test_a_prior_is_made_and_follows_its_base(name: str) -> None:
    kind, parameters = MAKE[name]

    class Prior(kind, weft.nn.Module):  # type: ignore[misc, valid-type]
        def __init__(self, **values: Any) -> None:
            weft.nn.Module.__init__(self)
            kind.__init__(self, **values)  # type: ignore[misc]
            for each in values:
                self.register_buffer(f"_held_{each}", getattr(self, each))

    prior, plain = Prior(**parameters), kind(**parameters)
    x = weft.tensor([0.5, 2.0])
    assert weft.equal(prior.log_prob(x), plain.log_prob(x))
    assert list(prior.state_dict()) == [f"_held_{each}" for each in parameters]
    if isinstance(plain, D.TransformedDistribution):
        for each in parameters:
            setattr(plain.base_dist, each, weft.tensor(0.5))
        other = kind(**dict.fromkeys(parameters, 0.5))
        assert all(getattr(plain, each).item() == 0.5 for each in parameters)
        assert weft.equal(plain.mean, other.mean) and plain.expand((2,)).mean.shape == (2,)
        assert weft.equal(plain.expand((2,)).log_prob(x), other.log_prob(x))
