"""Matrix instructions of PTX that the inventory may not have: one row each, silent where the inventory has the family.

>>> from tcprobe.isa.beyond import not_covered
>>> not_covered("ldmatrix.m8n8.x4") is None
True

Source: PTX ISA 9.1, sections 9.7.14 to 9.7.17.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MOST_NAME = 200


class Beyond(NamedTuple):
    """A family, a pattern of the names that mean it, what it is, and from which target on."""

    family: str
    pattern: str
    what: str
    target: str


# the more special first
BEYOND = (
    Beyond("mma.sp.block_scale", r"mma\W+sp.*(block_?scale|mxf)", "sparse multiplies with scales", "sm_120a"),
    Beyond("mma.block_scale", r"block_?scale|scale_vec|mxf[468]|nvf4|OMMA|SM120_.*_VS", "multiplies with scales",
           "sm_120a"),
    Beyond("wgmma.sp", r"wgmma.*\bsp\b|SM90_64x.*SPARSE|GMMA::SPARSE", "sparse multiplies of a warpgroup", "sm_90a"),
    Beyond("wgmma", r"wgmma|warpgroup|\bGMMA|[HIQB]GMMA|SM90_64x|m64n\d", "multiplies of a warpgroup", "sm_90a"),
    Beyond("tcgen05", r"tcgen05|\bumma|UTC\w*MMA|SM100_|tmem|tensor memory|cta_group", "multiplies in tensor memory",
           "sm_100a"),
    Beyond("mma.sp", r"mma\W+sp|\bsparse|\w+MMA\.SP|SM\d+_SPARSE", "sparse multiplies of a warp", "sm_80"),
)  # fmt: skip


def not_covered(name: str, families: Iterable[str] = ()) -> str | None:
    """What PTX has under such a name and `families` lack, in words; None where it is not known to have it."""
    known = set(families)
    for row in BEYOND:
        if re.search(row.pattern, name[:MOST_NAME], re.I):
            words = f"{row.family} ({row.what}, from {row.target} on) is PTX's, but tcprobe does not cover it yet"
            return None if row.family in known else words
    return None
