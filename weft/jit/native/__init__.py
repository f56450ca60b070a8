"""Loops over numbers as machine code.

kinds.py        which types have a form in machine code
lists.py        lists of numbers on Python's side: handed over, and brought back
elements.py     what is done with them in machine code
arithmetic.py   Python's rules for numbers (the bodies of entries, catalogue/language/native.py)
emit.py         a loop, with the functions that it calls, as LLVM's text
loop.py         a compiled loop: how it is entered and left
"""
