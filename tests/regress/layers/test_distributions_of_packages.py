"""Distributions of a package: register_kl takes a base class that is none of weft's, and a class below LogNormal gives
base and transform itself."""

import math
from typing import Any

import pytest

import weft
from weft.distributions import LogNormal, Normal, kl_divergence, register_kl
from weft.distributions.transforms import ExpTransform


def test_a_base_class_of_the_package_serves() -> None:
    class Base:
        pass

    class Mine(Normal, Base):
        pass

    @register_kl(Mine, Base)
    def rule(p: Any, q: Any) -> weft.Tensor:
        return 2 * p.loc - q.loc

    p, q = Mine(weft.tensor(3.0), weft.tensor(1.0)), Mine(weft.tensor(1.0), weft.tensor(1.0))
    with pytest.warns(RuntimeWarning, match="Ambiguous"):  # (Normal, Normal) fits too: the nearest class of p counts
        assert kl_divergence(p, q).item() == 5.0
    assert kl_divergence(Normal(p.loc, p.scale), q).item() == 2.0  # ((3 - 1) ** 2 / 2: weft's own rule)
    with pytest.raises(TypeError, match="Distribution subclass"):
        register_kl(Base(), Base)  # type: ignore[arg-type]


def test_a_class_that_gives_base_and_transform_itself() -> None:
    class Mine(LogNormal):
        def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
            super(LogNormal, self).__init__(Normal(loc, scale), ExpTransform(), validate_args=validate_args)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            return super(LogNormal, self).expand(batch_shape, _instance=self._get_checked_instance(Mine, _instance))

    value, loc, scale = weft.tensor([0.5, 2.0]), 0.3, 0.7
    mine = Mine(weft.tensor(loc), weft.tensor(scale))
    expected = [
        -0.5 * ((math.log(v) - loc) / scale) ** 2 - math.log(v * scale * math.sqrt(2 * math.pi)) for v in (0.5, 2.0)
    ]
    for own in (mine, mine.expand((2,))):
        assert own.log_prob(value).tolist() == pytest.approx(expected, rel=1e-5)
        assert own.mean.flatten()[0].item() == pytest.approx(math.exp(loc + scale**2 / 2), rel=1e-5)
