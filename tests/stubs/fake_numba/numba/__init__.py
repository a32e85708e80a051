"""Stands in for Numba on machines without a GPU: `numba.cuda` runs kernels thread by thread in plain Python."""

__version__ = "0.0.fake"


class config:  # noqa: N801 - the real one is a module
    ENABLE_CUDASIM = 0
