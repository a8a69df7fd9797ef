"""NumPy multiplies in one thread: of the small matrices here a second one spends more time on waiting than it saves."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
