"""The instructions by which a warp reaches shared memory: what one address names, and which lanes' addresses count.

>>> from tcprobe.isa.shared_memory import access
>>> access("ldmatrix.x2").lanes, access("ldmatrix.x2").bytes, access("st.shared.v4.b32").name
(16, 16, 'st.shared.b128')

Source: PTX ISA 9.1, `ld`, `st`, `ldmatrix`, `stmatrix`, `atom`, `red` and `cp.async`. ldmatrix and stmatrix take the
address of row r of matrix m, 16 bytes of it, from lane 8m + r; further lanes' addresses do not count. Of .s8.s4 (PTX
ISA 9.4) it is 8 bytes, 16 elements, each of which becomes a byte of a register.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tcprobe.errors import UsageError
from tcprobe.isa.arch import ARCHS, WARP, Arch, Target
from tcprobe.isa.rows import moves
from tcprobe.text import any_of

MATRIX_ROW = 16  # bytes of a row of an 8 x 8 matrix of b16
MATRIX_ROWS = 8
MOST_SHARED = 228 << 10  # bytes of the largest shared memory of an SM (compute capability 9.0, CUDA programming guide)
PLAIN_TARGETS = tuple(row.name for row in ARCHS)
_ENGINE = re.compile(r"wgmma|tcgen05|tma\b|cp\.async\.bulk", re.IGNORECASE)  # without an address of a lane
_COPY = re.compile(r"cp\.async\.(4|8|16)")
_VECTOR = re.compile(r"(ld|st)\.shared\.v([24])(?:\.[bsuf](8|16|32|64))?")
_TYPED = re.compile(r"((?:ld|st)\.shared\.)[suf](8|16|32|64)")


@dataclass(frozen=True)
class SharedAccess:
    """`bytes` lie at each address; the addresses of the first `lanes` lanes count.

    An element has `wider` times as many bits in a register as in memory.
    """

    name: str
    bytes: int
    target: Target
    lanes: int = WARP
    wider: int = 1

    @property
    def is_matrix(self) -> bool:
        """Whether it moves 8 x 8 matrices, so that every lane that counts must give an address."""
        return "matrix" in self.name

    @property
    def has_source(self) -> bool:
        """Whether it also reads global memory."""
        return self.name.startswith("cp.async")

    def check_on(self, device: Arch) -> None:
        """UsageError where `device` does not have it."""
        if not self.target.on(device):
            raise UsageError(f"{self.name} needs {self.needed}; {device} does not have it.")

    @property
    def needed(self) -> str:
        """The least arch that has it, or its targets, in words."""
        if self.target.name in PLAIN_TARGETS:
            return f"{self.target.name} or later"
        return " or ".join([", ".join(name for name, _ in self.target.options[:-1]), self.target.options[-1][0]])


@cache
def accesses() -> MappingProxyType[str, SharedAccess]:
    """All of them by name."""
    first, turing, ampere, hopper = (
        Target(*t) for t in (("sm_70", "6.0"), ("sm_75", "6.5"), ("sm_80", "7.0"), ("sm_90", "7.8"))
    )
    moves = (("ldmatrix", turing), ("stmatrix", hopper))
    matrices = [(move, target, n, end) for move, target in moves for n in (1, 2, 4) for end in ("", ".trans")]
    rows = [
        *(SharedAccess(f"{move}.shared.b{8 * n}", n, first) for move in ("ld", "st") for n in (1, 2, 4, 8, 16)),
        *(SharedAccess(f"{move}.x{n}{end}", MATRIX_ROW, target, MATRIX_ROWS * n) for move, target, n, end in matrices),
        *(SharedAccess(n, 4, first) for n in ("atom.shared.add.u32", "atom.shared.exch.b32", "red.shared.add.u32")),
        *(SharedAccess(f"cp.async.ca.{n}", n, ampere) for n in (4, 8, 16)),
    ]
    return MappingProxyType({row.name: row for row in rows})


@cache
def exchanges_and_copies() -> MappingProxyType[str, Target]:
    """Moves between lanes and asynchronous copies that hold no matrix, with their targets."""
    shuffles = {f"shfl.sync.{mode}.b32": Target("sm_70", "6.0") for mode in ("idx", "up", "down", "bfly")}
    bulk = [f"cp.async.bulk.{rank}{way}" for rank in ("", "tensor.2d.") for way in ("shared.global", "global.shared")]
    copies = {"cp.async.cg.16": Target("sm_80", "7.0"), **dict.fromkeys(bulk, Target("sm_90", "8.3"))}
    return MappingProxyType({**shuffles, **copies})


@cache
def widening() -> MappingProxyType[str, SharedAccess]:
    """Loads of matrices of s4 into registers of s8, by name, the largest first; no rule of banks is known of them."""
    signed = next(row for row in moves.rows() if row.types == "s8.s4")
    rows = (
        SharedAccess(f"ldmatrix.m8n16.x{n}.s8.s4", 8, signed.target, MATRIX_ROWS * n, wider=2)
        for n in reversed(signed.numbers)
    )
    return MappingProxyType({row.name: row for row in rows})


def access(name: str) -> SharedAccess:
    """The one that `name` means: a name of `accesses`, ld and st also with .v2 or .v4 and with a type (f32 as b32),
    cp.async.N for cp.async.ca.N; a name of `widening`, also as PTX has it.

    UsageError with the nearest names if there is none, or that nobody measured what no lane's address is read by.
    """
    if (wide := widening().get(name.replace(".shared.s8.s4", ".s8.s4"))) is not None:
        return wide
    if copy := _COPY.fullmatch(name):
        return accesses()[f"cp.async.ca.{copy[1]}"]
    vector = _VECTOR.fullmatch(name)
    full = f"{vector[1]}.shared.b{int(vector[2]) * int(vector[3] or 32)}" if vector else _TYPED.sub(r"\1b\2", name)
    if full not in accesses():
        import difflib

        if _ENGINE.match(name):
            raise UsageError(f"how {name[:40]!r} meets in banks is not measured, so there is no rule of it.", "engines")
        near = difflib.get_close_matches(full, (*accesses(), *widening()), n=3, cutoff=0.6)
        hint = f"; did you mean {any_of(near, 'or')}?" if near else "."
        raise UsageError(f"unknown access {name[:40]!r}{hint} Known: {', '.join((*accesses(), *widening()))}.")
    return accesses()[full]
