"""Compiled steps as object files: a step without Python.

    description  what an exported step is given and gives, as its manifest says it
    contents     a program's inputs, state and results as an entry point of C, and what is refused
    header       the header of C
    write        the files of a step
    load         the files as a step of Python's again

Start reading at write.py; docs/shipping.md is the page for users, weft/codegen/program/entry_point.py writes the code.
"""
