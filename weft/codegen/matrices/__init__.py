"""Linear algebra on small matrices: kernels that factor and solve one matrix of a batch after another. Imports emit/,
math/, scalar/ and gemm/.

Start reading at rows.py (a matrix in memory, row by row), then cholesky.py, triangular.py and elimination.py, one
algorithm each; blocks.py is for large matrices, unrolled.py for very small ones, kernel.py what all have in common.
"""
