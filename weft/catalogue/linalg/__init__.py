"""Products of matrices, and linear algebra; leading dims are batches.

matmul.py, added_products.py, contractions.py and einsum.py (products), square.py (cholesky, inverse, solve, slogdet),
lu.py, factorizations.py (QR, eigh), eigen.py, singular.py, pseudoinverse.py (least squares), matrix_equations.py,
reflectors.py (geqrf, householder_product), indefinite.py (ldl_factor),
matrix_functions.py (powers, exponentials), vector_norms.py, distances.py.
"""

from weft.catalogue.linalg import (  # noqa: F401
    added_products,
    contractions,
    distances,
    eigen,
    einsum,
    factorizations,
    indefinite,
    lu,
    matmul,
    matrix_equations,
    matrix_functions,
    pseudoinverse,
    reflectors,
    singular,
    square,
    vector_norms,
)
