"""weft.debug: what went wrong, in one call.

    print(weft.debug.compare(step)(x, y))      eager and compiled side by side: the first value that differs
    print(weft.debug.bisect(step, x, y))       which pass or kernel is at fault, and a script that repeats it
    print(weft.debug.misses(step))             why it was compiled again, and what to do about it

WEFT_DEBUG=nan names the line that made the first NaN; `python -m weft debug SCRIPT.py` looks for all of them.

Start reading at compare.py (what is compared), then watched.py (how values of a program are seen), state.py (what is
put back), bisect.py with shrink.py and repeat.py, misses.py.
"""

from weft.debug.bisect import Culprit, bisect
from weft.debug.compare import Comparison, compare
from weft.debug.misses import Misses, MissNote, misses
from weft.debug.repeat import repeat

__all__ = ["Comparison", "Culprit", "MissNote", "Misses", "bisect", "compare", "misses", "repeat"]
