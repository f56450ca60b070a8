"""Over all elements or along dims.

sums.py (sums, products, means, any and all), extrema.py, statistics.py (variance), scans.py (running sums and extrema),
sorting.py (sort, topk, median, unique), counting.py (mode, bincount, histc), histograms.py, segments.py,
quantiles.py, covariance.py, differences.py.
"""

from weft.catalogue.reductions import (  # noqa: F401
    counting,
    covariance,
    differences,
    extrema,
    histograms,
    quantiles,
    scans,
    segments,
    sorting,
    statistics,
    sums,
)
