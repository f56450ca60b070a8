"""What names of Python stand for in a program: builtins.py with numbers.py and sorting.py has the builtin functions,
foreign.py modules, exceptions, named tuples and dicts from outside.
"""
