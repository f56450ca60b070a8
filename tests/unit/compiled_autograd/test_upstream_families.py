"""Families of tests that PyTorch has for compiled autograd, in weft's words: one program run by the engine, by native
and by interpreted captured backwards, with equal values, logs, memory and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft import nn
from weft.support.counters import counters
from weft.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

Rng = np.random.Generator
Program = Callable[[], Iterator[Any]]


def plain(value: Any) -> Any:
    return value.detach().numpy().copy() if isinstance(value, weft.Tensor) else value


def agree(program: Program, captures: int | range) -> None:
    """What a program yields under each walk; each compiler captures so often, and nothing is left to the engine."""
    outcomes: list[list[Any]] = []
    for walk in (ca.disable, ca.enable, lambda: ca.enable(ca.interpret)):
        ca.reset()
        weft.manual_seed(5)
        before = counters.captures, counters.walked_backwards
        with walk():
            outcomes.append([plain(v) for v in program()])
        expected = captures if isinstance(captures, range) else range(captures, captures + 1)
        assert counters.captures - before[0] in (expected if len(outcomes) > 1 else (0,))
        assert counters.walked_backwards == before[1]
    for other in outcomes[1:]:
        assert len(other) == len(outcomes[0])
        for e, f in zip(outcomes[0], other, strict=True):
            if isinstance(e, np.ndarray):
                np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)
            else:
                assert e == f


def small_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def test_hooks_on_everything_run_in_one_order() -> None:
    def program() -> Iterator[Any]:
        for _ in range(3):
            order: list[str] = []
            model = small_model()

            def noted(name: str, order: list[str] = order) -> Callable[..., None]:
                return lambda *given: order.append(name)

            def on_nodes(edges: Any, noted: Any = noted, seen: set[int] | None = None) -> None:
                for node, _ in edges:
                    if node is not None:
                        node.register_prehook(noted(f"before {node.name()}"))
                        node.register_hook(noted(f"behind {node.name()}"))
                        on_nodes(node.next_functions, noted)

            for i, part in enumerate(model):
                part.register_full_backward_pre_hook(noted(f"before part {i}"))
                part.register_full_backward_hook(noted(f"behind part {i}"))
            loss = model(weft.ones(2, 4)).sum()
            on_nodes(((loss.grad_fn, 0),))
            for name, p in model.named_parameters():
                p.register_hook(noted(f"gradient of {name}"))
                p.register_post_accumulate_grad_hook(noted(f"accumulated {name}"))
            loss.backward()
            yield order
            yield from (p.grad for p in model.parameters())

    agree(program, 1)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints(use_reentrant: bool) -> None:
    def program() -> Iterator[Any]:
        for _ in range(3):
            x = weft.rand(4, 4, requires_grad=True)
            y = checkpoint(
                lambda t: (t.sin() * nn.functional.dropout(t.cos(), 0.5)).sum(), x, use_reentrant=use_reentrant
            )
            y.backward()
            yield x.grad
            yield weft.rand(2)

    agree(program, 2 if use_reentrant else 1)  # the region's own backward is another


def test_checkpoints_that_choose_what_they_save() -> None:
    def program() -> Iterator[Any]:
        for policy in (CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_RECOMPUTE):
            model = small_model()
            y = checkpoint(
                model, weft.randn(2, 4), use_reentrant=False,
                context_fn=lambda policy=policy: create_selective_checkpoint_contexts(lambda *_, **__: policy),
            )
            y.sum().backward()
            yield from (p.grad for p in model.parameters())

    agree(program, 1)


def test_saved_tensors_on_disk(tmp_path: Path) -> None:
    class Product(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g * ctx.saved_tensors[0]

    def program() -> Iterator[Any]:
        count = [0]

        def pack(x: weft.Tensor) -> str:
            count[0] += 1
            weft.save(x, tmp_path / f"{count[0]}.pt")
            return f"{count[0]}.pt"

        with weft.autograd.graph.saved_tensors_hooks(pack, lambda name: weft.load(tmp_path / name)):
            for n in (3, 30, 3, 7):
                x = weft.randn(n, requires_grad=True)
                Product.apply(x).backward()
                yield x.grad
        yield count[0]

    agree(program, 1)


def test_what_a_backward_draws_is_drawn() -> None:
    class Draws(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            weft.randn(3)  # nobody reads it
            return g

    def program() -> Iterator[Any]:
        for _ in range(3):
            Draws.apply(weft.ones(2, requires_grad=True)).sum().backward()
            yield weft.rand(2)

    agree(program, 1)


def test_four_orders_are_four_captures_once() -> None:
    def program() -> Iterator[Any]:
        for start in (2.0, 3.0):
            x = weft.tensor(start, requires_grad=True)
            y = x**3
            for _ in range(4):
                (y,) = weft.autograd.grad(y, x, create_graph=True)
                yield y

    agree(program, range(3, 5))  # the second start brings none; node by node the third order has the fourth's shape


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in BadBackward")
@pytest.mark.parametrize("walk", [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)])
def test_anomaly_mode(walk: Any) -> None:
    class Bad(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g * float("nan")

    with weft.autograd.detect_anomaly(), walk():
        x = weft.ones(2, requires_grad=True)
        x.grad = weft.full((2,), float("nan"))
        (x * 2).sum().backward()  # a gradient that was NaN before is none of this backward's
        assert bool(x.grad.isnan().all())
        for run in (lambda y: y.backward(), lambda y: weft.autograd.grad(y, x)):
            with pytest.raises(RuntimeError, match="Function 'BadBackward' returned nan values in its 0th output"):
                run(Bad.apply(x).sum())


class Given(weft.autograd.Function):
    """Gives a new gradient of this number."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, number: float) -> weft.Tensor:
        ctx.number = number
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return weft.full(g.shape, ctx.number), None


@pytest.mark.parametrize("walk", [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)])
def test_gradients_of_functions_arrive_in_grad(rng: Rng, walk: Any) -> None:
    """The cases of accumulation: the first gradient, seen by a hook or kept by it, into a leaf with gaps; in place into
    one that is there; into a new one where a graph is made."""
    number = float(rng.integers(1, 9))
    gaps = weft.zeros(4, 4)[::2, ::2].detach().requires_grad_()
    for leaf, keeps in ((weft.zeros(2, 2, requires_grad=True), False), (weft.zeros(2, 2, requires_grad=True), True),
                        (gaps, True)):
        seen: list[Any] = []
        leaf.register_hook(lambda g, seen=seen, keeps=keeps: seen.append(g if keeps else g.shape))
        with walk():
            Given.apply(leaf, number).sum().backward()
        assert leaf.grad.tolist() == [[number] * 2] * 2 and leaf.grad.is_contiguous() and not leaf.grad.requires_grad
        assert len(seen) == 1
        if keeps:
            assert seen[0].data_ptr() != leaf.grad.data_ptr()
    for create_graph in (False, True):
        leaf = weft.zeros(2, 2, requires_grad=True)
        present = leaf.grad = weft.ones(2, 2)
        with walk(), pytest.warns(UserWarning, match="reference cycle") if create_graph else walk():
            (Given.apply(leaf, number) + leaf * leaf).sum().backward(create_graph=create_graph)
        assert leaf.grad.tolist() == [[number + 1] * 2] * 2
        assert (leaf.grad is present) is not create_graph and leaf.grad.requires_grad is create_graph


def test_rows_that_are_looked_up(rng: Rng) -> None:
    """Their gradients, sparse and dense, are added up row by row into `.grad`, there or not."""
    rows = [int(i) for i in rng.integers(0, 6, 5)]

    def program() -> Iterator[Any]:
        table = weft.zeros(6, 3, requires_grad=True)
        for _ in range(3):
            nn.functional.embedding(weft.tensor(rows), table, sparse=True).sum().backward()
            assert table.grad is not None
            yield table.grad.to_dense()
            table[rows].sum().backward()
            yield table.grad

    agree(program, 2)
    table = weft.zeros(6, 3, requires_grad=True)
    with ca.enable():
        nn.functional.embedding(weft.tensor(rows), table, sparse=True).sum().backward()
    assert table.grad is not None and table.grad.layout is weft.sparse_coo
    np.testing.assert_array_equal(table.grad.to_dense().numpy()[:, 0], np.bincount(rows, minlength=6))


def test_sizes_of_compiled_forwards_are_no_numbers_of_the_backward() -> None:
    """A step of concatenated and reshaped rows at several sizes: the backward is captured once."""
    linear = nn.Linear(12, 8)
    forward = weft.compile(lambda x: linear(weft.cat([x, x]).view(-1, 12)).view(-1, 2, 4).mT.flatten(1).sum(0))

    def program() -> Iterator[Any]:
        for n in (6, 9, 12):
            linear.zero_grad()
            x = weft.randn(n, 4, requires_grad=True)
            forward(x).sum().backward()
            yield x.grad
            yield from (p.grad for p in linear.parameters())

    forward(weft.randn(3, 4, requires_grad=True))
    forward(weft.randn(6, 4, requires_grad=True))
    agree(program, 1)
