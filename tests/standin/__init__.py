"""A stand-in for CuPy on machines without a GPU: its rules and refusals, on arrays in the main memory.

It has only names and arguments that CuPy has (``python -m tests.standin.compare`` checks that against an
installed CuPy; no device is needed for it), follows CuPy's rules where they differ from NumPy's, and counts
every copy between host and device, the asked-for ones and the hidden ones.
"""

from tests.standin.array import LEDGER, Ledger, ndarray
from tests.standin.modules import install

__all__ = ["LEDGER", "Ledger", "install", "ndarray"]
