"""Pytrees: how their structures read."""

from __future__ import annotations

from weft.support import pytree


def test_the_text_of_a_registered_container():
    class Pair:
        def __init__(self, a, b, tag):
            self.a, self.b, self.tag = a, b, tag

    pytree.register(Pair, lambda p: ([p.a, p.b], (p.tag,)), lambda c, meta: Pair(*c, meta[0]))
    assert repr(pytree.flatten({"p": Pair(1, 2, "left")})[1]) == "dict(p=Pair(*, *))"
