"""TorchScript archives, which torch.jit.save writes: a zip file with Modules and tensors in a pickle, and the programs
of their classes as Python's text.

reading.py takes the file apart, code.py finds definitions and types in its text, names.py has what the names in the
text mean, loading.py makes Modules whose methods are compiled from it. Nothing of the file is run as Python.
"""
