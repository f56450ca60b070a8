"""A folder for PYTHONPATH: the processes that a program starts find `torch` in it, as weft."""
