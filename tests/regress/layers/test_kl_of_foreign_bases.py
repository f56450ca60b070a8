"""register_kl takes a class that is none of weft's distributions: a package's own base class, mixed into its own."""

from typing import Any

import pytest

import weft
from weft.distributions import Normal, kl_divergence, register_kl


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
