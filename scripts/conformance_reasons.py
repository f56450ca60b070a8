"""Why entries of PyTorch's operator database differ in weft, one line for each reason:
what docs/conformance.md ends with."""

from __future__ import annotations

REASONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("allclose", "equal", "item", "is_same_size"),
        (
            "answer Python with a number or a bool, which a compiled function knows only when it runs; "
            "take the question out of it, or let `weft.compile(f, split=True)` cut the program there."
        ),
    ),
    (
        ("narrow", "tensor_split"),
        (
            "with a place that is a tensor, whose value is only known when the program runs: compiled, give a Python "
            "number or `split=True`; on device meta it has none (PyTorch's device meta refuses these samples too)."
        ),
    ),
    (
        ("repeat_interleave", "to"),
        "on device meta there are no values to read repeats from, and none to copy to the cpu; PyTorch's refuses too.",
    ),
    (
        (
            "div", "float_power", "nn.functional.normalize", "nn.functional.soft_margin_loss",
            "nn.functional.hinge_embedding_loss", "nn.functional.fractional_max_pool2d", "matrix_exp",
        ),
        (
            "in half precision PyTorch rounds (and overflows, to inf or NaN) after each step of a formula; "
            "weft computes it in float32 and rounds once."
        ),
    ),
    (
        ("logcumsumexp", "renorm"),
        (
            "PyTorch's gradient is the less exact one: compared in double precision, weft's is right to the last "
            "digits (renorm: PyTorch gives NaN)."
        ),
    ),
    (
        ("as_strided_scatter",),
        "PyTorch's gradient of the tensor written into does not clear what was overwritten; weft's does.",
    ),
    (
        ("sort", "msort", "topk", "mode", "kthvalue"),
        "among equal values PyTorch picks any; weft is stable and picks the first. Values agree.",
    ),
    (("complex", "view_as_complex"), "of float16 would be complex32, which NumPy and weft do not have."),
    (
        ("conj", "conj_physical", "H", "mH", "adjoint"),
        (
            "`conj` computes and does not remember to conjugate (docs/differences.md); `conj_physical` of a real "
            "tensor is a copy."
        ),
    ),
    (
        ("nn.functional.dropout3d",),
        "PyTorch adds a dim in place to input without a batch and takes it away, which moves the version.",
    ),
    (
        ("unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"),
        "the pieces have memory of their own, row-major; PyTorch's share the input's, with versions of their own.",
    ),
    (
        ("nn.functional.grid_sample",),
        (
            "the second gradient of the places is zero where sampling is piecewise constant; weft leaves it out, "
            "PyTorch returns zeros."
        ),
    ),
    (
        ("nn.functional.linear_cross_entropy",),
        "computed piece by piece, PyTorch's has no second gradient; weft computes it whole, and has one.",
    ),
)
