"""Parametrized tensors: computed when read, trained through, assigned, removed; weight_norm, spectral_norm and
orthogonal."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.utils.parametrize as parametrize
from weft import nn
from weft.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

RNG = np.random.Generator


class Symmetric(nn.Module):
    calls = 0

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        self.calls += 1
        return x.triu() + x.triu(1).T

    def right_inverse(self, a: weft.Tensor) -> weft.Tensor:
        return a.triu()


class RankOne(nn.Module):
    def forward(self, x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        return x.unsqueeze(-1) @ y.unsqueeze(-2)

    def right_inverse(self, z: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        u, s, vh = weft.linalg.svd(z, full_matrices=False)
        return u[:, 0] * s[0].sqrt(), vh[0] * s[0].sqrt()


class Double(nn.Module):
    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return 2 * x


def test_a_parametrized_weight_is_computed_each_time_and_trained_through() -> None:
    layer = nn.Linear(3, 3)
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert weft.equal(layer.weight, layer.weight.T) and isinstance(layer, nn.Linear)
    assert layer.parametrizations.weight.original is weight and not weft.equal(weight, weight.T)
    assert set(layer.state_dict()) == {"bias", "parametrizations.weight.original"}
    opt = weft.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.detach().clone()
    layer(weft.ones(2, 3)).square().sum().backward()
    opt.step()
    assert not weft.equal(layer.weight, before) and weft.equal(layer.weight, layer.weight.T)
    wanted = weft.tensor([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]])
    layer.weight = wanted
    assert weft.equal(layer.weight, wanted)


def test_parametrizations_follow_each_other_and_are_removed() -> None:
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    once = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Double())
    assert weft.equal(layer.weight, 2 * once) and len(layer.parametrizations.weight) == 2
    parametrize.register_parametrization(layer, "bias", Double())
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear and type(layer).__name__ == "ParametrizedLinear"
    kept = layer.parametrizations.weight.original
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight is kept and weft.equal(layer.weight, 2 * once) and type(layer) is not nn.Linear
    original = layer.parametrizations.bias.original.detach().clone()
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert type(layer) is nn.Linear and weft.equal(layer.bias, original)
    assert set(layer.state_dict()) == {"weight", "bias"}
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


def test_one_tensor_of_several_originals(rng: RNG) -> None:
    layer = nn.Linear(4, 3)
    parametrize.register_parametrization(layer, "weight", RankOne())
    assert set(layer.state_dict()) == {
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1"
    }
    assert int(weft.linalg.matrix_rank(layer.weight)) == 1
    u, v = (weft.from_numpy(rng.normal(size=n).astype(np.float32)) for n in (3, 4))
    layer.weight = weft.outer(u, v)
    np.testing.assert_allclose(layer.weight.detach().numpy(), np.outer(u.numpy(), v.numpy()), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)


def test_within_cached_a_tensor_is_computed_once() -> None:
    layer, form = nn.Linear(3, 3), Symmetric()
    parametrize.register_parametrization(layer, "weight", form)
    calls = form.calls
    with parametrize.cached():
        assert layer.weight is layer.weight and form.calls == calls + 1
    assert layer.weight is not layer.weight and form.calls == calls + 3


class Wider(nn.Module):
    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return weft.cat((x, x))


class Other(nn.Module):
    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return x.double()


@pytest.mark.parametrize(("form", "text"), [(Wider, "shape"), (Other, "dtype")])
def test_what_changes_the_type_is_refused_unless_unsafe(form: Any, text: str) -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=f"may not change the {text}"):
        parametrize.register_parametrization(layer, "weight", form())
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)
    parametrize.register_parametrization(layer, "weight", form(), unsafe=True)
    assert layer.weight.numel() in (4, 8)
    with pytest.raises(ValueError, match="with name 'absent'"):
        parametrize.register_parametrization(layer, "absent", form())


def test_copies_are_their_own_and_pickling_is_refused() -> None:
    layer = weight_norm(nn.Linear(3, 2))
    twin = copy.deepcopy(layer)
    twin.weight = weft.ones(2, 3)
    assert not weft.equal(layer.weight, twin.weight)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)
    third = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(3, 2))
    assert weft.equal(third.weight, layer.weight) and parametrize.is_parametrized(third, "weight")


def test_weight_norm_is_length_times_direction_and_loads_old_names(rng: RNG) -> None:
    for dim in (0, 1, None):
        layer = nn.Linear(4, 3)
        weight = layer.weight.detach().clone()
        weight_norm(layer, dim=dim)
        np.testing.assert_allclose(layer.weight.detach().numpy(), weight.numpy(), rtol=1e-6)
        x = weft.from_numpy(rng.normal(size=(2, 4)).astype(np.float32))
        old = nn.utils.weight_norm(nn.Linear(4, 3), dim=dim)
        layer.load_state_dict(old.state_dict())
        assert weft.equal(layer(x), old(x))
        for model in (layer, old):
            model(x).square().sum().backward()
        wanted = [old.weight_g.grad, old.weight_v.grad]
        for i, grad in enumerate(wanted):
            found = getattr(layer.parametrizations.weight, f"original{i}").grad
            np.testing.assert_allclose(found.numpy(), grad.numpy(), rtol=1e-5, atol=1e-6)


def test_spectral_norm_has_norm_one_and_stands_still_in_evaluation(rng: RNG) -> None:
    for layer in (nn.Linear(5, 3), nn.Conv2d(2, 4, 3), nn.ConvTranspose1d(3, 2, 3)):
        spectral_norm(layer, n_power_iterations=3)
        for _ in range(20):
            weight = layer.weight
        first = 1 if isinstance(layer, nn.ConvTranspose1d) else 0
        matrix = weight.movedim(first, 0).flatten(1)
        assert float(weft.linalg.matrix_norm(matrix, 2)) == pytest.approx(1, abs=1e-3)
        layer.eval()
        vectors = layer.parametrizations.weight[0]._u.clone()
        assert weft.equal(layer.weight, layer.weight) and weft.equal(layer.parametrizations.weight[0]._u, vectors)
    layer = spectral_norm(nn.Linear(4, 3).double()).eval()
    assert weft.autograd.gradcheck(
        lambda w: layer.parametrizations.weight[0](w), layer.parametrizations.weight.original
    )


@pytest.mark.parametrize("form", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights(form: str, shape: tuple[int, ...], trivial: bool) -> None:
    holder = nn.Module()
    holder.weight = nn.Parameter(weft.randn(shape, dtype=weft.float64))
    start = holder.weight.detach().clone()
    orthogonal(holder, orthogonal_map=form, use_trivialization=trivial)
    q = holder.weight if shape[-2] >= shape[-1] else holder.weight.mT
    eye = weft.eye(q.shape[-1], dtype=weft.float64).expand(*q.shape[:-2], -1, -1)
    assert weft.allclose(q.mT @ q, eye)
    if trivial or form == "householder":  # near the weight: what QR makes of it
        tall = start if shape[-2] >= shape[-1] else start.mT
        wanted, r = weft.linalg.qr(tall)
        assert weft.allclose(q, wanted * r.diagonal(0, -2, -1).sign().unsqueeze(-2))
        other = nn.init.orthogonal_(weft.empty(shape[-2:], dtype=weft.float64)).expand(shape)
        holder.weight = other
        assert weft.allclose(holder.weight, other)
    else:
        with pytest.raises(NotImplementedError, match="use_trivialization=False"):
            holder.weight = start
    form_of = holder.parametrizations.weight[0]
    original = holder.parametrizations.weight.original
    moved = (original.detach() + 0.1 * weft.randn(shape, dtype=weft.float64).tril(-1)).requires_grad_()
    assert weft.autograd.gradcheck(form_of, moved)


def test_a_compiled_step_trains_through_a_parametrization() -> None:
    results = []
    for wrap in (lambda f: f, weft.compile):
        weft.manual_seed(1)
        layer = weight_norm(orthogonal(nn.Linear(3, 3)), "bias", None)
        opt = weft.optim.SGD(layer.parameters(), lr=0.1)

        def step(x: weft.Tensor, layer: Any = layer, opt: Any = opt) -> weft.Tensor:
            opt.zero_grad()
            loss = layer(x).square().mean()
            loss.backward()
            opt.step()
            return loss

        run = wrap(step)
        results.append([float(run(weft.ones(n, 3))) for n in (2, 3, 3, 4)])
    assert results[0] == pytest.approx(results[1], rel=1e-5)
