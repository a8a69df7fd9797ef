"""Tensor maps: which bytes of global and of shared memory a box is, as measured on an H200.

>>> from tcprobe.references.shared_memory.tensor_map import packed_map
>>> box = box_of(packed_map("FLOAT16", (64, 16), (64, 8), "128B"))
>>> box.shape, box.places(0)[1, :2].tolist()  # row 1: its first chunk of 16 bytes is swapped with the second
((8, 64), [144, 146])
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate.rounding import flushed, narrow, widen
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.isa.tensor_map import EVERY_SPAN, PACKED, SWIZZLES
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.layout.swizzle import Swizzle
from tcprobe.references.shared_memory.tensor_map import ROUNDED, TensorMap
from tcprobe.references.shared_memory.tensor_map_bits import BYTES, TYPES, MapFields, decode, encode
from tcprobe.references.shared_memory.tma import ATOMS

MAP_BYTES = BYTES
KNOWN_SWIZZLES = 3  # the largest mode whose bits are known
FLUSHED = (10, 12)  # types whose subnormal numbers are zeros
NAN_FILL = {6: 0x7FFF, 9: 0x7FFF, 7: 0x7FFFFFFF, 10: 0x7FFFFFFF, 11: 0x7FFFFFFF, 12: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}


class Box(NamedTuple):
    """A box of a map: rows x elements of a row; `swizzles` of byte addresses, one after the other."""

    map: TensorMap
    size: int  # bytes of an element
    pitch: int
    swizzles: tuple[Swizzle, ...]
    steps: tuple[Ints, ...]  # of each dimension, inner first, what is added to the coordinate

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and elements of one."""
        inner, *outer = (len(step) for step in self.steps)
        return int(np.prod(outer or [1])), inner

    @property
    def bytes(self) -> int:
        """What an mbarrier counts."""
        rows, inner = self.shape
        return rows * inner * self.size

    def places(self, start: int) -> Ints:
        """(rows, elements) addresses in shared memory of a box that starts at an address."""
        return _places(self.shape, self.pitch, self.size, self.swizzles, start)

    def elements(self, coordinates: tuple[int, ...]) -> tuple[Ints, Bools]:
        """(rows, elements) addresses in global memory, and which are inside the tensor."""
        tensor = self.map
        strides = (self.size, *tensor.strides)
        at = np.zeros((1,), np.int64)
        inside = np.ones((1,), np.bool_)
        for dim in reversed(range(tensor.rank)):
            place = coordinates[dim] + self.steps[dim]
            at = (at[:, None] + place * strides[dim]).reshape(-1)
            inside = (inside[:, None] & (place >= 0) & (place < tensor.dims[dim])).reshape(-1)
        return tensor.address + at.reshape(self.shape), inside.reshape(self.shape)

    def loaded(self, words: Any) -> Any:
        """Elements as a load leaves them: some types are rounded or flushed."""
        kind = self.map.type
        if kind in FLUSHED:
            words = flushed(words)
        return narrow(widen(words, "f32"), "tf32", "rn") if kind in ROUNDED else words

    @property
    def outside(self) -> int:
        """The bits of an element outside the tensor."""
        return NAN_FILL.get(self.map.type, 0) if self.map.fill else 0


@lru_cache(maxsize=256)
def _places(shape: tuple[int, int], pitch: int, size: int, swizzles: tuple[Swizzle, ...], start: int) -> Ints:
    at: Ints = start + np.arange(shape[0])[:, None] * pitch + np.arange(shape[1]) * size
    for swizzle in swizzles:
        at = swizzle(at)
    return at


@lru_cache(maxsize=64)
def box_of(tensor_map: TensorMap) -> Box:
    """The box of a map; UsageError for what nobody measured."""
    if tensor_map.interleave or tensor_map.type in PACKED.values():
        raise UsageError("tensor maps with interleave, or of packed types of 4 and 6 bits, are not emulated.")
    name = next(name for name, number in SWIZZLES.items() if number == tensor_map.swizzle)
    swizzles = ATOMS.get(name) or ((Swizzle(tensor_map.swizzle, 4, 3),) if tensor_map.swizzle else ())
    pitch = EVERY_SPAN.get(tensor_map.swizzle, tensor_map.row_bytes)
    counts = [tensor_map.box[0]] + [-(-n // s) for n, s in zip(tensor_map.box[1:], tensor_map.steps[1:], strict=True)]
    by = [1, *tensor_map.steps[1:]]
    steps = tuple(np.arange(count, dtype=np.int64) * step for count, step in zip(counts, by, strict=True))
    return Box(tensor_map, tensor_map.size, pitch, swizzles, steps)


def encode_map(tensor_map: TensorMap, address: int) -> bytes:
    """A tensor map as the 128 bytes that hardware takes; what of sm_100's modes is not known stands in the last two."""
    one, more = tensor_map, [0, 0]
    kind, mode = one.type, one.swizzle
    if mode > KNOWN_SWIZZLES:
        more[0], mode = mode, KNOWN_SWIZZLES
    if kind >= len(TYPES):
        more[1], kind = kind, 0
    modes = one.interleave, mode, one.promotion, one.fill
    made = encode(MapFields(kind, one.dims, one.strides, one.box, one.steps, *modes, address))
    return made[:-2] + bytes(more)


def decode_map(raw: bytes) -> TensorMap | None:
    """The map that 128 bytes are, with its address; None for bytes of none, and of im2col."""
    held = answer_or_none(lambda: decode(raw))
    if held is None or held.corners is not None:
        return None
    made = TensorMap(*held[:9], held.address)
    return made._replace(swizzle=raw[-2] or made.swizzle, type=raw[-1] or made.type)
