"""Discrete Fourier transforms. Real and imaginary parts lie apart in private memory, some signals side by side, so that
each step of a transform is the same on whole vectors. Start reading at transform.py.

    stages.py     one step for each factor of the length (2, 3, 4, 5, 7)
    transform.py  transforms of any length: factors, or a convolution where another prime divides the length
    tables.py     roots of unity, computed by each program anew
    memory.py     signals on their way from memory and back, turned where they are rows
    kernels.py    whole kernels: complex signals, real ones, and back
"""
