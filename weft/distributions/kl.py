"""kl_divergence: the divergence of two distributions, found by their classes. The formulas are in divergences.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from weft.distributions.distribution import Distribution
from weft.distributions.exp_family import ExponentialFamily
from weft.support.errors import ArgumentError, Unsupported
from weft.support.warn import warn
from weft.tensor.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]
Rule = Callable[[Any, Any], Tensor]
R = TypeVar("R", bound=Rule)
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Rule | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[R], R]:
    """Decorates a function of p and q that gives KL(p || q) for these classes and their subclasses, which need not be
    weft's: a package's own base class of distributions serves. Raises ArgumentError for what is no class."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise ArgumentError(f"Expected a Distribution subclass but got {kind}")

    def enter(rule: R) -> R:
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return enter


def _distance(kind: type, base: type) -> int:
    return kind.__mro__.index(base) if base in kind.__mro__ else len(kind.__mro__)  # (behind those that it names)


def _dispatch_kl(type_p: type, type_q: type) -> Rule | None:
    """The rule of the nearest classes. Where the nearest one of p and the nearest one of q are of two rules, there is a
    warning, and that of p counts."""
    pairs = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return None
    by_p = min(pairs, key=lambda pair: (_distance(type_p, pair[0]), _distance(type_q, pair[1])))
    by_q = min(pairs, key=lambda pair: (_distance(type_q, pair[1]), _distance(type_p, pair[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({by_p[0].__name__}, {by_q[1].__name__})", RuntimeWarning,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence KL(p || q), the mean of log p(x) - log q(x) over x of p, for each element of the
    batch. Raises Unsupported for classes that have none."""
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    rule = _KL_MEMOIZE[pair]
    if rule is None:
        raise Unsupported(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}"
        )
    return rule(p, q)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise Unsupported(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    return p._divergence(q)
