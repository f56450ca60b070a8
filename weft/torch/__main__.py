"""`python -m weft.torch`: see runner.py."""

from __future__ import annotations

import sys

from weft.torch.runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
