"""What users see of saved tensors: results by the names of the schema, positions without a history, what was freed."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("call", [
    lambda x: x.max(0), lambda x: x.sort(0), lambda x: x.topk(2, 0), lambda x: x.kthvalue(1, 0), lambda x: x.mode(0)
])
def test_positions_have_their_name_and_no_history(call: object) -> None:
    values, indices = call(weft.rand(3, 4, requires_grad=True))  # type: ignore[operator]
    saved = values.grad_fn._saved_indices
    assert weft.equal(saved, indices) and not saved.requires_grad and saved.grad_fn is None


def test_hooks_on_what_was_freed() -> None:
    x = weft.rand(3, requires_grad=True)
    y = x * x
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after it has been freed"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = y.grad_fn._saved_self


def test_the_older_name_of_grad_tensors() -> None:
    x = weft.rand(3, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_tensors"):
        weft.autograd.backward(x * 2, grad_variables=weft.ones(3))
    assert weft.equal(x.grad, weft.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="both passed"), pytest.warns(FutureWarning):
        weft.autograd.backward(x * 2, weft.ones(3), grad_variables=weft.ones(3))


def test_a_backward_call_from_nowhere_is_none() -> None:
    """Once such a walk had been captured, the next one was remembered with steps of no node."""
    x = weft.rand(3, requires_grad=True)
    with weft.compiled_autograd.enable():
        for _ in range(3):
            weft.autograd.backward([])
            (x * 2).sum().backward()
    assert weft.equal(x.grad, weft.full((3,), 6.0))
