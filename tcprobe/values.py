"""What JSON texts hold, as Python has it once they are read: the type of answers and files on their way in and out."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]  # an object: names, and plain values (text, numbers, None, lists, objects)
