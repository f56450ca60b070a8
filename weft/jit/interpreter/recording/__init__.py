"""Scripted programs under a capture (weft.compile, and the executor's plans): branches and loops that hang on what is
only known when the program runs become prim::If and prim::Loop.

values.py     numbers that are only known then, and values taken apart into tensors
numbers.py    arithmetic on such numbers, as operators on 0-dim tensors
operators.py  operators of the program on such numbers
containers.py lists and dicts that blocks write
rows.py       elements that a loop puts at the end of a list, stacked
effects.py    exceptions and prints
branches.py   branches
loops.py      loops
code.py       a program's steps under a capture
"""
