"""Found from outside, in lazy steps: signs of zeros, sizes of one, drawn numbers, arguments that share memory."""

import math

import numpy as np
import pytest

import weft
from weft import lazy, nn
from weft.nn import functional as F


def compiles():
    return lazy.metrics.counter_value("UncachedCompile") or 0


def ones(*shape):
    return weft.ones(*shape, device="lazy")


def test_zeros_have_signs_in_lazy_steps():
    def step(factor):
        made = ones(2) * factor
        lazy.mark_step(wait=True)
        return [math.copysign(1, v) for v in made.tolist()]

    assert [step(f) for f in (0.0, -0.0, 0.0, 0.5, -0.0)] == [[s, s] for s in (1, -1, 1, 1, -1)]


@pytest.mark.parametrize("split", [False, True])
def test_zeros_have_signs_among_arguments(split):
    f = weft.compile(lambda x, k: x * k, split=split)
    found = [np.signbit(f(weft.ones(1), k).numpy())[0] for k in (0.0, -0.0, 0.5, -0.0, 0.0)]
    assert found == [False, True, False, True, False]


def test_a_layer_with_one_output_in_a_gradient_penalty():
    """The bias' size is an input of the program, the weight's a constant."""
    losses = []
    for device in ("cpu", "lazy"):
        weft.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
        for i in range(3):
            x = weft.tensor(np.random.RandomState(i).rand(4, 3)).float().to(device).requires_grad_()
            (gradient,) = weft.autograd.grad(model(x).sum(), x, create_graph=True)
            loss = ((gradient.norm(dim=1) - 1) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            lazy.mark_step()
            losses.append(loss.item())
    np.testing.assert_allclose(losses[:3], losses[3:], rtol=1e-5)


@pytest.mark.parametrize("draw", [F.dropout, weft.rand_like, weft.bernoulli, lambda x: x.normal_()])
def test_what_draws_beside_a_tensor_compiles_once(draw):
    lazy.reset()
    weft.manual_seed(0)
    lazy.metrics.reset()
    for _ in range(4):
        made = draw(ones(4) * 0.5)  # noqa: F841
        lazy.mark_step(wait=True)
    assert compiles() == 1


def test_a_number_that_a_rule_takes_alone_makes_no_constants_of_drawn_ones():
    """Two channels and a window of two: the window is taken for a size, which the pooling refuses."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3))
    model = model.append(nn.Linear(36, 5)).to("lazy")
    weft.manual_seed(0)
    weft.rand(261)  # generators stand at a large number
    lazy.reset()
    lazy.metrics.reset()
    for i in range(5):
        x = weft.tensor(np.random.RandomState(i).rand(4 + i, 2, 6, 6)).float().to("lazy")
        loss = F.cross_entropy(model(x), weft.zeros(4 + i, dtype=weft.int64, device="lazy"))
        model.zero_grad()
        loss.backward()
        lazy.mark_step(wait=True)
    assert compiles() <= 2


def _step(a, b):
    a.add_(1)
    return a * b


@pytest.mark.parametrize("shown", [
    lambda z: (z, z), lambda z: (z[:3], z[3:]), lambda z: (z[:3], z[1:4]), lambda z: (z[2:5], z[:3]),
    lambda z: (z.view(2, 3)[0], z.view(2, 3).select(1, 0)[0]), lambda z: (z, z.detach()),
])
def test_extracted_steps_see_that_arguments_share_memory(shown):
    run = lazy.extract_compiled_graph(_step, (ones(3), ones(3)))
    for seed in range(2):
        values = weft.tensor(np.random.RandomState(seed).rand(6)).float()
        mine, theirs = values.to("lazy"), values.clone()
        np.testing.assert_array_equal(run(*shown(mine)).numpy(), _step(*shown(theirs)).numpy())
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_a_result_that_is_given_twice_is_one_tensor():
    def twice(a):
        b = a + 1
        return b, b, a

    run = lazy.extract_compiled_graph(twice, (ones(2),))
    x = ones(2)
    first, second, third = run(x)
    assert first is second and third is x


def test_clones_have_addresses_of_their_own():
    x = ones(4)
    same = x.clone()
    assert same.data_ptr() != x.data_ptr()
    assert x.view(2, 2).data_ptr() == x.data_ptr() == x.detach().data_ptr()
    same.add_(1)
    assert x.tolist() == [1, 1, 1, 1]


def test_out_on_another_device_is_refused():
    for out, x in ((weft.zeros(2), ones(2)), (ones(2), weft.zeros(2)), (weft.zeros(2, device="lazy:1"), ones(2))):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            weft.add(x, 1, out=out)


def test_the_in_place_form_names_the_operator_that_is_computed_at_once():
    weft.jit.script("def f(x):\n    x.sub_(1)\n    return x\n")  # scripts enter such forms as operators of their own
    try:
        lazy.config.set_force_fallback("aten::sub_")
        lazy.metrics.reset()
        x = ones(4)
        x[1:].sub_(1)
        assert x.tolist() == [1, 0, 0, 0]
        assert lazy.metrics.counter_value("aten::sub") == 1
    finally:
        lazy.config.set_force_fallback("")


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_copies_of_several_views_take_out(device):
    x = weft.arange(6.0, device=device).view(2, 3)
    out = [weft.empty(0, device=device) for _ in range(3)]
    weft.split_copy(x, 1, 1, out=out)
    assert [t.tolist() for t in out] == [[[0], [3]], [[1], [4]], [[2], [5]]]
    weft.unbind_copy(x, 0, out=out[:2])
    out[0].add_(1)
    assert x[0].tolist() == [0, 1, 2] and out[0].tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="expected 2 tensors as out="):
        weft.unbind_copy(x, 0, out=out)
    assert weft.detach_copy(x).tolist() == x.tolist()
