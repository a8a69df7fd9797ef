"""CuTe (CUTLASS): the (thread, value) layouts of its MMA atoms, as shape:stride.

Copy atoms are in `cute_copy`, warpgroup atoms in `cute_gmma`. A layout maps (thread, value), in colexicographic order,
to sum(coordinate * stride). For A that number is m + M * k, for B n + N * k, for C m + M * n. Atoms have the source's
names, which contain the shape, the types (D, A, B, C) and the order of A and B (T: k is contiguous; N: m or n is; TN is
PTX's row.col).
"""

from functools import cache
from itertools import product
from typing import NamedTuple

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import WRITTEN, Role
from tcprobe.layout.table import Table, selected, slot_table
from tcprobe.references.claim import Claim, Erratum
from tcprobe.references.shape_stride import L, apply, flat, modes, size

NAME = "CuTe"
PER_ARCH = False
SOURCE = "github.com/NVIDIA/cutlass, include/cute/atom/mma_traits_sm*.hpp and copy_traits_sm*.hpp, commit 7107b05535f8"
ERRATA: tuple[Erratum, ...] = ()

ORDERS = {"row": "T", "col": "N", None: ""}
WHOLE_WARP = L(32, 1)


class Atom(NamedTuple):
    """Atoms that share their traits: `header`, names separated by blanks, thread layout and operand layouts."""

    header: str
    names: str
    a: L
    b: L
    c: L
    threads: L = WHOLE_WARP
    e: L | None = None
    scales: tuple[L, L] | None = None

    def layout(self, operand: str) -> L | None:
        """The layout of an operand; None if the traits have none."""
        scale_a, scale_b = self.scales or (None, None)
        return {
            "a": self.a,
            "b": self.b,
            "c": self.c,
            "d": self.c,
            "e": self.e,
            "scale_a": scale_a,
            "scale_b": scale_b,
        }[operand]


def claim(fragment: Fragment, device: Arch) -> Claim | str:
    """What the traits state of `fragment` (the same for every arch that has the atom), or why nothing."""
    if fragment.family == "wmma":
        return "CuTe has no wmma atoms"
    if not fragment.family.startswith("mma"):
        return _apart(fragment)
    instruction = inventory.instructions()[fragment.experiment]
    atom = _atom(_name(instruction))
    if atom is None:
        return f"CuTe has no atom for {instruction.name}"
    layout = atom.layout(fragment.operand)
    if layout is None:
        return f"the atom for {instruction.name} says nothing of {fragment.operand.upper()}"
    if fragment.role is Role.SCALE:
        from tcprobe.references import cute_scale

        return cute_scale.claim(fragment, layout, atom.header)
    lines = fragment.shape.n if fragment.operand == "b" else fragment.shape.m
    table = _table(layout, atom.threads, lines, fragment.operand == "b", fragment.elements)
    table = selected([table]) if fragment.selectors else table
    return Claim(table, atom.header, None, table)


def _apart(fragment: Fragment) -> Claim | str:
    """What the traits say of a fragment of no multiply of a warp."""
    from tcprobe.references import cute_copy, cute_gmma, cute_tensor_memory

    if fragment.family in cute_copy.FAMILIES:
        return cute_copy.claim(fragment)
    if fragment.family in cute_gmma.FAMILIES:
        return cute_gmma.claim(fragment)
    return cute_tensor_memory.claim(fragment)


@cache
def _atom(name: str) -> Atom | None:
    """The atom of a name, whichever arch its own name begins with."""
    named = (atom for atom in ATOMS for of_arch in atom.names.split() if of_arch.partition("_")[2] == name)
    return next(named, None)


def _name(instruction: Instruction) -> str:
    """As atoms are called, without the arch: 16x8x256_S32U1U1S32_TN_XORPOPC.

    There are no types in it if one atom stands for all types of a kind.
    """
    types = "" if instruction.kind else "".join(instruction.type(operand) for operand in WRITTEN).replace("b1", "u1")
    parts = [
        *(["SPARSE"] if instruction.metadata else []),
        "{}x{}x{}".format(*instruction.shape),
        *([types.upper()] if types else []),
        "".join(ORDERS[factor.layout] for factor in instruction.factors),
        *([f"{instruction.bit_op.upper()}POPC"] if instruction.bit_op else []),
        *(["VS"] if instruction.scales else []),
    ]
    return "_".join(parts)


@cache
def _table(layout: L, threads: L, line_count: int, transposed: bool, elements: int) -> Table:
    """The layout as a table; its numbers count `line_count` rows (columns if `transposed`) fastest.

    An atom of fewer than 32 threads is one of several products of the warp.
    """
    places = {lane: (thread, product) for thread, lane, product in _lanes(threads)}
    of_thread, of_value = modes(layout)
    starts = [apply(of_thread, thread) for thread in range(size(threads.shape))]
    steps = [apply(of_value, i) for i in range(elements)]
    values: dict[str, list[int]] = {"row": [], "col": [], "product": []}
    for lane, i in product(range(WARP), range(elements)):
        thread, part = places[lane]
        k, line = divmod(starts[thread] + steps[i], line_count)
        row, col = (k, line) if transposed else (line, k)
        for column, value in zip(values.values(), (row, col, part), strict=True):
            column.append(value)
    if size(threads.shape) == WARP:
        del values["product"]
    return slot_table(WARP, elements, {name: tuple(column) for name, column in values.items()})


def _lanes(threads: L) -> list[tuple[int, int, int]]:
    """(thread of the atom, lane, product). Quad pair q of m8n8k4 has lanes 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3."""
    of_atom = size(threads.shape)
    parts = WARP // of_atom
    step = flat(threads.shape)[0]  # the next product takes the next run of lanes
    return [(t, apply(threads, t) + q * step, q) for q in range(parts) for t in range(of_atom)]


_C_16x8 = L(((4, 8), (2, 2)), ((32, 1), (16, 8)))
_C_8x8 = L(((4, 8), 2), ((16, 1), 8))
_C_F16 = L((8, 8), (1, 8))
_C_F32 = L(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32)))
_ROW_8x4 = L((8, 4), (1, 8))
_COL_8x4 = L(((4, 2), 4), ((8, 4), 1))
_QUADPAIR = L((4, 2), (1, 16))
_AB_8x16 = L(((4, 8), 4), ((32, 1), 8))
_AB_8x32 = L(((4, 8), 8), ((64, 1), 8))
_AB_8x128 = L(((4, 8), 32), ((256, 1), 8))
_A_16x4 = L(((4, 8), 2), ((16, 1), 8))
_A_16x8 = L(((4, 8), (2, 2)), ((16, 1), (8, 64)))
_A_16x32 = L(((4, 8), (4, 2, 2)), ((64, 1), (16, 8, 256)))
_B_8x4 = L(((4, 8), 1), ((8, 1), 0))
_B_8x8 = L(((4, 8), 2), ((8, 1), 32))
_B_8x32 = L(((4, 8), (4, 2)), ((32, 1), (8, 128)))
_A_16x64 = L(((4, 8), (8, 2, 2)), ((128, 1), (16, 8, 512)))
_SF = (L(((2, 2, 8), 64), ((8, 0, 1), 16)), L(((4, 8), 64), ((0, 1), 8)))

ATOMS = (
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F16F16F16F16_TN", _ROW_8x4, _ROW_8x4, _C_F16, _QUADPAIR),
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F16F16F16F16_NT", _COL_8x4, _COL_8x4, _C_F16, _QUADPAIR),
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F16F16F16F16_NN", _COL_8x4, _ROW_8x4, _C_F16, _QUADPAIR),
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F16F16F16F16_TT", _ROW_8x4, _COL_8x4, _C_F16, _QUADPAIR),
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F32F16F16F32_TN", _ROW_8x4, _ROW_8x4, _C_F32, _QUADPAIR),
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F32F16F16F32_NT", _COL_8x4, _COL_8x4, _C_F32, _QUADPAIR),
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F32F16F16F32_NN", _COL_8x4, _ROW_8x4, _C_F32, _QUADPAIR),
    Atom("mma_traits_sm70.hpp", "SM70_8x8x4_F32F16F16F32_TT", _ROW_8x4, _COL_8x4, _C_F32, _QUADPAIR),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x8_F16F16F16F16_TN SM80_16x8x8_F32F16F16F32_TN SM80_16x8x8_F32BF16BF16F32_TN",
        L(((4, 8), (2, 2)), ((32, 1), (16, 8))),
        L(((4, 8), 2), ((16, 1), 8)),
        _C_16x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x16_F16F16F16F16_TN SM80_16x8x16_F32F16F16F32_TN SM80_16x8x16_F32BF16BF16F32_TN",
        L(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128))),
        L(((4, 8), (2, 2)), ((16, 1), (8, 64))),
        _C_16x8,
    ),
    Atom("mma_traits_sm80.hpp", "SM80_16x8x4_F32TF32TF32F32_TN", _A_16x4, _B_8x4, _C_16x8),
    Atom("mma_traits_sm80.hpp", "SM80_16x8x8_F32TF32TF32F32_TN", _A_16x8, _B_8x8, _C_16x8),
    Atom("mma_traits_sm80.hpp", "SM80_8x8x4_F64F64F64F64_TN", _B_8x4, _B_8x4, _C_8x8),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_8x8x16_S32S8S8S32_TN SM80_8x8x16_S32S8U8S32_TN SM80_8x8x16_S32U8S8S32_TN SM80_8x8x16_S32U8U8S32_TN",
        _AB_8x16,
        _AB_8x16,
        _C_8x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x16_S32S8S8S32_TN SM80_16x8x16_S32S8U8S32_TN SM80_16x8x16_S32U8S8S32_TN SM80_16x8x16_S32U8U8S32_TN",
        L(((4, 8), (4, 2)), ((64, 1), (16, 8))),
        _AB_8x16,
        _C_16x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x32_S32S8S8S32_TN SM80_16x8x32_S32S8U8S32_TN SM80_16x8x32_S32U8S8S32_TN SM80_16x8x32_S32U8U8S32_TN",
        _A_16x32,
        _B_8x32,
        _C_16x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_8x8x32_S32S4S4S32_TN SM80_8x8x32_S32S4U4S32_TN SM80_8x8x32_S32U4S4S32_TN SM80_8x8x32_S32U4U4S32_TN",
        _AB_8x32,
        _AB_8x32,
        _C_8x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x32_S32S4S4S32_TN SM80_16x8x32_S32S4U4S32_TN SM80_16x8x32_S32U4S4S32_TN SM80_16x8x32_S32U4U4S32_TN",
        L(((4, 8), (8, 2)), ((128, 1), (16, 8))),
        _AB_8x32,
        _C_16x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x64_S32S4S4S32_TN SM80_16x8x64_S32S4U4S32_TN SM80_16x8x64_S32U4S4S32_TN SM80_16x8x64_S32U4U4S32_TN",
        L(((4, 8), (8, 2, 2)), ((128, 1), (16, 8, 512))),
        L(((4, 8), (8, 2)), ((64, 1), (8, 256))),
        _C_16x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x256_S32U1U1S32_TN_XORPOPC SM80_16x8x256_S32U1U1S32_TN_ANDPOPC",
        L(((4, 8), (32, 2, 2)), ((512, 1), (16, 8, 2048))),
        L(((4, 8), (32, 2)), ((256, 1), (8, 1024))),
        _C_16x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_8x8x128_S32U1U1S32_TN_XORPOPC SM80_8x8x128_S32U1U1S32_TN_ANDPOPC",
        _AB_8x128,
        _AB_8x128,
        _C_8x8,
    ),
    Atom(
        "mma_traits_sm80.hpp",
        "SM80_16x8x128_S32U1U1S32_TN_XORPOPC SM80_16x8x128_S32U1U1S32_TN_ANDPOPC",
        L(((4, 8), (32, 2)), ((512, 1), (16, 8))),
        _AB_8x128,
        _C_16x8,
    ),
    Atom(
        "mma_traits_sm89.hpp",
        "SM89_16x8x32_F32E4M3E4M3F32_TN SM89_16x8x32_F32E4M3E5M2F32_TN SM89_16x8x32_F32E5M2E4M3F32_TN "
        "SM89_16x8x32_F32E5M2E5M2F32_TN SM89_16x8x32_F16E4M3E4M3F16_TN SM89_16x8x32_F16E4M3E5M2F16_TN "
        "SM89_16x8x32_F16E5M2E4M3F16_TN SM89_16x8x32_F16E5M2E5M2F16_TN",
        _A_16x32,
        _B_8x32,
        _C_16x8,
    ),
    Atom("mma_traits_sm90.hpp", "SM90_16x8x4_F64F64F64F64_TN", _A_16x4, _B_8x4, _C_16x8),
    Atom("mma_traits_sm90.hpp", "SM90_16x8x8_F64F64F64F64_TN", _A_16x8, _B_8x8, _C_16x8),
    Atom(
        "mma_traits_sm90.hpp",
        "SM90_16x8x16_F64F64F64F64_TN",
        L(((4, 8), (2, 4)), ((16, 1), (8, 64))),
        L(((4, 8), 4), ((8, 1), 32)),
        _C_16x8,
    ),
    # one atom for all pairs of kind::f8f6f4's types, which are template parameters
    Atom("mma_traits_sm120.hpp", "SM120_16x8x32_TN", _A_16x32, _B_8x32, _C_16x8),
    # the same, sparse. The traits count all columns of A, half of which are stored:
    # A ((4,8),(8,2,2)):((128,1),(16,8,512)) and E ((2,2,8),32):((8,512,1),16), here by stored column
    Atom(
        "mma_traits_sm120_sparse.hpp",
        "SM120_SPARSE_16x8x64_TN",
        _A_16x32,
        L(((4, 8), (4, 4)), ((32, 1), (8, 128))),
        _C_16x8,
        e=L(((2, 2, 8), 16), ((8, 256, 1), 16)),
    ),
    # block-scaled: the scales' layouts count elements along k; a block of these shares one scale
    Atom("mma_traits_sm120.hpp", "SM120_16x8x32_TN_VS", _A_16x32, _B_8x32, _C_16x8, scales=_SF),
    Atom(
        "mma_traits_sm120.hpp",
        "SM120_16x8x64_TN_VS",
        _A_16x64,
        L(((4, 8), (8, 2)), ((64, 1), (8, 256))),
        _C_16x8,
        scales=_SF,
    ),
    Atom(
        "mma_traits_sm120_sparse.hpp",
        "SM120_SPARSE_16x8x64_TN_VS",
        _A_16x32,
        L(((4, 8), (4, 4)), ((32, 1), (8, 128))),
        _C_16x8,
        e=L(((2, 2, 8), 16), ((8, 256, 1), 16)),
        scales=_SF,
    ),
    # A ((4,8),(16,2,2)):((256,1),(16,8,1024)) and E ((2,2,8),64):((8,1024,1),16), by stored column; a field governs two
    Atom(
        "mma_traits_sm120_sparse.hpp",
        "SM120_SPARSE_16x8x128_TN_VS",
        _A_16x64,
        L(((4, 8), (8, 4)), ((64, 1), (8, 256))),
        _C_16x8,
        e=L(((2, 2, 8), 16), ((8, 512, 1), 32)),
        scales=_SF,
    ),
)
