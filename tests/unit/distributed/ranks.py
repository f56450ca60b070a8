"""What each rank checks, in one session of two ranks: every function `check_...` of the modules that are named.
Truth is computed by NumPy from all ranks' inputs, which every rank can draw."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import importlib
import traceback

import weft.distributed as dist


def main(names: list[str]) -> int:
    dist.init_process_group("mpi")
    failed = 0
    for name in names:
        module = importlib.import_module(f"tests.unit.distributed.{name}")
        for check in sorted(n for n in vars(module) if n.startswith("check_")):
            try:
                getattr(module, check)()
            except Exception:
                failed += 1
                print(f"{check} failed\n{traceback.format_exc()}", flush=True)
            else:
                print(f"{check} ok", flush=True)
            dist.barrier()
    dist.destroy_process_group()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
