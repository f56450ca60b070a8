"""What ran as a program, explained: weft.explain.

One object for all front ends: functions of weft.compile (whole, split, or as they are written), lazy steps, backward
calls of compiled autograd, scripts and traces. Prints as ten to thirty lines; everything else is in its fields.

Start reading at explain.py (what is asked about), then facts.py (what is told), text.py and table.py (how).
"""
