"""Discrete Fourier transforms: fft.py (over dims), spectra.py (several dims, frequencies, shifts), short_time.py
(stft, windows of signals)."""

from weft.catalogue.signal import fft, short_time, spectra  # noqa: F401
