"""Functions beyond the elementary ones: error_functions.py, scaled_erfc.py, gamma.py, incomplete_gamma.py, zeta.py,
bessel.py, cylinder_functions.py, airy.py, polynomials.py, normal_distribution.py."""

from weft.catalogue.special import (  # noqa: F401
    airy,
    bessel,
    cylinder_functions,
    error_functions,
    gamma,
    incomplete_gamma,
    normal_distribution,
    polynomials,
    scaled_erfc,
    zeta,
)
