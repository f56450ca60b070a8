"""weft.nn.parallel: the wrappers of models that are spread over devices or processes. weft computes in one process on
the CPU: DataParallel calls its module, and DistributedDataParallel is a type that cannot be made."""

from weft.nn.parallel.data_parallel import DataParallel, data_parallel
from weft.nn.parallel.distributed import DistributedDataParallel
from weft.nn.parallel.scatter_gather import gather, parallel_apply, replicate, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]
