"""The layout of scale factors in global memory for block-scaled multiplies: CUTLASS's SfAtom, tiled over lines and
blocks.

>>> from tcprobe.references.scale_atom import offset
>>> offset(line=40, block=5, blocks=8), offset(line=128, block=0, blocks=6)
(645, 1024)

A line is a row of A or a column of B; a block is the run of k that shares one scale; a scale is a byte. An atom has 128
lines x 4 blocks in 512 bytes. Atoms follow each other along k first; the last one along k is padded. Source: CUTLASS
include/cutlass/detail/sm100_blockscaled_layout.hpp, Sm1xxBlockScaledBasicChunk, tile_atom_to_shape_SFA.
"""

from __future__ import annotations

SOURCE = "CUTLASS, sm100_blockscaled_layout.hpp, Sm1xxBlockScaledBasicChunk"
LINES, BLOCKS, BYTES = 128, 4, 512  # of an atom
LANES = 32  # lines that are 16 bytes apart; these 16 bytes have 4 lines, 32 apart


def offset(line: int, block: int, blocks: int) -> int:
    """The byte offset of a scale; `blocks` is the number of blocks in a line."""
    atom = line // LINES * -(-blocks // BLOCKS) + block // BLOCKS
    return atom * BYTES + line % LANES * 16 + line % LINES // LANES * BLOCKS + block % BLOCKS
