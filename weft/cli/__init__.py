"""The commands `python -m weft train | generate | explain | profile | run | opt | knobs`.

Start reading in main.py (which command runs), then train.py (the demo) and gpt.py (the model it trains,
in ordinary weft). Imports weft as a user does, and nothing of its insides. recipe.py imports NumPy alone, so that other
frameworks can read it.
"""
