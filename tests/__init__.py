import os

# Before NumPy is imported: two BLAS pools of two threads each on two cores slow the tests five times down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
