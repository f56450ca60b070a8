"""The native matrix product, written from tiles up. Imports emit/.

Start reading at prototypes.py (what a module may call, and the contract), then library.py (these functions), driver.py
(blocks), kernel.py (register tiles), pack.py, small.py (products a few vectors thick) and tiles.py (sizes of tiles and
blocks). What writes the functions is not imported here: they come compiled (weft/codegen/shipped.py).
"""

from .prototypes import PARAMETERS, declare_gemm, gemm_symbol

__all__ = ["PARAMETERS", "declare_gemm", "gemm_symbol"]
