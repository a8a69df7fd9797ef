"""What of PTX the inventory does not have: matrix instructions of families that it lacks, and their neighbours.

>>> from tcprobe.isa.beyond import not_covered
>>> not_covered("ldmatrix.m8n8.x4") is None
True
>>> not_covered("shfl.sync.bfly.b32").split("; ")[1]
'see `tcprobe convert` and `tcprobe reduce`'

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


class Neighbour(NamedTuple):
    """The first parts of instructions' names, as a pattern, what these do, and which commands are about it, if any."""

    pattern: str
    what: str
    see: str = ""


# what kernels do beside multiplying; the more special first
NEIGHBOURS = (
    Neighbour(r"cp\.async\.bulk|cp\.reduce\.async\.bulk|tensormap|tma", "copies in bulk and by tensor maps",
              "`tcprobe path FRAGMENT --fill tma` and `tcprobe swizzle table SWIZZLE_128B`"),
    Neighbour(r"cp\.async", "copies from global into shared memory",
              "`tcprobe banks --with cp.async.16` and `tcprobe path FRAGMENT`"),
    Neighbour(r"(?:ld|st|atom|red)\.(?:shared|async)", "accesses to shared memory",
              "`tcprobe banks --with ld.shared.b64`"),
    Neighbour(r"ld\.global|ldu|ld", "loads", "`tcprobe load FRAGMENT`"),
    Neighbour(r"shfl|redux", "exchanges between lanes", "`tcprobe convert` and `tcprobe reduce`"),
    Neighbour(r"(?:wgmma|tcgen05)\.(?:fence|commit\w*|wait\w*|alloc|dealloc|relinquish\w*)|mbarrier|barrier|bar|fence"
              r"|membar|elect|griddepcontrol|setmaxnreg|vote|match|activemask", "synchronisation and resources"),
    Neighbour(r"st|atom|red|multimem|prefetch\w*|mapa|getctarank|cvta", "accesses to memory"),
    Neighbour(r"dp4a|dp2a|fma|mad|mul|add|sub|cvt|prmt|lop3|shf|sel[pt]|mov", "arithmetic on a lane's own registers"),
)  # fmt: skip


def not_covered(name: str, families: Iterable[str] = ()) -> str | None:
    """What PTX has under such a name and `families` lack, in words; None where it is not known to have it."""
    row = next((row for row in BEYOND if re.search(row.pattern, name[:MOST_NAME], re.I)), None)
    lacks = row and row.family not in set(families)
    words = row and f"{row.family} ({row.what}, from {row.target} on) is PTX's, but tcprobe does not cover it yet"
    return _neighbour(name) or (words if lacks else None)


def _neighbour(name: str) -> str | None:
    for row in NEIGHBOURS:
        match = re.match(rf"({row.pattern})(?:\.|$)", name[:MOST_NAME], re.I)
        if match:
            see = f"; see {row.see}" if row.see else ""
            return f"{match[1].lower()} ({row.what}) is PTX's, but holds no matrix{see}"
    return None
