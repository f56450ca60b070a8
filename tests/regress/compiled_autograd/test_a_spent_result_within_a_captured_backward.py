"""A result through which the compiled function has run backward itself, within a backward that is captured: it must
say that the graph is freed. The method of its node called `mark` was taken for the node's line: TypeError."""

import pytest

import weft


def test_it_says_that_the_graph_is_freed() -> None:
    w, kept = weft.ones(3, requires_grad=True), {"loss": weft.zeros(())}

    def step(x: weft.Tensor) -> weft.Tensor:
        kept["loss"] = loss = (x * w).sin().sum()
        loss.backward()
        return x * 2

    weft.compile(step)(weft.ones(3))
    with weft.compiled_autograd.enable(), pytest.raises(weft.errors.StateError, match="a second time"):
        (kept["loss"] * 2).backward()
