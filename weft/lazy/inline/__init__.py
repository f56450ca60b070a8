"""Inline caches: what followed a state of a trace the last time, as straight-line code."""
