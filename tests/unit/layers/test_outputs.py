"""out=, Python numbers in place of tensors, and writes of one value: what is taken and what is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

import weft


def test_out_takes_the_result_and_its_shape() -> None:
    n = random.randint(2, 6)
    x, out = weft.randn(n), weft.zeros(n)
    assert weft.exp(x, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.exp(x.numpy()), rtol=1e-6)
    grown = weft.zeros(0)
    weft.exp(x, out=grown)
    assert grown.shape == x.shape


def test_out_of_several_results() -> None:
    x = weft.randn(3, 4)
    values, places = weft.empty(3), weft.empty(3, dtype=weft.int64)
    found = weft.max(x, 1, out=(values, places))
    assert found.values is values and found.indices is places
    np.testing.assert_array_equal(places.numpy(), x.numpy().argmax(1))


def test_out_refuses_gradients_and_dtypes_that_fall() -> None:
    x = weft.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        weft.exp(x, out=weft.zeros(3))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        weft.cat([x, x], out=weft.zeros(6))
    with pytest.raises(RuntimeError, match="can't be cast"):
        weft.exp(x.detach(), out=weft.zeros(3, dtype=weft.int64))


def test_operators_that_move_elements_want_their_own_dtype_and_memory() -> None:
    x, index = weft.randn(4), weft.tensor([2, 0, 1, 3])
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        weft.gather(x, 0, index, out=weft.zeros(4, dtype=weft.float64))
    with pytest.raises(RuntimeError, match="single memory location"):
        weft.gather(x, 0, index, out=x)
    with pytest.raises(RuntimeError, match="single memory location"):
        weft.cat([x, x], out=x)
    y = x.clone()
    weft.cumsum(y, 0, out=y)  # nothing is refused where PyTorch refuses nothing
    np.testing.assert_allclose(y.numpy(), x.numpy().cumsum(), rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["eq", "ne", "lt", "le", "gt", "ge", "fmod", "rsub", "clamp_min", "clamp_max", "fmax", "nextafter"]
)
def test_a_number_first_is_refused_where_a_tensor_is_due(name: str) -> None:
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        getattr(weft, name)(2, weft.ones(3))


@pytest.mark.parametrize("name", ["pow", "remainder", "xlogy"])
def test_a_number_first_needs_a_tensor_after_it(name: str) -> None:
    x = weft.tensor([1.5, 2.5])
    assert getattr(weft, name)(3, x).shape == x.shape
    with pytest.raises(TypeError, match="must be Tensor"):
        getattr(weft, name)(2, 3)


def test_arithmetic_of_numbers_is_a_tensor() -> None:
    a, b = random.randint(2, 9), random.randint(2, 9)
    found = weft.add(a, b)
    assert isinstance(found, weft.Tensor) and found.dtype is weft.int64 and found.item() == a + b
    assert weft.div(a, b).item() == pytest.approx(a / b)


def test_reflected_operators_belong_to_tensors() -> None:
    for name in ("__radd__", "__rmul__", "__rdiv__"):
        with pytest.raises(TypeError, match="belongs to a Tensor"):
            getattr(weft.Tensor, name)(2, weft.ones(2))


def test_one_value_may_be_written_to_shared_elements() -> None:
    base = weft.ones(3, 1)
    shown = base.expand(3, 4)
    shown.zero_()
    assert base.sum().item() == 0
    shown.fill_(2.5)
    assert base.tolist() == [[2.5]] * 3
    with pytest.raises(RuntimeError, match="single memory location"):
        shown.mul_(2)


def test_conj_of_real_numbers_is_the_tensor_itself() -> None:
    x = weft.randn(3)
    assert weft.conj(x) is x and x.conj() is x
    z = weft.tensor([1 + 2j, 3 - 1j])
    assert weft.conj(z).tolist() == [1 - 2j, 3 + 1j]
    assert z.clone().conj_physical_().tolist() == [1 - 2j, 3 + 1j]


def test_like_factories_keep_the_layout() -> None:
    x = weft.randn(2, 3, 4).permute(2, 0, 1)
    for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"):
        assert getattr(weft, name)(x).stride() == x.stride(), name
    assert weft.full_like(x, 3).stride() == x.stride()
    assert weft.zeros_like(x, memory_format=weft.contiguous_format).is_contiguous()
    gaps = weft.randn(4, 6)[:, ::2].t()
    assert weft.zeros_like(gaps).stride() == (1, 3)
    assert float(weft.ones_like(gaps).sum()) == gaps.numel()


def test_clone_can_make_rows_contiguous() -> None:
    x = weft.randn(2, 3).t()
    assert x.clone().stride() == x.stride()
    made = x.clone(memory_format=weft.contiguous_format)
    assert made.is_contiguous() and weft.equal(made, x)


def test_meshgrid_in_cartesian_order() -> None:
    a, b = weft.arange(3), weft.arange(2) + 10
    found = weft.meshgrid(a, b, indexing="xy")
    for ours, theirs in zip(found, np.meshgrid(a.numpy(), b.numpy(), indexing="xy"), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)


def test_nuclear_norm_is_the_sum_of_singular_values() -> None:
    x = weft.randn(4, 3, dtype=weft.float64)
    np.testing.assert_allclose(weft.norm(x, "nuc").item(), np.linalg.norm(x.numpy(), "nuc"), rtol=1e-12)
    kept = weft.norm(x.unsqueeze(0), "nuc", dim=(1, 2), keepdim=True)
    assert tuple(kept.shape) == (1, 1, 1)


def test_several_results_have_names() -> None:
    x = weft.randn(3, 4, requires_grad=True)
    found = x.max(1)
    values, indices = found
    assert isinstance(found, tuple) and found.values is values and found.indices is indices and found[1] is indices
    assert (
        repr(weft.tensor([[1.0, 2.0]]).max(1)) == "weft.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"
    )
    found.values.sum().backward()
    assert x.grad is not None and float(x.grad.sum()) == 3
    sign, logabsdet = weft.linalg.slogdet(weft.eye(2))
    assert weft.linalg.slogdet(weft.eye(2)).sign.item() == sign.item() == 1 and logabsdet.item() == 0
    assert type(weft.var_mean(x)) is tuple


def test_named_results_go_through_compile() -> None:
    @weft.compile
    def largest(x: weft.Tensor) -> weft.Tensor:
        found = x.sort(0, descending=True)
        return found.values[0] + found.indices[0]

    x = weft.randn(5)
    assert largest(x).item() == pytest.approx(x.max().item() + x.argmax().item())
