"""Found from outside: extracted steps that give views, draw or write elsewhere; storages that were made smaller;
lengths; hashes of calls along other dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy
from weft.lazy.computation import get_graph_hash
from weft.support.errors import Unsupported


def lazily(array: Any) -> weft.Tensor:
    return weft.tensor(np.asarray(array, np.float32), device="lazy")


def test_extracted_steps_give_views_of_their_arguments(rng: np.random.Generator) -> None:
    run = lazy.extract_compiled_graph(lambda x: (x[0], x.t()[1:], x * 2), (lazily(rng.random((2, 3))),))
    for rows in (2, 5):
        x = lazily(rng.random((rows, 3)))
        row, rest, _ = run(x)
        before = x.cpu().numpy()
        row.add_(1)
        rest.mul_(2)
        before[0] += 1
        before[:, 1:] *= 2
        np.testing.assert_allclose(x.cpu().numpy(), before, rtol=1e-6)


def test_results_of_an_extracted_step_share_memory_and_lie_as_they_do(rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> Any:
        made = x.t() + 1
        return made, made[1], made.t()

    x = lazily(rng.random((4, 3)))
    made, row, turned = lazy.extract_compiled_graph(step, (x,))(x)
    assert made.stride() == step(x)[0].stride() == (1, 3)
    row.zero_()
    assert made[1].tolist() == turned[:, 1].tolist() == [0.0] * 4 and made[0].tolist() != [0.0] * 4


@pytest.mark.parametrize("name", ["draws", "writes", "sizes"])
def test_what_would_be_the_same_at_each_call_is_no_extracted_step(name: str) -> None:
    outside = lazily([1, 2, 3])
    steps: dict[str, Callable[[Any], Any]] = {
        "draws": lambda x: x + weft.rand_like(x),
        "writes": lambda x: outside.add_(x) * 1,
        "sizes": lambda x: (x, (x > 0).nonzero().shape[0]),
    }
    with pytest.raises(Unsupported, match="extract_compiled_graph: the function"):
        lazy.extract_compiled_graph(steps[name], (lazily([1, 0, 2]),))
    assert outside.tolist() == [1, 2, 3]


@pytest.mark.parametrize("device", ["cpu", "lazy"])
@pytest.mark.parametrize("use", [
    lambda v: v.add_(1), lambda v: v.clone(), lambda v: v.normal_(), lambda v: v.tolist(), lambda v: v[0].zero_(),
    lambda v: v.copy_(weft.ones(2, 3)),
])
def test_views_of_a_storage_that_was_made_smaller(device: str, use: Callable[[weft.Tensor], Any]) -> None:
    x = weft.arange(6.0).to(device)
    view = x.view(2, 3)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="unallocated storage"):
        use(view)
    x.untyped_storage().resize_(24)
    x.copy_(weft.arange(1.0, 7.0))
    assert view.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_hashes_tell_dims_apart_and_no_sizes(rng: np.random.Generator) -> None:
    steps: list[Callable[[Any], Any]] = [
        lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum((0, 2)), lambda x: x.softmax(1), lambda x: x.softmax(2),
        lambda x: x.cumsum(2), lambda x: x * 2, lambda x: x * 2.0, lambda x: x.amax(2), lambda x: x.amax(1),
    ]
    hashes = [[get_graph_hash([step(lazily(rng.random((n, n, n))))]) for step in steps] for n in (3, 4)]
    assert len(set(hashes[0])) == len(steps) and hashes[0] == hashes[1]


@pytest.mark.parametrize("lengths", ["cpu", "lazy"])
def test_lengths_of_a_ctc_loss_may_stay_on_the_cpu(lengths: str, rng: np.random.Generator) -> None:
    scores, labels = rng.standard_normal((7, 2, 4)).astype(np.float32), rng.integers(1, 4, (2, 3))
    found = []
    for device, there in (("cpu", "cpu"), ("lazy", lengths)):
        x = weft.tensor(scores, device=device).requires_grad_()
        told, wanted = (weft.tensor(n, dtype=weft.int32, device=there) for n in ([7, 6], [3, 2]))
        loss = weft.nn.functional.ctc_loss(x.log_softmax(-1), weft.tensor(labels, device=device), told, wanted)
        loss.backward()
        assert x.grad is not None
        found.append((loss.item(), x.grad.cpu().numpy()))
    for mine, eager in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(mine, eager, rtol=1e-5, atol=1e-6)


def test_what_waits_for_nothing_has_a_hash_and_a_dump(rng: np.random.Generator) -> None:
    x, y, row = lazily(rng.random((2, 3))), lazily(rng.random((5, 4))), lazily(rng.random(3))
    assert get_graph_hash([x]) == get_graph_hash([y]) != get_graph_hash([row])
    assert get_graph_hash([x, x + 1]) != get_graph_hash([x + 1, x]) != get_graph_hash([x + 1])
    assert "f32[2, 3]" in lazy.debug.dump_ir([x], "text") and "digraph" in lazy.debug.dump_ir([x], "dot")


@pytest.mark.parametrize("device", ["cpu", "lazy"])
@pytest.mark.parametrize("fill", [
    lambda x: weft.full_like(x.to(weft.uint8), 300), lambda x: x.long().new_full((2,), float("inf")),
    lambda x: weft.full_like(x, 1 + 2j), lambda x: x.new_full((2,), 3j), lambda x: x.clone().fill_(2j),
    lambda x: weft.full((2,), 1j, dtype=weft.float32, device=x.device),
    lambda x: x.index_fill(0, weft.tensor([0], device=x.device), 1 + 2j),
])
def test_numbers_that_a_dtype_cannot_hold_are_refused_where_they_are_given(
    device: str, fill: Callable[[weft.Tensor], Any]
) -> None:
    with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
        fill(weft.ones(2, device=device))


@pytest.mark.parametrize("split", [False, True])
def test_integers_beyond_those_of_programs(split: bool) -> None:
    for number in (7, 300, 2**62, 2**63, 3 * 2**63, -(2**64)):
        x = weft.ones(2, device="cpu" if split else "lazy")
        step: Callable[[weft.Tensor], Any] = lambda x: (x * number, x < number)  # noqa: B023, E731
        scaled, below = (deferred(step) if split else step)(x)
        assert scaled.tolist() == [np.float32(number)] * 2 and below.tolist() == [number > 0] * 2


@pytest.mark.parametrize("name", ["gather", "index", "multinomial", "inv"])
def test_what_a_program_refuses_names_line_and_operator_once(name: str) -> None:
    def ones(*size: int) -> weft.Tensor:
        return weft.ones(*size, device="lazy")

    def far() -> weft.Tensor:
        return weft.tensor([7], device="lazy")

    calls: dict[str, Callable[[], weft.Tensor]] = {
        "gather": lambda: ones(3).gather(0, far()), "index": lambda: ones(3)[far()],
        "multinomial": lambda: weft.multinomial(ones(3) * 0, 2), "inv": lambda: weft.linalg.inv(ones(2, 2) * 0),
    }
    there, made = ones(2) + 1, calls[name]()
    with pytest.raises(RuntimeError if name != "index" else IndexError, match=rf"_hashes\.py:\d+.*{name}"):
        lazy.mark_step(wait=True)
    lazy.mark_step(wait=True)
    assert there.tolist() == [2, 2] and made.device.type == "lazy"


@pytest.mark.parametrize("number", [2**63, 2**70, -(2**63) - 1])
def test_full_of_a_number_beyond_64_bits(number: int) -> None:
    for make in (weft.full, weft.compile(weft.full)):
        with pytest.raises(RuntimeError, match="without overflow"):
            make((2,), number)
    assert weft.full((2,), -(2**63)).tolist() == [-(2**63)] * 2
