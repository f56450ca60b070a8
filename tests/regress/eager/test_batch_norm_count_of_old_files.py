"""A state_dict of a batch norm without the count of batches, as old files are, leaves the count as it is."""

from collections import OrderedDict

import pytest

import weft
from weft import nn


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("with_the_rest", [False, True])
def test_the_count_stays(assign, with_the_rest):
    norm = nn.BatchNorm2d(3)
    for _ in range(4):
        norm(weft.rand(2, 3, 2, 2))
    saved = OrderedDict((k, v.clone() + 1) for k, v in norm.state_dict().items() if k != "num_batches_tracked")
    norm.load_state_dict(saved if with_the_rest else OrderedDict(), strict=with_the_rest, assign=assign)
    assert norm.num_batches_tracked == 4
    assert not with_the_rest or norm.running_mean.tolist() == saved["running_mean"].tolist()


def test_a_count_on_meta_becomes_zero():
    with weft.device("meta"):
        norm = nn.BatchNorm1d(2)
    norm.load_state_dict(OrderedDict(), strict=False, assign=True)
    assert norm.num_batches_tracked.device.type == "cpu" and norm.num_batches_tracked == 0


def test_a_new_file_says_the_count():
    norm, other = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    norm(weft.rand(3, 2))
    other.load_state_dict(norm.state_dict())
    assert other.num_batches_tracked == 1
