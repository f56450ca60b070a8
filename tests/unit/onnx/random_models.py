"""Random models for files of ONNX, as text: functions of x, y: f32[rows, 3], i: i64[rows, 3] and b: b1[rows, 3] that
compute, compare, index, write in place and ask for sizes. m has a weight w [3, 3] and a bias b [3].
"""

from __future__ import annotations

import random

_PLAIN = (
    "sin", "cos", "tanh", "sigmoid", "exp", "abs", "floor", "ceil", "round", "sign", "square", "erf", "trunc", "frac",
    "atan", "sinh", "asinh", "expm1", "neg",
)
_LAYERS = (
    "silu", "gelu", "selu", "celu", "softplus", "mish", "hardswish", "hardsigmoid", "logsigmoid", "relu6",
    "leaky_relu", "softsign", "hardtanh", "softshrink", "tanhshrink",
)
FLOATS = (
    *(f"weft.{name}({{A}})" for name in _PLAIN), *(f"F.{name}({{A}})" for name in _LAYERS),
    "weft.log({A}.abs() + 1.1)", "weft.rsqrt({A}.abs() + 1.1)", "F.softplus({A}, beta=2.0, threshold=1.0)",
    "({A} + {B})", "({A} - {B})", "({A} * {B})", "({A} / ({B}.abs() + 0.5))", "(2.5 - {A})", "({A} % 0.7)",
    "({A} // -0.7)", "weft.fmod({A}, 0.7)", "weft.remainder({A}, {B}.abs() + 0.5)", "weft.pow({A}.abs() + 0.1, {B})",
    "weft.fmax({A}, {B})", "weft.minimum({A}, {B})", "weft.atan2({A}, {B} + 3.0)", "weft.hypot({A}, {B})",
    "weft.copysign({A}, {B})", "weft.where({M}, {A}, {B})", "weft.where({M}, {A}, 0.5)", "{A}.masked_fill({M}, -2)",
    "weft.lerp({A}, {B}, 0.3)", "{A}.sum(0, keepdim=True).expand_as({A})", "({A} - {A}.mean())",
    "({A} + {A}.std(1, keepdim=True))", "({A} * {A}.norm(dim=1, keepdim=True))", "weft.cumsum({A}, 0)",
    "weft.cumprod({A}, 1)", "weft.softmax({A}, 0)", "weft.log_softmax({A}, -1)",
    "{A}.logsumexp(1, keepdim=True) * {B}", "{A}.max(1, keepdim=True)[0] * {B}", "{A}.flip(0, 1)", "{A}.roll(1, 0)",
    "{A}.reshape(-1).reshape({A}.shape)", "{A}.repeat(2, 1)[::2]", "{A}.triu(1)", "{A}.repeat_interleave(2, 0)[1::2]",
    "weft.cat([{A}[:1], {B}[1:]], 0)", "weft.cat([{A}[:, 2:], {B}[:, :2]], 1)", "weft.cat(weft.chunk({A}, 3, 1), 1)",
    "weft.stack([{A}, {B}], 2)[..., 1]", "({A}[-1] + {B})", "{A}[:, [2, 0, 1]]",
    "({A}[..., None] * {B}[:, None, :]).sum(1)", "weft.gather({A}, 1, {I} % 3)", "({A} @ m.w)",
    "F.linear({A}, m.w, m.b)", "weft.addmm(m.b, {A}, m.w, beta=0.5, alpha=2.0)", "weft.einsum('ij,kj->ik', {A}, m.w)",
    "({A} @ {A}.t() @ {B})", "F.layer_norm({A}, (3,), m.b, m.b)", "F.normalize({A}, dim=1)",
    "F.pad({A}, (1, 0), value=0.5)[:, 1:]", "weft.cdist({A}, m.w)", "F.pad({A}, (1, 1), mode='reflect')[:, 1:-1]",
    "F.avg_pool1d({A}.unsqueeze(1), 3, stride=1, padding=1).squeeze(1)", "F.embedding({I} % 3, m.w).sum(2)",
    "F.one_hot({I} % 3, 3).sum(1).float() + {A}", "weft.sort({A}, dim=1)[0]",
    "weft.topk({A}, 2, dim=1)[0].sum(1, keepdim=True) * {B}", "weft.clamp({A}, min={B})", "{I}.float() * {A}",
    "({M} * {A})", "({A} * {A}.shape[0])", "weft.arange({A}.shape[0]).unsqueeze(1) * {A}",
    "(weft.full_like({A}, 0.5) + weft.linspace(0, 1, 3))", "weft.scatter({A}, 1, {I}[:, :1] % 3, 0.5)",
    "weft.addcmul({A}, {B}, {B}, value=0.5)", "weft.logaddexp({A}, {B})", "F.cross_entropy({A}, {I}[:, 0] % 3) * {B}",
    "F.huber_loss({A}, {B}, reduction='none')",
    "F.scaled_dot_product_attention({A}.unsqueeze(0), {B}.unsqueeze(0), {A}.unsqueeze(0)).squeeze(0)",
)
INTEGERS = (
    "({I} * {J} + 1)", "({I} // -3)", "({I} % -4)", "({A} * 3).long()", "{M}.long()", "weft.topk({A}, 3, dim=1)[1]",
    "weft.argmin({A}, 1, keepdim=True) + {I}", "weft.where({M}, {I}, 1)", "weft.cumsum({I}, 0)",
    "({I} + {I}.shape[0])", "weft.div({I}, 2, rounding_mode='trunc')", "weft.maximum({I}, {J})", "weft.fmod({I}, 3)",
    "({I} << 1)", "weft.nonzero({M}).sum() + {I}", "{I}.amax(0, keepdim=True) + {J}",
)
FLAGS = (
    "({A} < {B})", "({A} >= 0.1)", "({I} != 0)", "({M} & {N})", "({M} ^ {N})", "~{M}", "weft.logical_or({A}, {I})",
    "({M}.any(1, keepdim=True) & {N})", "({M}.all(0, keepdim=True) | {N})", "weft.isclose({A}, {B}, atol=0.5)",
    "{A}.bool()", "weft.signbit({A})", "weft.isfinite({A})",
)
WRITES = (
    "v[0] = {A}[-1]", "v[:, 1] = 0.5", "v[1:] = {A}[:-1]", "v[{M}] = 0.25", "v += {A}", "v.mul_(2).sub_(1)",
    "v[:, :2].add_({A}[:, 1:])", "v.t()[0] = {A}[:, 2]", "v.scatter_(1, {I} % 3, 0.75)", "v[::2, 1:] *= 2",
    "v.copy_({A})", "v[-1, -1] = {A}.sum()", "v[:, [0, 2]] = {A}[:, :2]", "v.view(-1)[0] = 3.0",
    "v.diagonal().fill_(0.4)",
)


def program(r: random.Random) -> str:
    """The text of a function `forward(m, x, y, i, b)`: a float tensor, integers, flags, and an expression of floats."""
    names = {"float": ["x", "y"], "int": ["i"], "flag": ["b"]}
    lines = ["def forward(m, x, y, i, b):"]

    def fill(form: str) -> str:
        return form.format(
            A=r.choice(names["float"]), B=r.choice(names["float"]), I=r.choice(names["int"]), J=r.choice(names["int"]),
            M=r.choice(names["flag"]), N=r.choice(names["flag"]),
        )

    for count in range(r.randint(3, 7)):
        kind, forms = r.choice([*[("float", FLOATS)] * 4, ("int", INTEGERS), ("flag", FLAGS), ("write", WRITES)])
        if kind == "write":
            lines += [f"    v = {r.choice(names['float'])} * 1.0", *(f"    {fill(r.choice(WRITES))}" for _ in range(2))]
            lines.append(f"    x{count} = v")
            names["float"].append(f"x{count}")
            continue
        lines.append(f"    {kind}{count} = {fill(r.choice(forms))}")
        names[kind].append(f"{kind}{count}")
    results = ", ".join(names[kind][-1] for kind in ("float", "int", "flag"))
    return "\n".join([*lines, f"    return {results}, {fill(r.choice(FLOATS))}", ""])
