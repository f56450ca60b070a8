"""The language of scripted programs: what Python does with numbers, texts, containers and objects, one entry each
(`prim::`, `math::`).

signatures.py (the types they take and give), entries.py (the short way to write one), numbers.py, mathematics.py,
conversions.py, texts.py, containers.py, tuples.py, tensors.py (what a program asks a tensor), programs.py
(print, raise, attributes, calls), gradients.py (what a backward is made of).

Integers have 64 bits and wrap around, as in native code; everything else is Python's own.
"""

from weft.catalogue.language import (  # noqa: F401
    containers,
    conversions,
    gradients,
    mathematics,
    numbers,
    programs,
    tensors,
    texts,
    tuples,
)
