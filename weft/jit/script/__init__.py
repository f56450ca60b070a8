"""Functions of Python as programs: the front end, and what its source and annotations say.

frontend/          from Python's syntax to a graph
source.py          a function's text, its tree, and places in it      annotations.py   types from Python's annotations
marks.py           ignore, unused, export, annotate                    overloads.py     one function, several signatures
own_functions.py   functions of weft's as programs                     entry.py         weft.jit.script
"""
