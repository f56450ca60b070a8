"""weft.nn.parallel: the wrappers of models that are spread over devices or processes. DistributedDataParallel averages
gradients over the ranks of weft.distributed; DataParallel, which is for several GPUs, calls its module."""

from weft.nn.parallel.data_parallel import DataParallel, data_parallel
from weft.nn.parallel.distributed import DistributedDataParallel
from weft.nn.parallel.scatter_gather import gather, parallel_apply, replicate, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]
