"""Which operators take no batches, and the words by which vmap says why. Each refuses at least one of its samples
(dropout only draws in training, one_hot only looks for a count that is not given); any other operator refuses none."""

from __future__ import annotations

WORDS = {
    "sizes": "dynamic shape",  # how many elements come out hangs on the values
    "values": "asks a tensor for its value",  # Python goes on with a number
    "random": "randomness error mode",  # tests/unit/func has them with "same" and "different"
}
OPERATORS = {
    "sizes": (
        "aten::_unique2 aten::_unique_consecutive aten::argwhere aten::masked_select aten::nonzero "
        "aten::nonzero.as_tuple aten::nonzero_numpy aten::repeat_interleave.Tensor "
        "aten::repeat_interleave.self_Tensor aten::unique aten::unique_consecutive aten::unique_dim aten::where"
    ),
    "values": (
        "aten::allclose aten::equal aten::is_nonzero aten::narrow.Tensor aten::one_hot "
        "aten::tensor_split.tensor_indices_or_sections"
    ),
    "random": (
        "aten::bernoulli aten::bernoulli.Tensor aten::bernoulli.p aten::binomial aten::cauchy aten::dropout "
        "aten::exponential aten::geometric aten::log_normal aten::multinomial aten::normal.Tensor_Tensor "
        "aten::normal.Tensor_float aten::normal.float_Tensor aten::normal.self aten::poisson aten::rand_like "
        "aten::randint_like aten::randint_like.low "
        "aten::randn_like aten::random aten::random.from aten::random.to aten::uniform aten::_sample_dirichlet "
        "aten::_standard_gamma aten::_standard_von_mises nn::dropout nn::dropout1d "
        "nn::dropout2d nn::dropout3d"
    ),
}
REFUSING = {name: WORDS[why] for why, names in OPERATORS.items() for name in names.split()}
