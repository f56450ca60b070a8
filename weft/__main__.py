"""`python -m weft`: see weft/cli/main.py."""

from __future__ import annotations

import sys

from weft.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
