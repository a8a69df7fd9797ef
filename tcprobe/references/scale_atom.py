"""How the host lays scale factors out for block-scaled multiplies: CUTLASS's SfAtom, tiled over lines and blocks of k.

>>> from tcprobe.references.scale_atom import offset
>>> offset(line=40, block=5, blocks=8), offset(line=128, block=0, blocks=6)
(645, 1024)

A line is a row of A or a column of B, a block the elements of it along k that share a scale, a scale a byte. An atom
is 128 lines x 4 blocks in 512 bytes; atoms follow each other along k first, of which the last is filled up. Source:
CUTLASS include/cutlass/detail/sm100_blockscaled_layout.hpp, Sm1xxBlockScaledBasicChunk, tile_atom_to_shape_SFA.
"""

from __future__ import annotations

SOURCE = "CUTLASS, sm100_blockscaled_layout.hpp, Sm1xxBlockScaledBasicChunk"
LINES, BLOCKS, BYTES = 128, 4, 512  # of an atom
LANES = 32  # lines that are 16 bytes apart; 4 of them, 32 lines apart, lie in those 16


def offset(line: int, block: int, blocks: int) -> int:
    """The byte of a scale, of `blocks` in a line."""
    atom = line // LINES * -(-blocks // BLOCKS) + block // BLOCKS
    return atom * BYTES + line % LANES * 16 + line % LINES // LANES * BLOCKS + block % BLOCKS
