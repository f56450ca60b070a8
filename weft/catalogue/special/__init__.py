"""Functions beyond the elementary ones: error_functions.py, scaled_erfc.py, gamma.py, incomplete_gamma.py, zeta.py,
bessel.py, normal_distribution.py."""

from weft.catalogue.special import (  # noqa: F401
    bessel,
    error_functions,
    gamma,
    incomplete_gamma,
    normal_distribution,
    scaled_erfc,
    zeta,
)
