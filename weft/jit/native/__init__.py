"""Loops over numbers as machine code.

kinds.py        which types numbers and tuples of them have in machine code
arithmetic.py   Python's rules for numbers (the bodies of entries, catalogue/language/native.py)
emit.py         a loop, with the functions that it calls, as LLVM's text
loop.py         a compiled loop: how it is entered and left
"""
