"""What eager asks of a size holds for every size of a compiled program: captured at one that fits, it refuses another
with eager's error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn
from weft.nn import functional as F

Shape = tuple[int, ...]
REFUSED: dict[str, tuple[Callable[..., Any], Shape, Shape]] = {
    "argmax of nothing": (lambda x: x.argmax(), (2, 3), (0, 3)),
    "argmin along nothing": (lambda x: x.argmin(0), (2, 3), (0, 3)),
    "amax along nothing": (lambda x: x.amax(0), (2, 3), (0, 3)),
    "amin of nothing": (lambda x: x.amin((0, 1)), (2, 3), (2, 0)),
    "max of nothing": (lambda x: x.max(), (2, 3), (0, 3)),
    "min along nothing": (lambda x: x.min(1)[0], (2, 3), (2, 0)),
    "aminmax of nothing": (lambda x: x.aminmax()[0], (2, 3), (0, 3)),
    "median along nothing": (lambda x: x.median(0)[0], (2, 3), (0, 3)),
    "mode along nothing": (lambda x: x.mode(0)[0], (2, 3), (0, 3)),
    "quantile of nothing": (lambda x: x.quantile(0.5), (2, 3), (0, 3)),
    "the first k": (lambda x: x.topk(3, 0)[0], (4, 3), (2, 3)),
    "the k-th": (lambda x: x.kthvalue(3, 0)[0], (4, 3), (2, 3)),
    "one value per channel": (lambda x: F.batch_norm(x, None, None, training=True), (4, 3), (1, 3)),
    "one place per channel": (lambda x: F.instance_norm(x), (4, 3, 5), (4, 3, 1)),
    "one value per group": (lambda x: F.group_norm(x, 3), (4, 3, 2), (1, 3, 1)),
    "pooling of nothing": (lambda x: F.max_pool1d(x, 2), (1, 2, 6), (1, 2, 0)),
    "no output": (lambda x: F.conv_transpose1d(x, weft.ones(2, 2, 1), padding=2), (1, 2, 6), (1, 2, 4)),
    "halves": (lambda x: F.glu(x, 0), (4, 3), (3, 3)),
    "slopes": (lambda x: weft.gradient(x, dim=0)[0], (4, 3), (1, 3)),
    "equal pieces": (lambda x: x.vsplit(2)[0], (4, 3), (3, 3)),
    "interpolation of nothing": (lambda x: F.interpolate(x, size=4), (1, 2, 6), (1, 2, 0)),
    "a copy beyond the storage": (lambda x: weft.as_strided_copy(x, (2, 3), (3, 1)), (6,), (5,)),
    "a write beyond the storage": (lambda x: x.as_strided_scatter(weft.ones(2, 3), (2, 3), (3, 1)), (6,), (5,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_size_is_refused_as_eager_refuses_it(name: str) -> None:
    function, fits, wrong = REFUSED[name]
    with pytest.raises(weft.WeftError) as eager:
        function(weft.rand(wrong))
    for captured_at in (fits, wrong):
        compiled = weft.compile(function)
        if captured_at == fits:
            weft.testing.assert_close(compiled(weft.ones(fits)), function(weft.ones(fits)))
        with pytest.raises(eager.type):
            compiled(weft.rand(wrong))


FOUND: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: x.max(), "argmax": lambda x: x.argmax(), "amin": lambda x: x.amin(0),
    "first two": lambda x: x.topk(2)[0], "median": lambda x: x.median(0)[0],
}


@pytest.mark.parametrize("name", FOUND)
def test_a_size_that_the_program_finds_is_checked_by_the_program(name: str) -> None:
    function = FOUND[name]

    def of_the_positive(x: Tensor) -> Tensor:
        return function(x[x > 0])

    compiled = weft.compile(of_the_positive)
    for values in ([1.0, -2.0, 3.0], [2.0, 5.0, 1.0]):
        x = weft.tensor(values)
        weft.testing.assert_close(compiled(x), of_the_positive(x))
    nothing = -weft.ones(3)
    with pytest.raises(weft.WeftError) as eager:
        of_the_positive(nothing)
    with pytest.raises(eager.type, match=str(eager.value).split("(")[0]):
        compiled(nothing)
    assert not compiled.misses


def test_nothing_is_written_before_a_size_is_found_wrong() -> None:
    total = weft.zeros(())

    @weft.compile
    def step(x: Tensor) -> Tensor:
        total.add_(1)
        total.add_(x[x > 0].max())
        return total * 1

    step(weft.ones(2))
    with pytest.raises(RuntimeError):
        step(-weft.ones(2))
    assert total.item() == 2


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_over_batches_of_any_size(rng: np.random.Generator, momentum: float | None) -> None:
    layers = [nn.BatchNorm1d(3, momentum=momentum) for _ in range(2)]
    run = weft.compile(layers[1])
    for n in (4, 0, 7, 1, 2, 0, 1, 5):
        x = weft.from_numpy(rng.standard_normal((n, 3)).astype(np.float32))
        if n == 1:
            for layer in (layers[0], run):
                with pytest.raises(ValueError, match="more than 1 value per channel"):
                    layer(x)
            layers[0].num_batches_tracked.sub_(1)  # eager counts the batch before it looks at it
        else:
            weft.testing.assert_close(run(x), layers[0](x))
        for name, expected in layers[0].state_dict().items():
            weft.testing.assert_close(layers[1].state_dict()[name], expected)


def test_an_empty_batch_leaves_the_plain_average() -> None:
    layer = nn.BatchNorm1d(1, momentum=None)
    layer(weft.arange(4.0)[:, None])
    layer(weft.ones(0, 1))
    assert layer.running_mean.item() == 1.5 and layer.num_batches_tracked.item() == 2


EMPTY: dict[str, Callable[[Tensor], Any]] = {
    "gather": lambda x: x.gather(0, weft.zeros(0, 3, dtype=weft.int64)),
    "gather of a row": lambda x: x[:, 0].gather(0, weft.zeros(0, dtype=weft.int64)),
    "scatter_add": lambda x: x.scatter_add(0, weft.zeros(0, 3, dtype=weft.int64), x),
    "index_select": lambda x: x.index_select(0, weft.zeros(0, dtype=weft.int64)),
    "rows": lambda x: x[weft.zeros(0, dtype=weft.int64)],
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
    "softmax": lambda x: x.softmax(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "attention": lambda x: F.scaled_dot_product_attention(weft.ones(2, 3), x, x),
    "differences": lambda x: x.diff(dim=0),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_as_eager(name: str) -> None:
    function = EMPTY[name]
    nothing = weft.zeros(0, 3)
    weft.testing.assert_close(weft.compile(function)(nothing), function(nothing), equal_nan=True)


def test_recurrent_layers_of_an_empty_batch() -> None:
    for layer in (nn.LSTM(3, 2), nn.GRU(3, 2), nn.RNN(3, 2)):
        run = weft.compile(lambda x, layer=layer: layer(x)[0])
        for batch in (2, 0, 1):
            x = weft.rand(2, batch, 3)
            weft.testing.assert_close(run(x), layer(x)[0])


def test_shapes_that_only_numpy_refused() -> None:
    for call in (
        lambda: weft.matrix_exp(weft.ones(4, 3)), lambda: weft.masked_select(weft.ones(3, 4), weft.zeros(0) > 0),
        lambda: weft.ops.aten.copy(weft.ones(1, 4), weft.ones(3, 4)),
    ):
        with pytest.raises(RuntimeError, match=r"size|square|shape"):
            call()
    assert (
        F.scaled_dot_product_attention(weft.ones(3, 0), weft.ones(3, 0), weft.ones(3, 2)).tolist() == [[1.0, 1.0]] * 3
    )


def test_an_embedding_without_columns_has_a_gradient() -> None:
    table = weft.rand(4, 0, requires_grad=True)
    F.embedding(weft.tensor([1, 2]), table).sum().backward()
    assert table.grad.shape == (4, 0)


NUMBERS: dict[str, tuple[Callable[[Tensor, int], Tensor], tuple[int, ...]]] = {
    "zeros": (lambda x, n: weft.zeros(x.shape[0] * n), (-1, 2**62, 2**64)),
    "rand": (lambda x, n: weft.rand(n), (-1, 2**62)),
    "expand": (lambda x, n: x.expand(n, 6), (-2,)),
    "repeat": (lambda x, n: x.repeat(n), (-2, 2**62)),
    "repeat_interleave": (lambda x, n: x.repeat_interleave(n), (-2, 2**62)),
    "reshape": (lambda x, n: x.reshape(n, -1), (-2, 0, 4, 2**62)),
    "view": (lambda x, n: x.view(-1, n), (-3, 0, 5)),
    "pad": (lambda x, n: F.pad(x, (n, 0)), (-8, 2**62)),
    "narrow": (lambda x, n: x.narrow(0, 0, n), (-1, 7, 2**62)),
    "arange": (lambda x, n: weft.arange(n), (-1, 2**62)),
    "arange by": (lambda x, n: weft.arange(0, 6, n), (0, -1)),
    "as_strided": (lambda x, n: x.as_strided((n,), (1,)), (-1, 7, 2**62)),
    "unfold": (lambda x, n: x.unfold(0, n, 1), (-1, 7)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_sizes_from_numbers_that_change(name: str) -> None:
    function, wrong = NUMBERS[name]
    x = weft.arange(6.0)
    compiled = weft.compile(function)
    for n in (2, 3, 1):
        assert compiled(x, n).shape == function(x, n).shape
    for n in wrong:
        for run in (function, compiled):
            with pytest.raises(RuntimeError):
                run(x, n)
    assert compiled(x, 2).shape == function(x, 2).shape


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "empty": lambda: weft.empty(2**62), "ones": lambda: weft.ones(2**50), "zeros": lambda: weft.zeros(2**64),
    "rand": lambda: weft.rand(2**50),
    "product": lambda: weft.empty(2**40, 2**40), "arange": lambda: weft.arange(2**50),
    "legacy": lambda: weft.Tensor(2**62),
    "sum of expanded": lambda: weft.ones(1).expand(2**50) + 1, "negated": lambda: -weft.ones(1).expand(2**50),
    "pad": lambda: F.pad(weft.ones(2), (2**60, 0)),
    "layer": lambda: nn.Linear(2**40, 2**40), "resize_": lambda: weft.ones(2).resize_(2**62),
    "repeat": lambda: weft.ones(2).repeat(2**60),
    "in a program": lambda: weft.compile(lambda x: weft.zeros(x.shape[0] * 2**62) + x.sum())(weft.ones(3)),
    "around in 64 bits": lambda: weft.compile(lambda x: weft.zeros(x.shape[0] * 2**62) + x.sum())(weft.ones(4)),
    "a negative size": lambda: weft.ones(6).reshape(-2, 3), "a negative legacy size": lambda: weft.FloatTensor(-1),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_impossible_sizes_are_runtime_errors(name: str) -> None:
    with pytest.raises(RuntimeError):
        TOO_LARGE[name]()
