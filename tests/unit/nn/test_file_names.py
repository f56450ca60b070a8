"""PyTorch's file names of nn.modules, and classes that it has beside weft's own."""

from __future__ import annotations

import copy
import importlib
import pickle

import numpy as np
import pytest

import weft
from weft import nn

RNG = np.random.Generator


@pytest.mark.parametrize(("file", "names"), [
    ("activation", "ReLU MultiheadAttention GELU Softmax"), ("adaptive", "AdaptiveLogSoftmaxWithLoss"),
    ("batchnorm", "BatchNorm1d SyncBatchNorm LazyBatchNorm2d"), ("channelshuffle", "ChannelShuffle"),
    ("container", "Sequential ModuleList ModuleDict ParameterList ParameterDict Module"),
    ("conv", "Conv2d LazyConv1d LazyConvTranspose3d"), ("distance", "PairwiseDistance"), ("dropout", "Dropout"),
    ("flatten", "Flatten Unflatten"), ("fold", "Fold Unfold"), ("instancenorm", "InstanceNorm1d LazyInstanceNorm1d"),
    ("linear", "Linear Bilinear Identity LazyLinear"), ("loss", "MSELoss CTCLoss"),
    ("normalization", "LayerNorm GroupNorm RMSNorm"), ("padding", "ZeroPad2d"), ("pixelshuffle", "PixelShuffle"),
    ("pooling", "MaxPool2d"), ("rnn", "LSTM GRU RNN RNNBase LSTMCell GRUCell RNNCell"), ("sparse", "Embedding"),
    ("transformer", "Transformer"), ("upsampling", "Upsample"),
])
def test_each_file_of_pytorch_has_its_classes(file: str, names: str) -> None:
    module = importlib.import_module(f"weft.nn.modules.{file}")
    assert getattr(nn.modules, file) is module
    for name in names.split():
        assert getattr(module, name) is getattr(nn, name)
    with pytest.raises(AttributeError, match="no attribute 'Absent'"):
        _ = module.Absent
    assert not hasattr(module, "__wrapped__")


def test_private_bases_are_what_their_classes_derive_from() -> None:
    from weft.nn.modules.batchnorm import _BatchNorm, _NormBase
    from weft.nn.modules.conv import _ConvNd, _ConvTransposeNd
    from weft.nn.modules.dropout import _DropoutNd
    from weft.nn.modules.module import _IncompatibleKeys
    from weft.nn.modules.padding import _ReflectionPadNd
    from weft.nn.modules.pooling import _AdaptiveAvgPoolNd, _MaxPoolNd
    from weft.nn.modules.rnn import RNNCellBase
    from weft.nn.modules.utils import _ntuple, _pair, _reverse_repeat_tuple

    assert isinstance(nn.SyncBatchNorm(2), _BatchNorm) and issubclass(nn.InstanceNorm1d, _NormBase)
    assert not issubclass(nn.InstanceNorm1d, _BatchNorm) and not issubclass(nn.Conv1d, _ConvTransposeNd)
    assert issubclass(nn.ConvTranspose2d, _ConvTransposeNd) and issubclass(nn.ConvTranspose2d, _ConvNd)
    assert issubclass(nn.Dropout2d, _DropoutNd) and issubclass(nn.GRUCell, RNNCellBase)
    assert issubclass(nn.ReflectionPad2d, _ReflectionPadNd) and not issubclass(nn.ZeroPad2d, _ReflectionPadNd)
    assert issubclass(nn.ZeroPad2d, nn.ConstantPad2d) and repr(nn.ZeroPad2d(1)) == "ZeroPad2d((1, 1, 1, 1))"
    assert issubclass(nn.MaxPool1d, _MaxPoolNd) and issubclass(nn.AdaptiveAvgPool2d, _AdaptiveAvgPoolNd)
    assert _pair(3) == (3, 3) == _ntuple(2)(3) and _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert isinstance(nn.Linear(1, 1).load_state_dict({}, strict=False), _IncompatibleKeys)


def test_sync_batch_norm_is_a_batch_norm_of_any_rank(rng: RNG) -> None:
    channels = int(rng.integers(2, 5))
    for ranks, plain in (((5,), nn.BatchNorm1d), ((4,), nn.BatchNorm1d), ((3, 2), nn.BatchNorm2d)):
        sync, norm = nn.SyncBatchNorm(channels, momentum=0.3), plain(channels, momentum=0.3)
        for _ in range(2):
            x = weft.from_numpy(rng.normal(size=(int(rng.integers(3, 6)), channels, *ranks)).astype(np.float32))
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            out, wanted = sync(a), norm(b)
            (out**3).sum().backward()
            (wanted**3).sum().backward()
            assert weft.equal(out, wanted) and weft.equal(a.grad, b.grad)
        for key, value in norm.state_dict().items():
            assert weft.equal(value, sync.state_dict()[key])
        assert weft.equal(sync.eval()(x), norm.eval()(x))
    with pytest.raises(ValueError, match=r"at least 2D input \(got 1D"):
        nn.SyncBatchNorm(2)(weft.ones(2))


def test_converting_to_sync_batch_norm_keeps_the_tensors() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False), nn.Sequential(nn.BatchNorm1d(4))).eval()
    tensors = {name: t for name, t in [*model.named_parameters(), *model.named_buffers()]}
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model
    assert [type(m).__name__ for m in model.modules()].count("SyncBatchNorm") == 2
    assert all(t is tensors[name] for name, t in [*model.named_parameters(), *model.named_buffers()])
    assert not any(m.training for m in model.modules())
    assert type(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3))) is nn.SyncBatchNorm


def test_data_parallel_calls_its_module() -> None:
    inner = nn.Linear(2, 3)
    model, x = nn.DataParallel(inner), weft.ones(4, 2)
    assert weft.equal(model(x), inner(x)) and set(model.state_dict()) == {"module.weight", "module.bias"}
    assert weft.equal(nn.parallel.data_parallel(inner, x), inner(x))
    with pytest.raises(weft.WeftError, match="CPU only"):
        nn.DataParallel(inner, device_ids=[0, 1])
    with pytest.raises(weft.WeftError, match="devices to spread over"):
        nn.parallel.replicate(inner, [0])


def test_old_names_of_initialisers_warn_and_fill() -> None:
    for name, arguments in {
        "uniform": (), "normal": (), "constant": (2.0,), "eye": (), "xavier_uniform": (), "xavier_normal": (),
        "kaiming_uniform": (), "kaiming_normal": (), "orthogonal": (), "sparse": (0.5,),
    }.items():
        new, old = weft.empty(3, 4), weft.empty(3, 4)
        weft.manual_seed(3)
        getattr(nn.init, f"{name}_")(new, *arguments)
        weft.manual_seed(3)
        with pytest.warns(FutureWarning, match=rf"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
            assert getattr(nn.init, name)(old, *arguments) is old
        assert weft.equal(old, new)


def test_stubs_of_quantization_pass_their_input_on() -> None:
    from weft.ao.quantization import DeQuantStub, QuantStub, QuantWrapper

    x = weft.ones(2, 3, requires_grad=True)
    assert QuantStub()(x) is x and DeQuantStub()(x) is x
    inner = nn.Linear(3, 3)
    wrapped = QuantWrapper(inner)
    assert weft.equal(wrapped(x), inner(x)) and "module.weight" in wrapped.state_dict()
    with pytest.raises(AttributeError, match="no quantized tensors"):
        _ = weft.ao.quantization.quantize_dynamic


def test_layouts_and_memory_formats_have_types() -> None:
    assert isinstance(weft.strided, weft.layout) and isinstance(weft.channels_last, weft.memory_format)
    x = weft.ones(1, 2, 3, 4)
    assert x.layout is weft.strided and x.layout == "weft.strided" and x.layout != weft.sparse_coo
    assert repr(weft.channels_last) == "weft.channels_last" and repr(weft.sparse_coo) == "weft.sparse_coo"
    assert pickle.loads(pickle.dumps(weft.channels_last)) == weft.channels_last
    assert copy.deepcopy(weft.strided) == weft.strided
    for run in (lambda t: t.contiguous(memory_format=weft.channels_last), weft.compile(
        lambda t: t.contiguous(memory_format=weft.channels_last)
    )):
        assert run(x).is_contiguous(memory_format=weft.channels_last)
    with pytest.raises(NotImplementedError, match="strided tensors"):
        weft.zeros(2, layout=weft.sparse_coo)
