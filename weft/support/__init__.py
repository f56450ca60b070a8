"""Floor 0: what every other floor may use and nothing here knows about: knobs, errors, source locations,
pytrees, counters, seams, memos and their limits.

Start reading at errors.py (how weft speaks to its users) and knobs.py (every switch).
"""
