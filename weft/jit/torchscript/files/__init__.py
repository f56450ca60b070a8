"""Programs as files: graphs as text, tensors beside them. A file needs no source, and holds no code but graphs.

A file is one of weft.save's. Under "version" (and "weft.jit") it has that of the format; then programs, each with its
signature, graph and the programs that it calls; Modules, each with parameters, buffers, attributes, submodules and
methods; classes and enumerations (classes.py), which only version 2 has; and the user's own files, as bytes.

saving.py writes, loading.py reads, names.py checks what graphs refer to by name.
"""
