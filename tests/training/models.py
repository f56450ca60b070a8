"""Models of random training programs, as source text. Each has `scale`, `bias_on`, `steps`, a buffer `seen`, and `tie`,
which their programs change."""

from __future__ import annotations

import random
from dataclasses import dataclass

CLASSES = 4  # the width of every model's result
WIDTH = 6  # the width of every vector input


@dataclass(frozen=True)
class Model:
    """source: text of `class Model`. input: what its x is. is_classifier: whether its result has one
    row for each example."""

    source: str
    input: str
    is_classifier: bool = True
    least_batch: int = 1


def _class(init: list[str], forward: list[str], tie: str = "pass") -> str:
    head = [
        "class Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.scale, self.bias_on, self.steps = 1.0, True, 0",
        "        self.register_buffer('seen', weft.zeros(()))",
    ]
    body = (
        [f"        {line}" for line in init] + ["", "    def forward(self, x):"]
        + [f"        {line}" for line in forward]
    )
    return "\n".join([*head, *body, "", "    def tie(self):", f"        {tie}", ""])


_ACTIVATIONS = (
    "F.relu({})", "{}.tanh()", "F.gelu({})", "F.silu({})", "F.elu({})", "F.softplus({})", "{}.sigmoid()",
    "F.leaky_relu({}, 0.1)", "F.hardswish({})", "F.mish({})", "weft.sin({})", "F.selu({})", "F.softsign({})",
    "{}.clamp(-1, 1)", "F.hardtanh({})", "F.relu({}, inplace=True)", "({} * 1).tanh_()",
)
_END = ["out = out * self.scale", "return out + 0.1 if self.bias_on else out"]


def _act(r: random.Random, value: str) -> str:
    return r.choice(_ACTIVATIONS).format(value)


def mlp(r: random.Random) -> Model:
    """Two or three layers, perhaps normalized, perhaps with a residual connection."""
    width = r.choice((5, 6, 9))
    norm = r.choice((
        "nn.Identity()", f"nn.LayerNorm({width})", f"nn.BatchNorm1d({width})",
        f"nn.BatchNorm1d({width}, momentum=None)", f"nn.RMSNorm({width})",
    ))
    init = [
        f"self.a = nn.Linear({WIDTH}, {width})", f"self.norm = {norm}",
        f"self.b = nn.Linear({width}, {width}, bias={r.choice((True, False))})",
        f"self.c = nn.Linear({width}, {CLASSES})",
    ]
    forward = [
        f"h = {_act(r, 'self.norm(self.a(x))')}",
        r.choice((f"h = {_act(r, 'self.b(h)')}", f"h = h + {_act(r, 'self.b(h)')}", "h = self.b(h) * h.sigmoid()")),
    ]
    return Model(
        _class(init, [*forward, "out = self.c(h)", *_END], "self.b.weight = self.b.weight"), "vectors",
        least_batch=2 if "Batch" in norm else 1,
    )


def tied(r: random.Random) -> Model:
    """An autoencoder whose halves share a weight, from the start or once `tie` is called."""
    init = [
        f"self.up = nn.Linear({WIDTH}, 8)", f"self.down = nn.Linear(8, {WIDTH})",
        f"self.out = nn.Linear({WIDTH}, {CLASSES})",
    ]
    if r.random() < 0.5:
        init.append("self.up.weight = nn.Parameter(self.down.weight.detach().t().clone())")
    code = r.choice(("F.linear(h, self.up.weight.t(), self.down.bias)", "self.down(h)"))
    return Model(_class(
        init, [f"h = {_act(r, 'self.up(x)')}", f"h = {code}", "out = self.out(h)", *_END],
        "self.up.bias.data = self.up.bias.data.clone()",
    ), "vectors")


def by_hand(r: random.Random) -> Model:
    """Parameters in lists and dictionaries, views, slices and in-place writes."""
    init = [
        f"self.ws = nn.ParameterList([nn.Parameter(weft.zeros({WIDTH}, {WIDTH})) for _ in range({r.randint(1, 3)})])",
        (
            f"self.d = nn.ParameterDict({{'u': nn.Parameter(weft.zeros({WIDTH}, {CLASSES})), 'v': "
            f"nn.Parameter(weft.zeros({CLASSES}))}})"
        ),
    ]
    body = r.choice((
        ["h = x.clone()", "for w in self.ws:", f"    h = {_act(r, '(h @ w)')}"],
        ["h = x * 1", "for w in self.ws:", "    h[:, 1:] = (h @ w)[:, 1:].tanh()"],
        ["h = x", "for i, w in enumerate(self.ws):", "    h = weft.cat([h[:, :2], (h @ w)[:, 2:]], 1) * (i + 1)"],
        ["h = x * 1", "for w in self.ws:", "    h.add_(weft.einsum('bi,ij->bj', h * 0.5, w))"],
        ["h = x", "for w in self.ws:", "    a, b = (h @ w).chunk(2, -1)", "    h = weft.cat([a * b.sigmoid(), b], -1)"],
    ))
    return Model(_class(init, [*body, "out = h @ self.d['u'] + self.d['v']", *_END]), "vectors")


def convolutional(r: random.Random) -> Model:
    """One or two convolutions over small images, normalized and pooled."""
    channels = r.choice((2, 4))
    norm = r.choice((
        "nn.Identity()", f"nn.BatchNorm2d({channels})", f"nn.GroupNorm(2, {channels})",
        f"nn.InstanceNorm2d({channels}, affine=True)",
    ))
    pool = r.choice(
        ("F.max_pool2d(h, 2)", "F.avg_pool2d(h, 2)", "F.adaptive_avg_pool2d(h, (2, 2))", "h[:, :, ::2, ::2]")
    )
    conv = (
        f"nn.Conv2d(2, {channels}, {r.choice((1, 3))}, padding={r.choice((0, 1))}, stride={r.choice((1, 1, 2))}, "
        f"bias={r.choice((True, False))})"
    )
    init = [f"self.conv = {conv}", f"self.norm = {norm}", f"self.out = nn.Linear({channels}, {CLASSES})"]
    forward = [
        f"h = {_act(r, 'self.norm(self.conv(x))')}", f"h = {pool}",
        r.choice(("h = h.mean((2, 3))", "h = h.flatten(2).amax(-1)", "h = h.flatten(2).sum(-1) * 0.1")),
        "out = self.out(h)", *_END,
    ]
    return Model(_class(init, forward), "images", least_batch=2 if "Batch" in norm else 1)


def signals(r: random.Random) -> Model:
    """A convolution along sequences."""
    init = [
        f"self.conv = nn.Conv1d({WIDTH}, 5, {r.choice((1, 2))}, padding={r.choice((0, 1))})",
        f"self.out = nn.Linear(5, {CLASSES})",
    ]
    forward = [
        f"h = {_act(r, 'self.conv(x.transpose(1, 2))')}",
        r.choice(("h = h.mean(-1)", "h = h.cumsum(-1)[:, :, -1]", "h = h.max(-1).values")), "out = self.out(h)", *_END,
    ]
    return Model(_class(init, forward), "sequences")


def recurrent(r: random.Random) -> Model:
    """A recurrent layer, or a cell in a loop."""
    kind = r.choice(("RNN", "GRU", "LSTM"))
    if r.random() < 0.6:
        options = r.choice(("", ", num_layers=2", ", bidirectional=True", ", bias=False"))
        width = 10 if "bi" in options and "bias" not in options else 5
        init = [
            f"self.rnn = nn.{kind}({WIDTH}, 5, batch_first=True{options})", f"self.out = nn.Linear({width}, {CLASSES})"
        ]
        return Model(_class(
            init, ["h, _ = self.rnn(x)", r.choice(("h = h[:, -1]", "h = h.mean(1)")), "out = self.out(h)", *_END]
        ), "sequences")
    init = [f"self.cell = nn.{kind}Cell({WIDTH}, 5)", f"self.out = nn.Linear(5, {CLASSES})"]
    state = (
        "h = (weft.zeros(len(x), 5, dtype=x.dtype),) * 2" if kind == "LSTM"
        else "h = weft.zeros(len(x), 5, dtype=x.dtype)"
    )
    last = "h = h[0]" if kind == "LSTM" else "h = h * 1"
    return Model(
        _class(init, [state, "for t in x.unbind(1):", "    h = self.cell(t, h)", last, "out = self.out(h)", *_END]),
        "sequences",
    )


def attention(r: random.Random) -> Model:
    """Tokens, embedded and attended to."""
    layer = r.choice((
        "nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)",
        "nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True, activation='gelu')",
        "nn.MultiheadAttention(8, 2, batch_first=True)",
    ))
    init = ["self.embed = nn.Embedding(11, 8)", f"self.layer = {layer}", f"self.out = nn.Linear(8, {CLASSES})"]
    call = "h, _ = self.layer(h, h, h)" if "Multihead" in layer else "h = self.layer(h)"
    own = [
        "q, k, v = h, h.roll(1, 1), h * 2",
        f"h = h + F.scaled_dot_product_attention(q, k, v, is_causal={r.choice((True, False))})",
    ]
    forward = [
        "h = self.embed(x)", *([call] if r.random() < 0.7 else own), r.choice(("h = h[:, 0]", "h = h.mean(1)")),
        "out = self.out(h)", *_END,
    ]
    return Model(_class(init, forward), "tokens")


def bag(r: random.Random) -> Model:
    """Tokens counted, summed or looked up."""
    init = ["self.embed = nn.Embedding(11, 6, padding_idx=0)", f"self.out = nn.Linear(6, {CLASSES})"]
    forward = r.choice((
        ["h = self.embed(x).sum(1)"],
        ["h = self.embed(x)", "h = (h * h.softmax(1)).sum(1)"],
        ["h = F.one_hot(x, 11).to(self.embed.weight.dtype).mean(1) @ self.embed.weight"],
        ["h = self.embed.weight[x].prod(1)"],
    ))
    return Model(_class(
        init, [*forward, f"h = {_act(r, 'h')}" if r.random() < 0.5 else "h = h * 0.7", "out = self.out(h)", *_END],
        "self.embed.weight.data = self.embed.weight.data.clone()",
    ), "tokens")


MODELS = (mlp, mlp, tied, by_hand, by_hand, convolutional, signals, recurrent, attention, bag)
