"""What programs do with modules besides calling them: sums of Sequentials, Buffers, submodules by name,
errors that say what is missing, pickles."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F
from weft.nn.utils.rnn import pack_sequence


def test_sequentials_add_and_multiply() -> None:
    a, b, c = nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)
    both = nn.Sequential(a, b) + nn.Sequential(c)
    assert list(both) == [a, b, c] and list(both.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert list(nn.Sequential(a, b) * 2) == [a, b, a, b] == list(2 * nn.Sequential(a, b))
    grown = nn.Sequential(a)
    grown += nn.Sequential(c)
    grown *= 2
    assert (
        list(grown.insert(1, b)) == [a, b, c, a, c] and grown.pop(-1) is c
        and list(grown._modules) == ["0", "1", "2", "3"]
    )
    for wrong, kind in (
        (lambda: grown * 0, ValueError), (lambda: grown * "a", TypeError),
        (lambda: operator.add(grown, [a]), ValueError), (lambda: grown.insert(9, a), IndexError),
    ):
        with pytest.raises(kind):
            wrong()


def test_buffers_by_assignment() -> None:
    m = nn.Module()
    m.kept = nn.Buffer(weft.ones(2))
    m.dropped = nn.Buffer(weft.ones(3), persistent=False)
    assert isinstance(m.kept, nn.Buffer) and not isinstance(weft.ones(1), nn.Buffer)
    assert [n for n, _ in m.named_buffers()] == ["kept", "dropped"] and list(m.state_dict()) == ["kept"]
    m.kept = nn.Parameter(weft.ones(1))
    assert not dict(m.named_buffers()).keys() - {"dropped"} and list(dict(m.named_parameters())) == ["kept"]


def test_submodules_by_name() -> None:
    m = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    new = nn.ReLU()
    m.set_submodule("0.0", new)
    assert m.get_submodule("0.0") is new
    for wrong, kind in ((lambda: m.set_submodule("", new), ValueError), (
        lambda: m.set_submodule("0.5", new, strict=True), AttributeError
    )):
        with pytest.raises(kind):
            wrong()


def test_bases_with_an_init_of_their_own() -> None:
    class Mixin:
        def __init__(self, **kwargs: Any) -> None:
            self.seen = kwargs

    class Both(nn.Module, Mixin):
        call_super_init = True

    assert Both(a=1).seen == {"a": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        nn.Module(a=1)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nn.Module(1)


def test_a_failing_property_names_what_it_lacks() -> None:
    class Model(nn.Module):
        @property
        def some(self) -> Any:
            return self.missing

    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = Model().some


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_cells_broadcast_nothing(cell: Any) -> None:
    made, good = cell(10, 20), weft.randn(3, 20)
    for x, state, words in (((3, 10), (1, 20), "batch size"), ((3, 10), (3, 1), "inconsistent hidden_size"), (
        (3, 1), (3, 20), "inconsistent input_size"
    )):
        hidden: Any = weft.randn(state)
        with pytest.raises(RuntimeError, match=words):
            made(weft.randn(x), (good, hidden) if cell is nn.LSTMCell else hidden)


def test_functions_can_be_pickled_and_work_in_place() -> None:
    for function in (F.relu, F.softsign, F.gelu, weft.tanh, weft.matmul):
        assert pickle.loads(pickle.dumps(function)) is function
    x = weft.tensor([-1.0, 2.0])
    assert F.leaky_relu_(x, 0.5) is x and x.tolist() == [-0.5, 2.0]
    assert np.allclose(F.elu_(weft.tensor([-1.0])).numpy(), np.expm1(-1))


def test_losses_warn_of_sizes_that_broadcast() -> None:
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(UserWarning, match=r"target size \(?.*that is different to the input size"):
            loss(weft.ones(4, 1), weft.ones(4))


def test_packed_sequences_convert() -> None:
    packed = pack_sequence([weft.ones(3, 2), weft.ones(1, 2)])
    assert (
        packed.to(weft.float64).data.dtype is weft.float64 and packed.to("cpu") is packed
        and packed.half().batch_sizes is packed.batch_sizes
    )


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_networks_over_time_broadcast_no_states(kind: Any) -> None:
    made, count = kind(2, 3, num_layers=2), 2 if kind is nn.LSTM else 1

    def run(dims: tuple[int, ...], *states: tuple[int, ...]) -> Any:
        zeros = tuple(weft.zeros(s) for s in states)[:count]
        return made(weft.ones(dims), zeros if count > 1 else zeros[0])

    run((4, 5, 2), (2, 5, 3), (2, 5, 3))
    for wrong in ((1, 5, 3), (2, 1, 3), (2, 5, 1), (4, 5, 3)):
        with pytest.raises(RuntimeError, match=r"Expected hidden(\[0\])? size \(2, 5, 3\), got"):
            run((4, 5, 2), wrong, (2, 5, 3))
    with pytest.raises(RuntimeError, match="For unbatched 2-D input, hx should also be 2-D but got 3-D"):
        run((4, 2), (2, 1, 3), (2, 1, 3))


def test_options_of_losses_that_reduction_superseded(rng: np.random.Generator) -> None:
    a, b, c = (weft.from_numpy(rng.normal(size=(4, 3))) for _ in range(3))
    signs, classes = weft.from_numpy(np.sign(rng.normal(size=4))), weft.from_numpy(rng.integers(0, 3, 4))
    calls = (
        lambda **o: F.cosine_embedding_loss(a, b, signs, **o), lambda **o: F.hinge_embedding_loss(a[:, 0], signs, **o),
        lambda **o: F.margin_ranking_loss(a[:, 0], b[:, 0], signs, **o),
        lambda **o: F.multi_margin_loss(a, classes, **o),
        lambda **o: F.multilabel_margin_loss(a, classes.unsqueeze(1).expand(4, 3), **o),
        lambda **o: F.multilabel_soft_margin_loss(a, b.sigmoid(), **o),
        lambda **o: F.poisson_nll_loss(a, b.exp(), **o), lambda **o: F.soft_margin_loss(a[:, 0], signs, **o),
        lambda **o: F.triplet_margin_loss(a, b, c, **o), lambda **o: F.mse_loss(a, b, **o),
    )
    for loss in calls:
        for old, new in (
            (({"size_average": False}, "sum"), ({"size_average": True}, "mean"), ({"reduce": False}, "none"))
        ):
            assert weft.equal(loss(**old), loss(reduction=new))
    with pytest.raises(RuntimeError, match="multi-target"):
        F.cosine_embedding_loss(a, b, a)
    with pytest.raises(RuntimeError, match="1D target tensor expects 2D"):
        F.cosine_embedding_loss(a[0], b[0], signs)
