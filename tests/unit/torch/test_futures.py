"""weft.futures: values that a thread gives later."""

import threading

import pytest

import weft
from weft.futures import Future, collect_all, wait_all


def test_a_value_comes_from_another_thread() -> None:
    future: Future[int] = Future()
    doubled = future.then(lambda f: 2 * f.wait())
    assert not future.done() and not doubled.done()
    with pytest.raises(weft.WeftError, match="no result yet"):
        future.value()
    thread = threading.Thread(target=future.set_result, args=(21,))
    thread.start()
    assert doubled.wait() == 42 and future.value() == 21
    thread.join()
    with pytest.raises(RuntimeError, match="has a result"):
        future.set_result(1)


def test_errors_come_out_of_wait() -> None:
    future: Future[int] = Future()
    after = future.then(lambda f: f.wait())
    future.set_exception(KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        after.wait()


def test_several() -> None:
    futures = [Future[int]() for _ in range(3)]
    together = collect_all(futures)
    for at in (2, 0, 1):
        assert not together.done()
        futures[at].set_result(at)
    assert [f.value() for f in together.wait()] == wait_all(futures) == [0, 1, 2]
    assert collect_all([]).done()
