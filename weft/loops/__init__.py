"""Floor 6: loop nests: what one kernel computes, index by index, before it is machine code.

kernel.py    what a program needs to know of a kernel in order to call it     nest.py        the nest: spaces, accesses, phases
build.py     groups of nodes to nests                                          text.py        a nest as readable loops
interpret.py the same nest run in Python

Start reading at kernel.py. Imports passes/ and lower floors; code generation (codegen/lower*.py) imports this package.
"""
