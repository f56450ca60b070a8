"""Native code for large arrays in eager mode, behind two seams: `rules` (an operator or a gradient's formula
as a program of its own) and `products` (one product of matrices, on operands as they lie). The front door names them;
the first large call imports them. Start reading at rules.py.
"""
