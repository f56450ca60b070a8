"""Layers with inputs, and fingerprints of what they compute: the same lines for weft and for PyTorch.

An input is described by its sizes, after a letter for what it holds: nothing for normal numbers, i:...:n integers below
n (I:... as floats), s signs, f zeros and ones, p numbers in (0, 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

LAYERS: list[tuple[str, list[str]]] = [
    ("nn.Linear(4,3)", ["2,5,4"]),
    ("nn.Linear(4,3,bias=False)", ["4"]),
    ("nn.Bilinear(3,4,5)", ["2,3", "2,4"]),
    ("nn.Identity()", ["2"]),
    ("nn.Conv1d(4,6,3,stride=2,padding=1,groups=2)", ["2,4,9"]),
    ("nn.Conv1d(4,6,3,padding='same',dilation=2,padding_mode='reflect')", ["2,4,9"]),
    ("nn.Conv2d(3,4,3)", ["2,3,7,8"]),
    ("nn.Conv2d(3,4,(3,2),stride=(2,1),padding=(1,0),dilation=(1,2),bias=False)", ["2,3,7,8"]),
    ("nn.Conv2d(3,4,3,padding=1,padding_mode='circular')", ["2,3,7,8"]),
    ("nn.Conv2d(3,4,3,padding='same')", ["3,7,8"]),
    ("nn.Conv3d(2,3,2)", ["1,2,4,4,4"]),
    ("nn.ConvTranspose1d(4,6,3,stride=2,padding=1,output_padding=1,groups=2)", ["2,4,5"]),
    ("nn.ConvTranspose2d(3,4,3,stride=2,dilation=2)", ["2,3,4,5"]),
    ("nn.ConvTranspose3d(2,3,2,stride=2)", ["1,2,3,3,3"]),
    ("nn.MaxPool1d(2)", ["2,3,9"]),
    ("nn.MaxPool2d(3,stride=2,padding=1)", ["2,3,7,8"]),
    ("nn.MaxPool2d(2,ceil_mode=True,return_indices=True)", ["2,3,7,8"]),
    ("nn.MaxPool3d(2)", ["1,2,4,4,4"]),
    ("nn.AvgPool1d(3,2)", ["2,3,9"]),
    ("nn.AvgPool2d(3,stride=2,padding=1,count_include_pad=False)", ["2,3,7,8"]),
    ("nn.AvgPool2d(2,divisor_override=3)", ["2,3,7,8"]),
    ("nn.AvgPool3d(2)", ["1,2,4,4,4"]),
    ("nn.AdaptiveAvgPool1d(4)", ["2,3,9"]),
    ("nn.AdaptiveAvgPool2d((3,None))", ["2,3,7,8"]),
    ("nn.AdaptiveAvgPool2d(1)", ["2,3,7,8"]),
    ("nn.AdaptiveMaxPool1d(4)", ["2,3,9"]),
    ("nn.AdaptiveMaxPool2d((3,2),return_indices=True)", ["2,3,7,8"]),
    ("nn.LPPool1d(2,3,stride=2)", ["2,3,9"]),
    ("nn.LPPool2d(2,2)", ["2,3,6,8"]),
    ("nn.BatchNorm1d(4)", ["5,4"]),
    ("nn.BatchNorm1d(4,momentum=None)", ["5,4,3"]),
    ("nn.BatchNorm2d(3,affine=False)", ["2,3,4,5"]),
    ("nn.BatchNorm2d(3,track_running_stats=False)", ["2,3,4,5"]),
    ("nn.BatchNorm2d(3).eval()", ["2,3,4,5"]),
    ("nn.BatchNorm3d(2,momentum=.3,eps=.1)", ["2,2,3,3,3"]),
    ("nn.InstanceNorm1d(3)", ["2,3,5"]),
    ("nn.InstanceNorm2d(3,affine=True,track_running_stats=True)", ["2,3,4,5"]),
    ("nn.InstanceNorm2d(3)", ["3,4,5"]),
    ("nn.LayerNorm((4,5))", ["2,3,4,5"]),
    ("nn.LayerNorm(5,bias=False,eps=.1)", ["2,5"]),
    ("nn.LayerNorm(5,elementwise_affine=False)", ["2,5"]),
    ("nn.GroupNorm(2,4)", ["2,4,5"]),
    ("nn.RMSNorm(5)", ["2,5"]),
    ("nn.LocalResponseNorm(3,alpha=.1)", ["2,5,3,4"]),
    ("nn.Embedding(7,3)", ["i:2,4:7"]),
    ("nn.Embedding(7,3,padding_idx=2)", ["i:2,4:7"]),
    ("nn.Embedding(7,3,max_norm=1.0)", ["i:2,4:7"]),
    ("nn.RNN(3,4)", ["5,2,3"]),
    ("nn.RNN(3,4,num_layers=2,nonlinearity='relu',bidirectional=True,batch_first=True)", ["2,5,3"]),
    ("nn.RNN(3,4,bias=False)", ["5,3"]),
    ("nn.LSTM(3,4)", ["5,2,3"]),
    ("nn.LSTM(3,4,num_layers=2,bidirectional=True)", ["5,2,3"]),
    ("nn.LSTM(3,4,proj_size=2,num_layers=2)", ["5,2,3"]),
    ("nn.GRU(3,4)", ["5,2,3"]),
    ("nn.GRU(3,4,num_layers=2,bidirectional=True,batch_first=True)", ["2,5,3"]),
    ("nn.GRU(3,4)", ["5,2,3", "1,2,4"]),
    ("nn.RNNCell(3,4)", ["2,3", "2,4"]),
    ("nn.LSTMCell(3,4)", ["2,3"]),
    ("nn.GRUCell(3,4)", ["2,3"]),
    ("nn.GRUCell(3,4,bias=False)", ["3", "4"]),
    ("nn.MultiheadAttention(8,2)", ["3,2,8", "5,2,8", "5,2,8"]),
    ("nn.MultiheadAttention(8,2,batch_first=True,kdim=5,vdim=6,add_bias_kv=True,add_zero_attn=True)", [
        "2,3,8", "2,4,5", "2,4,6"
    ]),
    ("nn.MultiheadAttention(8,4,bias=False)", ["3,8", "3,8", "3,8"]),
    ("nn.TransformerEncoderLayer(8,2,16,dropout=0.0)", ["3,2,8"]),
    ("nn.TransformerEncoderLayer(8,2,16,dropout=0.0,norm_first=True,batch_first=True,activation='gelu')", ["2,3,8"]),
    ("nn.TransformerDecoderLayer(8,2,16,dropout=0.0)", ["3,2,8", "5,2,8"]),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(8,2,16,dropout=0.0),2)", ["3,2,8"]),
    ("nn.Transformer(8,2,1,1,16,dropout=0.0)", ["5,2,8", "3,2,8"]),
    ("nn.ReLU()", ["3,4,6"]),
    ("nn.ReLU6()", ["3,4,6"]),
    ("nn.SELU()", ["3,4,6"]),
    ("nn.SiLU()", ["3,4,6"]),
    ("nn.Mish()", ["3,4,6"]),
    ("nn.Hardswish()", ["3,4,6"]),
    ("nn.Hardsigmoid()", ["3,4,6"]),
    ("nn.ELU(.7)", ["3,4,6"]),
    ("nn.CELU(.7)", ["3,4,6"]),
    ("nn.LeakyReLU(.2)", ["3,4,6"]),
    ("nn.PReLU()", ["3,4,6"]),
    ("nn.PReLU(4)", ["3,4,6"]),
    ("nn.GELU()", ["3,4,6"]),
    ("nn.GELU('tanh')", ["3,4,6"]),
    ("nn.GLU()", ["3,4,6"]),
    ("nn.GLU(1)", ["3,4,6"]),
    ("nn.Hardtanh(-.5,.5)", ["3,4,6"]),
    ("nn.Threshold(.1,20)", ["3,4,6"]),
    ("nn.Tanh()", ["3,4,6"]),
    ("nn.Sigmoid()", ["3,4,6"]),
    ("nn.LogSigmoid()", ["3,4,6"]),
    ("nn.Softsign()", ["3,4,6"]),
    ("nn.Tanhshrink()", ["3,4,6"]),
    ("nn.Softplus(2.,1.)", ["3,4,6"]),
    ("nn.Hardshrink()", ["3,4,6"]),
    ("nn.Softshrink(.3)", ["3,4,6"]),
    ("nn.Softmax(1)", ["3,4,6"]),
    ("nn.Softmin(-1)", ["3,4,6"]),
    ("nn.LogSoftmax(0)", ["3,4,6"]),
    ("nn.Softmax2d()", ["3,4,6"]),
    ("nn.Flatten()", ["3,4,6"]),
    ("nn.Flatten(0,1)", ["3,4,6"]),
    ("nn.Unflatten(2,(2,3))", ["3,4,6"]),
    ("nn.Dropout(0.)", ["3,4,6"]),
    ("nn.RReLU().eval()", ["3,4,6"]),
    ("nn.ConstantPad1d(2,1.5)", ["2,3,4"]),
    ("nn.ZeroPad2d((1,2,0,1))", ["2,3,4,5"]),
    ("nn.ReflectionPad1d(2)", ["2,3,4"]),
    ("nn.ReflectionPad2d((1,2,0,1))", ["2,3,4,5"]),
    ("nn.ReplicationPad2d(2)", ["2,3,4,5"]),
    ("nn.ReplicationPad3d(1)", ["1,2,3,3,3"]),
    ("nn.CircularPad2d(1)", ["2,3,4,5"]),
    ("nn.ConstantPad3d(1,.5)", ["1,2,3,3,3"]),
    ("nn.Upsample(scale_factor=2)", ["1,2,3,4"]),
    ("nn.Upsample(size=(5,7),mode='bilinear')", ["1,2,3,4"]),
    ("nn.UpsamplingBilinear2d(scale_factor=2)", ["1,2,3,4"]),
    ("nn.UpsamplingNearest2d(size=5)", ["1,2,3,4"]),
    ("nn.Upsample(scale_factor=1.5,mode='linear',align_corners=True)", ["1,2,5"]),
    ("nn.PixelShuffle(2)", ["1,8,3,4"]),
    ("nn.PixelUnshuffle(2)", ["1,2,4,6"]),
    ("nn.ChannelShuffle(2)", ["1,4,3,4"]),
    ("nn.Unfold(2,stride=2,padding=1)", ["1,2,4,6"]),
    ("nn.Fold((4,6),2,stride=2)", ["2,8,6"]),
    ("nn.Fold((4,5),(2,3),padding=1,dilation=(1,2))", ["2,12,15"]),
    ("nn.CosineSimilarity()", ["3,4", "3,4"]),
    ("nn.PairwiseDistance(3,keepdim=True)", ["3,4", "3,4"]),
    ("nn.L1Loss()", ["3,4", "3,4"]),
    ("nn.MSELoss(reduction='sum')", ["3,4", "3,4"]),
    ("nn.SmoothL1Loss(beta=.5)", ["3,4", "3,4"]),
    ("nn.HuberLoss(delta=.3)", ["3,4", "3,4"]),
    ("nn.KLDivLoss(reduction='batchmean',log_target=True)", ["3,4", "3,4"]),
    ("nn.BCEWithLogitsLoss()", ["3,4", "3,4"]),
    ("nn.PoissonNLLLoss()", ["3,4", "3,4"]),
    ("nn.CrossEntropyLoss(label_smoothing=.1)", ["3,4", "i:3:4"]),
    ("nn.CrossEntropyLoss(ignore_index=1,reduction='sum')", ["3,4,2", "i:3,2:4"]),
    ("nn.NLLLoss()", ["3,4", "i:3:4"]),
    ("nn.MultiMarginLoss(margin=.5)", ["3,4", "i:3:4"]),
    ("nn.MultiMarginLoss(p=2,reduction='none')", ["3,4", "i:3:4"]),
    ("nn.MultiLabelSoftMarginLoss()", ["3,4", "f:3,4"]),
    ("nn.SoftMarginLoss()", ["3,4", "s:3,4"]),
    ("nn.MarginRankingLoss(.3)", ["5", "5", "s:5"]),
    ("nn.HingeEmbeddingLoss(.7)", ["5", "s:5"]),
    ("nn.CosineEmbeddingLoss(.2)", ["5,3", "5,3", "s:5"]),
    ("nn.TripletMarginLoss(swap=True)", ["5,3", "5,3", "5,3"]),
    ("nn.TripletMarginLoss(p=1,reduction='none')", ["5,3", "5,3", "5,3"]),
    ("nn.TripletMarginWithDistanceLoss()", ["5,3", "5,3", "5,3"]),
    ("nn.GaussianNLLLoss(full=True)", ["5,3", "5,3", "p:5,3"]),
    ("nn.BCELoss()", ["p:5,3", "p:5,3"]),
    ("nn.PoissonNLLLoss(log_input=False,full=True)", ["p:4", "I:4:5"]),
    ("nn.Sequential(nn.Linear(3,4),nn.ReLU(),nn.Linear(4,2))", ["2,3"]),
    ("nn.Sequential(nn.Conv2d(1,2,3),nn.BatchNorm2d(2),nn.Flatten())", ["2,1,5,5"]),
    ("nn.AdaptiveMaxPool3d((2,3,2),return_indices=True)", ["2,3,5,4,7"]),
    ("nn.AdaptiveMaxPool2d((5,None))", ["3,3,4"]),
    ("nn.LPPool3d(2,2,stride=1)", ["1,2,3,4,3"]),
    ("nn.MultiLabelMarginLoss()", ["3,4", "i:3,4:4"]),
    ("nn.MultiLabelMarginLoss(reduction='none')", ["4", "i:4:4"]),
    ("nn.EmbeddingBag(7,3)", ["i:4,3:7"]),
    ("nn.EmbeddingBag(7,3,mode='sum',padding_idx=2,max_norm=1.0)", ["i:4,3:7"]),
    ("nn.EmbeddingBag(7,3,mode='max')", ["i:4,3:7"]),
    ("nn.AdaptiveLogSoftmaxWithLoss(6,9,[3,5],div_value=2.,head_bias=True)", ["5,6", "i:5:9"]),
    ("nn.RNNCell(3,4,nonlinearity='relu')", ["2,3", "2,4"]),
]


def _drawn(spec: str, rng: np.random.Generator) -> Any:
    kind, _, rest = spec.rpartition(":") if spec.count(":") == 1 else ("", "", spec)
    if spec.count(":") == 2:
        kind, rest, limit = spec.split(":")
        whole = rng.integers(0, int(limit), tuple(map(int, rest.split(","))))
        return whole.astype(np.float64) if kind == "I" else whole
    dims = tuple(map(int, rest.split(",")))
    if kind == "p":
        return rng.random(dims) * 0.9 + 0.05
    normal = rng.standard_normal(dims)
    return {"": normal, "s": np.sign(normal), "f": (normal > 0).astype(np.float64)}[kind]


def _parameter_value(name: str, dims: tuple[int, ...], rng: np.random.Generator) -> Any:
    value = rng.standard_normal(dims) * 0.5
    return np.abs(value) + 0.5 if name.endswith("running_var") else value


def fingerprint(value: Any) -> list[float]:
    """Sizes, and two sums over all elements that tell their order."""
    flat = np.asarray(value, dtype=np.float64).ravel()
    at = np.arange(flat.size)
    return [*np.shape(value), float((flat * np.cos(at)).sum()), float((flat * np.sin(at + 0.5)).sum())]


def _flat(value: Any) -> list[Any]:
    return (
        [v for part in value for v in _flat(part)] if isinstance(value, (tuple, list)) else [] if value is None
        else [value]
    )


def compute(lib: Any, i: int) -> dict[str, Any]:
    """Fingerprints of results, gradients, and state after the call, by name; lib's default dtype must be float64."""
    expression, specs = LAYERS[i]
    rng = np.random.default_rng(i)
    layer = eval(expression, {"nn": lib.nn})
    state = layer.state_dict()
    layer.load_state_dict(
        {
            name: lib.from_numpy(_parameter_value(name, tuple(old.shape), rng)) if old.is_floating_point() else old
            for name, old in state.items()
        })
    inputs = [lib.from_numpy(_drawn(spec, rng)) for spec in specs]
    for x, spec in zip(inputs, specs, strict=True):
        if ":" not in spec:
            x.requires_grad_()
    results = _flat(layer(*inputs))
    found = {f"result{n}": fingerprint(r.detach().numpy()) for n, r in enumerate(results)}
    loss = sum((r * lib.linspace(-1, 1, r.numel()).reshape(r.shape)).sum() for r in results if r.is_floating_point())
    if loss.requires_grad:
        loss.backward()
    named = [(f"input{n}", x) for n, x in enumerate(inputs)] + list(layer.named_parameters())
    found.update({f"grad of {name}": fingerprint(x.grad.numpy()) for name, x in named if x.grad is not None})
    found.update({name: fingerprint(value.numpy()) for name, value in layer.state_dict().items()})
    return found
