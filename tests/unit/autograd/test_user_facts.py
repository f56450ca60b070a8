"""What programs read off autograd: edges as arguments, what hooks may return, identities of saved tensors, warnings,
inference tensors."""

from __future__ import annotations

import copy
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function
from weft.autograd.graph import GradientEdge, get_gradient_edge, saved_tensors_hooks

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


# ---- edges
def test_backward_in_two_parts_through_an_edge(rng: Rng) -> None:
    x = leaf(rng, 3)
    middle = x.sin().sum()
    edge = get_gradient_edge(middle)
    (outer,) = weft.autograd.grad(middle.exp(), (edge,))
    (parts,) = weft.autograd.grad(edge, (x,), grad_outputs=(outer,))
    assert np.allclose(parts.numpy(), np.cos(x.detach().numpy()) * np.exp(np.sin(x.detach().numpy()).sum()))


def test_an_edge_names_the_value_before_a_write(rng: Rng) -> None:
    x = leaf(rng, 2).clone()
    before = get_gradient_edge(x)
    x *= 3
    old, new = weft.autograd.grad(x.sum(), (before, x))
    assert old.tolist() == [3.0, 3.0] and new.tolist() == [1.0, 1.0]


def test_edges_as_roots_are_checked(rng: Rng) -> None:
    x = leaf(rng, 3)
    y = x.sin()
    edge = GradientEdge(y.grad_fn, y.output_nr)
    with pytest.raises(RuntimeError, match="only for scalar"):
        weft.autograd.grad(edge, (x,))
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        weft.autograd.grad(edge, (x,), grad_outputs=weft.ones(4))
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        weft.autograd.grad(edge, (x,), grad_outputs=weft.ones(3, dtype=weft.complex128))
    unused = get_gradient_edge(leaf(rng, 2).clone())
    with pytest.raises(RuntimeError, match="cannot be used when the given input is a GradientEdge"):
        weft.autograd.grad(x.sum(), (x, unused), allow_unused=True, materialize_grads=True)


def test_a_leaf_that_shows_other_memory_is_another_input(rng: Rng) -> None:
    x = leaf(rng, 2)
    edge, out = get_gradient_edge(x), x.clone()
    with weft.no_grad():
        x.set_(weft.rand(4, dtype=weft.float64))
    with pytest.raises(RuntimeError, match="index 0 appears to not have been used"):
        weft.autograd.grad(out.sum(), x, retain_graph=True)
    assert weft.autograd.grad(out.sum(), edge)[0].shape == (2,)
    x.sum().backward()
    assert x.grad is not None and x.grad.shape == (4,)


# ---- inputs= of backward
@pytest.mark.parametrize(("names", "expected"), [
    ("b", ["hook c", "pre c", "post c", "hook b", "pre b", "post b"]),
    ("c", ["hook c", "pre c", "post c"]),
    ("ab", ["hook c", "pre c", "post c", "hook b", "pre b", "post b", "hook a", "pre a", "post a"]),
])
def test_backward_runs_the_nodes_of_its_inputs_and_grad_does_not(names: str, expected: list[str]) -> None:
    log: list[str] = []
    a = weft.tensor(1.0, requires_grad=True)
    b = a.clone()
    c = b * 2
    tensors = {"a": a, "b": b, "c": c}
    nodes = {"a": b.grad_fn.next_functions[0][0], "b": b.grad_fn, "c": c.grad_fn}
    for name, tensor in tensors.items():
        tensor.register_hook(lambda g, name=name: log.append(f"hook {name}"))
        nodes[name].register_prehook(lambda g, name=name: log.append(f"pre {name}"))
        nodes[name].register_hook(lambda i, o, name=name: log.append(f"post {name}"))
    wanted = [tensors[n] for n in names]
    c.backward(inputs=wanted, retain_graph=True)
    assert log == expected
    assert all(t.is_leaf or t.retains_grad for t in wanted)
    log.clear()
    weft.autograd.grad(c, wanted)
    assert log == [e for e in expected if e not in (f"pre {names[0]}", f"post {names[0]}")]


# ---- what hooks may return
def test_hooks_return_what_fits() -> None:
    def run(register: Any) -> None:
        x = weft.ones(3, requires_grad=True)
        y = x * 2
        register(x, y)
        y.sum().backward()

    with pytest.raises(RuntimeError, match="incorrect number of values"):
        run(lambda x, y: y.grad_fn.register_prehook(lambda g: (g[0], g[0])))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        run(lambda x, y: y.grad_fn.register_hook(lambda i, o: (i[0], i[0])))
    with pytest.raises(RuntimeError, match="should return None"):
        run(lambda x, y: x.register_post_accumulate_grad_hook(lambda t: t.grad))
    with pytest.raises(TypeError, match="hook returned 'int'"):
        run(lambda x, y: x.register_post_accumulate_grad_hook(lambda t: 1))
    x = weft.ones(3, requires_grad=True)
    x.sum().backward()  # the engine is usable after each of them
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0, 1.0]


# ---- saved tensors
def test_saved_tensors_are_the_tensors_themselves(rng: Rng) -> None:
    a = leaf(rng, 3)
    b = a * a
    c = a * b
    assert b.grad_fn._saved_self is a and c.grad_fn._saved_other is b
    held = weakref.ref(b)
    del b
    c.sum().backward()
    assert held() is None


def test_a_saved_tensor_that_was_detached_in_place_is_refused(rng: Rng) -> None:
    a = leaf(rng, 2).clone()
    b = a.sin()
    a.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        b.sum().backward()
    a = leaf(rng, 2).clone()
    b = a.exp()  # keeps its result
    a.detach_()
    b.sum().backward()


def test_unpack_hooks_decide_what_backward_sees_of_a_leaf(rng: Rng) -> None:
    for factor in (3.0, 5.0):
        a = leaf(rng, 3)
        with saved_tensors_hooks(lambda t: t * 1.0, lambda t, factor=factor: t * factor):
            y = a * a
        y.sum().backward()
        assert a.grad is not None and np.allclose(a.grad.numpy(), 2 * factor * a.detach().numpy())
    with saved_tensors_hooks(lambda t: t, lambda t: 1):
        y = leaf(rng, 2).exp()
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        y.sum().backward()
    with saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t), pytest.raises(RuntimeError, match="in place"):
        leaf(rng, 2).clone().sin()


def test_deepcopies_share_as_their_sources_do(rng: Rng) -> None:
    whole = weft.from_numpy(rng.standard_normal(6))
    copied = copy.deepcopy([whole, whole[1:3], whole.view(2, 3).t()])
    copied[0][1] = 100.0
    assert copied[1][0].item() == 100.0 and copied[2][1, 0].item() == 100.0 and copied[2].stride() == (1, 3)
    assert whole[1].item() != 100.0


# ---- views that may not be written
def test_views_of_views_inherit_what_forbids_writing() -> None:
    for mode, words in ((weft.no_grad, "inside the no_grad block"), (weft.inference_mode, "inside the inference_mode")):
        x = weft.zeros(2)
        with mode():
            y = x.view(2)
        y.requires_grad_(True)
        z = y.view(2)
        with pytest.raises(RuntimeError, match=f"a view of a view .* is being .* {words}"):
            z /= 2
    several = weft.rand(4, requires_grad=True).clone().unbind(0)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        several[0].view(()).mul_(2)


def test_a_view_from_a_function_stays_one_without_gradients() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g

    view = Same.apply(weft.rand(1, 2))
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        view += weft.rand(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="Output 0 of Same is a view"):
        Same.apply(weft.rand(2, requires_grad=True).clone()).mul_(2)


# ---- custom Functions
def test_setup_context_sees_the_defaults_of_forward(rng: Rng) -> None:
    class Power(Function):
        @staticmethod
        def forward(x: weft.Tensor, n: int = 3) -> weft.Tensor:
            return x**n

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.n = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return g * ctx.n * x ** (ctx.n - 1), None

    x = leaf(rng, 2)
    Power.apply(x).sum().backward()
    assert x.grad is not None and np.allclose(x.grad.numpy(), 3 * x.detach().numpy() ** 2)


def test_gradients_of_results_without_any_can_stay_none() -> None:
    seen: list[Any] = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> Any:
            first, second = x.clone(), x.clone()
            ctx.mark_non_differentiable(second)
            ctx._materialize_non_diff_grads = False
            return first, second

        @staticmethod
        def backward(ctx: Any, g: Any, none: Any) -> Any:
            seen.append(none)
            return g

    Two.apply(weft.tensor(1.0, requires_grad=True))[0].backward()
    assert seen == [None]


# ---- warnings and modes
def test_warnings_that_users_rely_on(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = x * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ = x.grad
        _ = y.grad
        y.retain_grad()
        _ = y.grad
        y.sum().backward(create_graph=True)
    assert ["not a leaf" in str(w.message) or "create_graph=True" in str(w.message) for w in caught] == [True, True]


def test_anomaly_mode_names_the_node_and_what_led_to_it(rng: Rng) -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g * float("nan")

    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return Bad.apply(g * ctx.saved_tensors[0])

    x = leaf(rng, 2)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(
        RuntimeError, match="'BadBackward' returned nan values in its 0th"
    ):
        warnings.simplefilter("always")
        with weft.autograd.detect_anomaly():
            (g,) = weft.autograd.grad(Outer.apply(x).sum(), x, create_graph=True)
            g.sum().backward()
    texts = [str(w.message) for w in caught]
    assert (
        "Anomaly Detection has been enabled" in texts[0] and "Error detected in BadBackward" in texts[1]
        and "Bad.apply" in texts[1]
    )
    assert "OuterBackward" in texts[2] and "Outer.apply" in texts[2]


def test_extrema_of_nan_and_medians_share_their_gradient() -> None:
    for f in (weft.min, weft.max, weft.median, weft.nanmedian):
        x = weft.tensor([float("nan")] * 3, requires_grad=True)
        f(x).backward()
        assert x.grad is not None and np.allclose(x.grad.numpy(), 1 / 3)
    x = weft.tensor([1.0, 3.0, 2.0, 2.0, 3.0], requires_grad=True)
    x.median().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0, 0.5, 0.5, 0.0]


# ---- inference tensors
def test_inference_tensors() -> None:
    x = weft.ones(2, requires_grad=True)
    with weft.inference_mode():
        y = weft.ones(2)
        z, view = x * y, x.view(1, 2)
        y.add_(1)
        assert weft.tensor([1.0]).is_inference() and not weft.is_grad_enabled()
    assert weft.is_inference(y) and z.is_inference() and not view.is_inference() and not z.requires_grad
    assert (
        y.view(1, 2).is_inference() and y.detach().is_inference() and not y.clone().is_inference()
        and not (y * 2).is_inference()
    )
    assert (x + y).requires_grad  # nothing is saved
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        x * y
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.add_(1)
    assert y.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        y.requires_grad_()
    with pytest.raises(RuntimeError, match="do not track version counter"):
        _ = y._version
    weft.zeros(2).add_(y)


def test_inference_mode_switches() -> None:
    @weft.inference_mode
    def inside() -> tuple[bool, bool]:
        with weft.inference_mode(False):
            normal = weft.ones(1).is_inference(), weft.is_grad_enabled()
        assert weft.is_inference_mode_enabled() and weft.ones(1).is_inference()
        return normal

    assert inside() == (False, True)
    assert not weft.is_inference_mode_enabled() and not weft.ones(1).is_inference()


# ---- names that programs use
def test_older_names(rng: Rng) -> None:
    x = weft.autograd.Variable(weft.ones(2), requires_grad=True)
    assert isinstance(x, weft.autograd.Variable) and x.is_leaf and x.requires_grad
    done: list[int] = []

    def hook(g: weft.Tensor) -> None:
        weft.autograd.Variable._execution_engine.queue_callback(lambda: done.append(1))

    x.register_hook(hook)
    with weft.autograd.set_multithreading_enabled(False), weft.autograd.grad_mode.enable_grad():
        (x * 2).sum().backward()
    assert done == [1]
    assert x.clone().grad_fn._input_metadata[0].shape == (2,)
    with pytest.raises(TypeError, match="expected 1 arguments, got 2"):
        (x * 2).grad_fn(weft.ones(2), weft.ones(2))


def test_a_hook_on_one_of_several_results_hears_of_none(rng: Rng) -> None:
    x = leaf(rng, 3)
    first, second, _ = x.unbind()
    seen: list[Any] = []
    first.register_hook(seen.append)
    second.backward()
    assert seen == [None]
    first.backward()
    assert len(seen) == 2 and seen[1].item() == 1
    weft.autograd.grad((x.exp() * 2).sum(), x)  # nothing reaches `first`: not called
    assert len(seen) == 2


def test_a_stale_view_can_still_be_printed() -> None:
    a = weft.ones(1, requires_grad=True)
    with weft.no_grad():
        b = a[:]
        b *= 2
    assert repr(b) == "tensor([2.], grad_fn=<Invalid>)"


def test_checkpoint_switches(rng: Rng) -> None:
    from weft.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    x = leaf(rng, 2)
    with pytest.warns(UserWarning, match="should be passed explicitly"):
        checkpoint(weft.exp, x).sum().backward()
    with pytest.raises(RuntimeError, match=r"is incompatible with \.grad"):
        weft.autograd.grad(checkpoint(weft.exp, x, use_reentrant=True).sum(), x)
    runs: list[int] = []

    def region(t: weft.Tensor) -> weft.Tensor:
        out = t.exp().sin()
        runs.append(1)
        return out

    for stops, expected in ((True, 1), (False, 2)):
        runs.clear()
        with set_checkpoint_early_stop(stops):
            y = checkpoint(region, x, use_reentrant=False)
        y.sum().backward()
        assert len(runs) == expected


def test_grads_of_batches_are_checked(rng: Rng) -> None:
    x = leaf(rng, 2, 2)
    with pytest.raises(RuntimeError, match="we interpret the first"):
        weft.autograd.grad(x.clone(), x, weft.ones(2, 2, dtype=weft.float64), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        weft.autograd.grad(x.sum(), [])


def test_inputs_of_functions_by_name() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, factor: float = 1.0, *, note: str = "") -> weft.Tensor:
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            return g * ctx.factor, None

    x = weft.ones(1, requires_grad=True)
    for made in (Scaled.apply(x, factor=3.0), Scaled.apply(x, 3.0), Scaled.apply(factor=3.0, x=x)):
        (g,) = weft.autograd.grad(made, x)
        assert g.item() == 3
    for wrong in (lambda: Scaled.apply(x, note="a"), lambda: Scaled.apply(x, other=1)):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            wrong()
