"""Types of what lies over several devices: there to be asked about, refused where they are made."""

import pytest

import weft
from weft.distributed.device_mesh import DeviceMesh, init_device_mesh
from weft.distributed.fsdp import FullyShardedDataParallel
from weft.distributed.tensor import DTensor, Shard


def test_nothing_is_one_and_none_can_be_made() -> None:
    assert not isinstance(weft.ones(1), DTensor) and weft.distributed.tensor.DTensor is DTensor
    for make in (DTensor, DeviceMesh, init_device_mesh, Shard, FullyShardedDataParallel):
        with pytest.raises(NotImplementedError, match="several devices"):
            make(weft.ones(1))
    with pytest.raises(NotImplementedError, match="low discrepancy"):
        weft.quasirandom.SobolEngine(2)
    assert weft.serialization.MAP_LOCATION and weft.serialization.FILE_LIKE
