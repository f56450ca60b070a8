"""PyTorch's name of loader.py and collate.py."""

from weft.utils.data.collate import default_collate, default_convert
from weft.utils.data.dataset import Dataset, IterableDataset
from weft.utils.data.loader import DataLoader, LoaderIterator, ThreadedIterator, get_worker_info
from weft.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler",
    "default_collate", "default_convert", "get_worker_info",
]
_BaseDataLoaderIter = LoaderIterator
_MultiProcessingDataLoaderIter = ThreadedIterator
