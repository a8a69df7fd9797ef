"""Messages between the tool and its worker: a JSON header and raw arrays, framed, on a pipe. No pickle."""

from __future__ import annotations

import json
import struct
from typing import IO

import numpy as np

from tcprobe.layout.arrays import Array
from tcprobe.values import Json

Arrays = dict[str, Array]
_SIZE = struct.Struct("<I")


def send(stream: IO[bytes], header: dict[str, object], arrays: Arrays | None = None) -> None:
    """Write one message."""
    arrays = {name: np.ascontiguousarray(a) for name, a in (arrays or {}).items()}
    shapes = {name: [a.dtype.str, list(a.shape)] for name, a in arrays.items()}
    text = json.dumps({"header": header, "arrays": shapes}).encode()
    stream.write(b"".join([_SIZE.pack(len(text)), text, *(a.tobytes() for a in arrays.values())]))
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Json, Arrays] | None:
    """Read one message; None at the end of the stream, also in the middle of a message."""
    size = _read(stream, _SIZE.size)
    text = size and _read(stream, _SIZE.unpack(size)[0])
    if not text:
        return None
    message = json.loads(text)
    arrays = {}
    for name, (kind, shape) in message["arrays"].items():
        dtype = np.dtype(kind)
        raw = _read(stream, dtype.itemsize * int(np.prod(shape)))
        if raw is None:
            return None
        arrays[name] = np.frombuffer(raw, dtype).reshape(shape)
    return message["header"], arrays


def _read(stream: IO[bytes], count: int) -> bytes | None:
    raw = stream.read(count)
    return raw if len(raw) == count else None
