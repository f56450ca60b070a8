"""The handler of an object is that of its class: what its __getattr__ answers belongs to what it stands for. And
factories of sparse tensors ask modes."""

import pytest

import weft
from weft.overrides import WeftFunctionMode


class Proxy:
    """Stands for a tensor, and answers for all its attributes."""

    def __init__(self, tensor):
        self.__dict__["tensor"] = tensor
        self.__dict__["asked"] = []

    def __getattr__(self, name):
        return getattr(self.tensor, name)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        given = [a.tensor if isinstance(a, cls) else a for a in args]
        for a in args:
            if isinstance(a, cls):
                a.asked.append(func)
        return cls(func(*given, **(kwargs or {})))


class OfObject(Proxy):
    """Its handler is a method of the object."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.asked.append(func)
        return func(*[a.tensor if isinstance(a, Proxy) else a for a in args], **(kwargs or {}))


def test_a_proxy_of_a_tensor():
    x = Proxy(weft.tensor([1.0, 4.0]))
    out = weft.sqrt(weft.add(x, 0.0))
    assert type(out) is Proxy and out.tensor.tolist() == [1.0, 2.0]
    assert [f.__name__ for f in x.asked] == ["add"]
    assert weft.nn.functional.linear(x, weft.ones(1, 2)).tensor.tolist() == [5.0]


def test_a_handler_of_the_object():
    x = OfObject(weft.tensor([1.0, 4.0]))
    assert weft.sqrt(x).tolist() == [1.0, 2.0]
    assert [f.__name__ for f in x.asked] == ["sqrt"]


def test_a_proxy_of_a_proxy():
    inner = Proxy(weft.ones(2))
    outer = Proxy(inner)
    assert weft.neg(outer).tensor.tensor.tolist() == [-1.0, -1.0]
    assert len(outer.asked) == len(inner.asked) == 1


@pytest.mark.parametrize("make", [
    lambda: weft.sparse_coo_tensor(1, 1, 1), lambda: weft.sparse_csr_tensor(1, 1, 1),
    lambda: weft.sparse_csc_tensor(1, 1, 1), lambda: weft.sparse_compressed_tensor(1, 1, 1, layout=weft.sparse_csr),
    lambda: weft.tensor([1]), lambda: weft.as_tensor([1]),
])
def test_factories_ask_modes(make):
    class Answer(WeftFunctionMode):
        def __weft_function__(self, func, types, args=(), kwargs=None):
            return -1

    with Answer():
        assert make() == -1
