"""What a program has put on a tensor is in a `.pt` file too, as PyTorch writes and reads it."""

import io
import zipfile

import pytest

import weft
from weft import nn
from weft.support.errors import ParseError
from weft.torch import files


def with_attributes(tensor):
    tensor.tag, tensor.sizes, tensor.other = "embedding", [1, {"a": 2.5}], weft.tensor([7, 8])
    return tensor


TENSORS = {
    "tensor": lambda: weft.rand(2, 3),
    "wants a gradient": lambda: weft.rand(2, requires_grad=True),
    "parameter": lambda: nn.Parameter(weft.rand(3)),
    "frozen parameter": lambda: nn.Parameter(weft.rand(3), requires_grad=False),
    "view": lambda: weft.rand(4, 5)[1:3].t(),
}


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_written_and_read(kind, weights_only):
    tensor = with_attributes(TENSORS[kind]())
    buffer = io.BytesIO()
    files.save({"a": tensor, "b": tensor, "plain": weft.ones(2)}, buffer)
    buffer.seek(0)
    loaded = files.load(buffer, weights_only=weights_only)
    again = loaded["a"]
    assert again is loaded["b"] and type(again) is type(tensor) and again.requires_grad == tensor.requires_grad
    assert again.tolist() == tensor.tolist()
    assert (again.tag, again.sizes, again.other.tolist()) == ("embedding", [1, {"a": 2.5}], [7, 8])
    assert not vars(loaded["plain"])


def test_the_pickle_names_pytorchs_functions():
    buffer = io.BytesIO()
    files.save([with_attributes(weft.ones(1)), with_attributes(nn.Parameter(weft.ones(1)))], buffer)
    with zipfile.ZipFile(buffer) as archive:
        text = archive.read(next(n for n in archive.namelist() if n.endswith("data.pkl")))
    for name in (b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ctorch._utils\n_rebuild_parameter_with_state\n"):
        assert name in text
    assert b"ctorch\nTensor\n" in text


@pytest.mark.parametrize("name", ["backward", "requires_grad", "__class__", "_data"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_an_attribute_that_tensors_have_is_refused(name, weights_only):
    tensor = weft.ones(1)
    vars(tensor)[name] = 1
    buffer = io.BytesIO()
    files.save(tensor, buffer)
    with pytest.raises(ParseError, match="gives a tensor another"):
        files.load(io.BytesIO(buffer.getvalue()), weights_only=weights_only)
