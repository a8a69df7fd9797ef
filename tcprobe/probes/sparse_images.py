"""Images for the probe of a sparse multiply: metadata that encodes its places; how many images B has."""

from __future__ import annotations

from functools import cache

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import Sparsity
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.probes.slots import bit_length, pack, unpack

NIBBLES = 8  # groups of four bits in a lane's metadata
PLACES = WARP * NIBBLES
# pairs of legal values that differ in one bit of one index; together they cover every bit of both
PAIRS = {2: ((0x4, 0xE), (0x8, 0x9), (0x8, 0xC)), 1: ((0x4, 0xE),)}


def b_images(instruction: Instruction) -> int:
    """How many images B has: all ones, each bit of a slot's number, all zeros."""
    return 2 + bit_length(instruction.fragment("b").slots)


@cache
def metadata_images(sparsity: Sparsity, threads: int = WARP) -> Bytes:
    """Four bits of metadata by image and place (lane * 8 + number): uniform images, then position images."""
    count = threads * NIBBLES
    uniform = [np.full(count, value, np.uint8) for value in sparsity.legal]
    places = np.arange(count)
    positional = [
        np.where((places >> bit & 1) ^ turned, if_set, if_clear).astype(np.uint8)
        for if_clear, if_set in PAIRS[sparsity.fields]
        for bit in range(bit_length(count))
        for turned in (0, 1)
    ]
    return np.stack(uniform + positional)


def random_metadata(sparsity: Sparsity, image_count: int, generator: np.random.Generator, threads: int = WARP) -> Bytes:
    """Random legal metadata of all lanes: (images, bytes)."""
    nibbles: Array = generator.choice(np.array(sparsity.legal, np.uint8), (image_count, threads * NIBBLES))
    return pack(nibbles, 4)


def fields(sparsity: Sparsity, metadata: Bytes) -> Ints:
    """The index in every field of metadata images: (images, fields of all lanes)."""
    indices: Ints = index_table(sparsity)[unpack(metadata, 4)].reshape(len(metadata), -1)
    return indices


def index_table(sparsity: Sparsity) -> Ints:
    """`Sparsity.read` by value of four bits and half, (16, fields); 0 for values that are not legal."""
    return np.array(
        [[sparsity.read(v, h) if v in sparsity.legal else 0 for h in range(sparsity.fields)] for v in range(16)]
    )
