"""Figures, not tests: `./dev bench` runs them all. Every figure is a ratio taken in one run, or is printed with
the load of the machine."""
