"""Functions beyond the elementary ones: error_functions.py, gamma.py, bessel.py, normal_distribution.py."""

from weft.catalogue.special import bessel, error_functions, gamma, normal_distribution  # noqa: F401
