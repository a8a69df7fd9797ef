"""SHA-256 of Python itself, as `random` takes SHA-512: hashlib loads OpenSSL, a twentieth of a short command's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["sha256"]

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # from Python 3.12 on
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:  # a Python that is built without them
            from hashlib import sha256
