"""Back ends are data: a payload's class, a back end's and one registration make a device (toy_device.py)."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft
from tests.unit.tensor.toy_device import TOY, ToyPayload
from weft.nn import functional as F
from weft.support.errors import NoSuchDevice, StateError


@pytest.fixture(autouse=True)
def counts():
    TOY.counts.clear()
    return TOY.counts


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def toy(array):
    return weft.tensor(array, device="toy")


def values(tensor):
    assert tensor.device == "toy" and type(tensor._data) is ToyPayload
    return tensor.cpu().numpy()


@pytest.fixture
def rng():
    return np.random.default_rng(7)


OPERATORS = {
    "pointwise": lambda x, y: x * y + x.exp() - 2.0 / (y.abs() + 1),
    "comparison": lambda x, y: (x > y).to(weft.float32),
    "reduction": lambda x, y: x.sum(0) + y.mean() + x.amax(),
    "matmul": lambda x, y: x @ y.t(),
    "list": lambda x, y: weft.cat([x, y], 1),
    "where": lambda x, y: weft.where(x > 0, x, y),
    "composite": lambda x, y: F.softmax(x, -1) + F.gelu(y),
    "composite with constants": lambda x, y: F.huber_loss(x, y) + F.one_hot(x.argmax(1), 9).sum(),
    "linear": lambda x, y: F.linear(x, y, y[:, 0]),
    "layer norm": lambda x, y: F.layer_norm(x, (x.shape[1],), y[0], y[1]),
    "several results": lambda x, y: x.max(1).values + y.sort(1).values[:, 0],
    "index": lambda x, y: x[:, 1:] * y[0, 1:] + x[x.argmin(0)].sum(),
    "mask": lambda x, y: x[x > 0].sum() + x.masked_fill(y > 0, 1.0),
    "einsum": lambda x, y: weft.einsum("ij,kj->ik", x, y),
    "std": lambda x, y: x.std(1) + y.var(),
    "norm": lambda x, y: weft.linalg.norm(x) + y.norm(dim=1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, rng, counts):
    x, y = drawn(rng, 4, 5), drawn(rng, 4, 5)
    expected = OPERATORS[name](weft.tensor(x), weft.tensor(y))
    found = OPERATORS[name](toy(x), toy(y))
    np.testing.assert_allclose(values(found), expected.numpy(), rtol=1e-6, atol=1e-6)
    assert counts and not any("read" in what for what in counts if "'cpu'" not in what)


VIEWS = {
    "t": lambda x: x.t(), "reshape": lambda x: x.reshape(-1), "slice": lambda x: x[1:, ::2], "select": lambda x: x[2],
    "expand": lambda x: x[:1].expand(3, 6), "unsqueeze": lambda x: x.unsqueeze(1), "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2, 2), (6, 1), 1), "chunk": lambda x: x.chunk(2, 1)[1],
    "copied": lambda x: x.t().reshape(-1), "unbind": lambda x: x.unbind(1)[3],
    "chain": lambda x: x.t()[1:].unflatten(1, (2, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_and_know_their_base(name, rng):
    array = drawn(rng, 4, 6)
    x, plain = toy(array), weft.tensor(array)
    seen, expected = VIEWS[name](x), VIEWS[name](plain)
    assert seen._is_view() == expected._is_view()
    assert seen.stride() == expected.stride() and seen.storage_offset() == expected.storage_offset()
    if seen._is_view() and name != "expand":
        assert seen._base is x
        seen.mul_(2)
        expected.mul_(2)
        assert x._version == plain._version == seen._version
    np.testing.assert_array_equal(values(x), plain.numpy())


def test_writes(rng, counts):
    array, other = drawn(rng, 3, 4), drawn(rng, 3, 4)
    found = []
    for make in (weft.tensor, toy):
        x, y = make(array), make(other)
        view = x[1]
        x.add_(y, alpha=2)
        x[0] = 1.0
        view.copy_(y[2])
        x.clamp_(-1, 1).t().zero_() if y.sum() > 1e9 else x.clamp_(-1, 1)
        x[y > 0.5] = -7.0
        x.index_add_(0, weft.tensor([2], device=x.device), y[:1])
        weft.add(x, y, out=y)
        found.append((x.cpu().numpy(), y.cpu().numpy(), view.cpu().numpy(), x._version))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert counts["aten::add.Tensor in place"]


def test_gradients_stay_on_the_device(rng):
    weights, inputs = drawn(rng, 5, 4), drawn(rng, 3, 4)
    grads = []
    for make in (weft.tensor, toy):
        w = make(weights).requires_grad_()
        x = make(inputs)
        y = F.gelu(F.linear(x, w))
        y[:, 0] *= 2
        (F.softmax(y, 1).log().sum() + (w ** 2).mean()).backward()
        assert w.grad.device == w.device
        (again,) = weft.autograd.grad((w ** 3).sum(), w, create_graph=True)
        (second,) = weft.autograd.grad(again.sum(), w)
        grads.append((w.grad.cpu().numpy(), second.cpu().numpy()))
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_leaves_do_not_share_a_gradient(rng):
    """The gradient of a sum is one tensor: each leaf has its own."""
    a, b = (toy(drawn(rng, 3)).requires_grad_() for _ in range(2))
    (a + b).sum().backward()
    a.grad.mul_(5)
    np.testing.assert_array_equal(values(b.grad), np.ones(3, np.float32))
    (a + b).sum().backward()
    np.testing.assert_array_equal(values(b.grad), np.full(3, 2, np.float32))


def test_gradients_flow_from_one_device_to_another(rng):
    w = weft.tensor(drawn(rng, 3), requires_grad=True)
    on_device = w.to("toy")
    assert on_device.requires_grad and on_device.device == "toy"
    (on_device * on_device).sum().cpu().backward()
    assert w.grad.device == "cpu"
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy(), rtol=1e-6)


def test_a_version_is_checked_before_backward(rng):
    x = toy(drawn(rng, 3)).requires_grad_()
    y = x.exp()
    z = y.sum()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
        y.sum().backward()


FACTORIES = {
    "zeros": lambda d: weft.zeros(2, 3, device=d),
    "ones": lambda d: weft.ones(2, dtype=weft.int64, device=d),
    "full": lambda d: weft.full((2,), 7.0, device=d),
    "arange": lambda d: weft.arange(5, device=d),
    "eye": lambda d: weft.eye(3, device=d),
    "linspace": lambda d: weft.linspace(0, 1, 4, device=d),
    "tensor": lambda d: weft.tensor([[1, 2]], device=d),
    "zeros_like": lambda d: weft.zeros_like(weft.ones(2, 2), device=d),
    "new_full": lambda d: weft.ones(2).new_full((2,), 3.0, device=d),
    "scalar": lambda d: weft.scalar_tensor(2.5, device=d),
    "hann": lambda d: weft.hann_window(5, device=d),
    "tril": lambda d: weft.tril_indices(3, 3, device=d),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_by_device(name):
    expected = FACTORIES[name]("cpu")
    found = FACTORIES[name]("toy")
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(values(found), expected.numpy())


def test_factories_take_the_device_of_what_they_are_like(rng):
    x = toy(drawn(rng, 2, 3)).t()
    assert values(weft.zeros_like(x)).shape == (3, 2)
    assert values(x.new_zeros(4)).shape == (4,)
    assert values(weft.rand_like(x)).shape == (3, 2)
    assert weft.empty_like(x, device="cpu").device == "cpu"
    assert values(weft.randn(3, device="toy")).shape == (3,)


def test_what_is_read(rng):
    array = drawn(rng, 2, 2)
    x = toy(array)
    assert x[0, 0].item() == array[0, 0] and float(x[1, 1]) == array[1, 1] and bool(x[0, 0] > -100)
    assert x.tolist() == array.tolist()
    assert x.device.type == "toy" and not x.is_meta and not x.is_cpu and x.cpu().is_cpu
    assert x.nbytes == 16 and x.is_contiguous()
    assert x.shape == (2, 2) and x.dtype is weft.float32
    assert repr(x) == repr(x.cpu())[:-1] + ", device='toy')"
    assert f"{x[0, 0]:.2f}" == f"{array[0, 0]:.2f}"
    assert x.to("toy") is x
    np.testing.assert_array_equal(x.to("cpu").numpy(), array)
    assert x.to("meta").device == "meta"


def test_copies_and_aliases(rng):
    x = toy(drawn(rng, 3)).requires_grad_()
    again = copy.deepcopy(x)
    assert again.requires_grad and again.device == "toy"
    with weft.no_grad():
        again.zero_()
    assert values(x.detach()).any()
    alias = x.detach()
    alias.fill_(2.0)
    np.testing.assert_array_equal(values(x.detach()), np.full(3, 2, np.float32))
    assert x._version == alias._version == 1
    x.data = toy(np.zeros(3, np.float32))
    assert not values(x.detach()).any()


def test_transforms(rng):
    array = drawn(rng, 3, 4)
    for make in (weft.tensor, toy):
        x = make(array)
        per_example = weft.func.vmap(lambda r: F.softmax(r, 0).sum() * r.max())(x)
        gradient = weft.func.grad(lambda r: F.huber_loss(r, weft.zeros_like(r)))(x)
        tangent = weft.func.jvp(lambda r: r.sin() * 2, (x,), (x,))[1]
        found = [t.cpu().numpy() for t in (per_example, gradient, tangent)]
        if make is weft.tensor:
            expected = found
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_module_trains_on_it(rng):
    data, target = drawn(rng, 6, 4), rng.integers(0, 3, 6)
    losses = []
    for device in ("cpu", "toy"):
        weft.manual_seed(3)
        layers = (weft.nn.Linear(4, 8), weft.nn.GELU(), weft.nn.LayerNorm(8), weft.nn.Linear(8, 3))
        model = weft.nn.Sequential(*layers).to(device)
        optimizer = weft.optim.AdamW(model.parameters(), lr=0.01)
        x, y = weft.tensor(data, device=device), weft.tensor(target, device=device)
        run = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            run.append(loss.item())
        losses.append(run)
        assert all(p.device.type == device and p.grad.device.type == device for p in model.parameters())
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_a_device_that_nobody_registered_is_refused():
    with pytest.raises(NoSuchDevice):
        weft.zeros(2, device="cuda")
    with pytest.raises(StateError, match="device type at start"):
        weft.zeros(2, device="tay")


def test_pickle_says_the_device(rng):
    array = drawn(rng, 2, 3)
    again = pickle.loads(pickle.dumps(toy(array).requires_grad_()))
    assert again.requires_grad
    np.testing.assert_array_equal(values(again.detach()), array)


def test_out_of_the_same_memory_is_refused(rng):
    x = toy(drawn(rng, 4))
    with pytest.raises(StateError, match="refer to a single memory location"):
        weft.gather(x, 0, weft.arange(4, device="toy"), out=x)
    with pytest.raises(StateError, match="more than one element"):
        weft.neg(x, out=x[:1].expand(4))


def test_inference_tensors(rng):
    with weft.inference_mode():
        x = toy(drawn(rng, 3)) * 2
    assert not x.requires_grad
    np.testing.assert_array_equal(values(x + 0), values(x))


def test_anomaly_mode_sees_its_values():
    x = toy(np.zeros(2, np.float32)).requires_grad_()
    with pytest.warns(UserWarning), weft.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan values"):
        (x / x).sum().backward()
