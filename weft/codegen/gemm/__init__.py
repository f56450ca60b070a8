"""The native matrix product, written from tiles up. Imports emit/.

Start reading at library.py (what a module may call, and the contract), then driver.py (blocks), kernel.py
(register tiles), pack.py, small.py (products a few vectors thick) and tiles.py (sizes of tiles and blocks).
"""

from .library import PARAMETERS, declare_gemm, emit_gemm, gemm_module, gemm_symbol, packed_bytes, workspace_bytes

__all__ = ["PARAMETERS", "declare_gemm", "emit_gemm", "gemm_module", "gemm_symbol", "packed_bytes", "workspace_bytes"]
