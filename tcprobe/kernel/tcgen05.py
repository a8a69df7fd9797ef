"""The kernel of sm_100 to sm_110: tensor maps, mbarriers, tcgen05.mma, D in tensor memory, and back through TMA.

A block has 128 rows; with `cluster` 2 two blocks below each other multiply as one, which shares the columns of B. Tiles
lie in shared memory as `tcprobe descriptor --tcgen05` says of them, scales as `tcprobe scales` does: tcgen05.cp takes
them into columns of tensor memory that each stage has for itself, since PTX does not list a multiply and a copy
behind it as pipelined (ISA 9.1, section 9.7.16.6.2). All of it rests on documents and on emulation.

>>> from tcprobe.kernel.tcgen05 import TensorGemm
>>> gemm = TensorGemm("sm_100", "bf16", (128, 256, 64))
>>> gemm.instruction.called, gemm.threads, gemm.columns
('tcgen05.mma.cta_group::1.kind::f16', 128, 256)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tcprobe import __version__
from tcprobe.ask import descriptor
from tcprobe.ask.descriptor import SharedTile, lay_tile
from tcprobe.ask.tcgen05_descriptor import tile as shared_tile
from tcprobe.ask.tensor_memory import MemoryOperand, OperandVariant, Placement, placement
from tcprobe.code import templates
from tcprobe.code.cuda import ACCUMULATORS
from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields
from tcprobe.isa.arch import Arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.isa.operand import FACTORS
from tcprobe.kernel import staged
from tcprobe.kernel.staged import SCALED, Scaled, StagedGemm, check_memory
from tcprobe.kernel.wgmma import box_loads, k_starts, widest_swizzle
from tcprobe.layout.descriptor import encode_tcgen05
from tcprobe.references.tensor_memory import ATOM_BYTES, BLOCKS, LINES
from tcprobe.values import Json

KINDS = {
    "f16": "f16",
    "bf16": "f16",
    "tf32": "tf32",
    "e4m3": "f8f6f4",
    "e5m2": "f8f6f4",
    "s8": "i8",
    "mxf8": "mxf8f6f4",
    "mxf4": "mxf4",
    "nvf4": "mxf4nvf4",
}
K_BYTES = 32  # of one multiply
WARP_ROWS = 32  # of tensor memory that a warp may read
PART = 32  # columns that it reads at a time
LEAST_COLUMNS, MOST_COLUMNS = 32, 512  # of an allocation
MOST_N = 256


def multiplies(kind: str, device: Arch) -> bool:
    """Whether an arch has tcgen05.mma of a type; that of s8 is not of all that have tensor memory."""
    return bool(resolve(f"tcgen05.mma.cta_group::1.kind::{KINDS[kind]}").instruction.target.on(device))


@dataclass(frozen=True)
class TensorGemm(StagedGemm):
    """`tile` is that of a block, of 128 rows; `cluster`, 1 or 2 blocks below each other, is the CTAs of a group."""

    cluster: int = 1
    threads = 128

    @property
    def compiled_for(self) -> str:
        return f"{self.arch.name}a"

    @property
    def numbering(self) -> tuple[str, str]:
        """Which warp has which rows of D, as --warps of `tcprobe where` takes it; nothing is permuted."""
        return "4x1", ""

    @cached_property
    def instruction(self) -> Instruction:
        return resolve(f"tcgen05.mma.cta_group::{self.cluster}.kind::{KINDS[self.type]}").instruction

    @cached_property
    def tiles(self) -> dict[str, SharedTile]:
        """A and B of a block in shared memory, and a warp's 32 rows of D."""
        (m, n, k), packed = self.tile, 8 // self.bits if self.bits < 8 else 1
        kind = "u8" if self.bits < 8 else self.element
        tiles = {}
        for name, lines, along_k in (("a", m, self.a == "row"), ("b", n // self.cluster, self.b == "col")):
            if packed > 1 and not along_k:
                raise UsageError(f"`{name}`: {self.type} is multiplied with k contiguous only.")
            inner = (k if along_k else lines) // packed
            width = widest_swizzle(kind, inner)
            tiles[name] = shared_tile((lines, k // packed), kind, "k" if along_k else "mn", width)
        of_d = (WARP_ROWS, K_BYTES)
        tiles["d"] = lay_tile((WARP_ROWS, n), self.out, "k", widest_swizzle(self.out, n), of_d)
        return tiles

    @property
    def boxes(self) -> dict[str, Json]:
        """The tensor maps of A, B and D: type, box, swizzle, what is contiguous."""
        return {name: {**descriptor.tma(tile), "major": tile.major} for name, tile in self.tiles.items()}

    @property
    def groups(self) -> int:
        """Of 4 blocks of k with a scale each, in a tile."""
        return self.tile[2] // (BLOCKS * SCALED[self.type].block) if self.type in SCALED else 0

    @property
    def atoms_b(self) -> int:
        """Of 128 columns of B."""
        return self.tile[1] // LINES

    @property
    def stage_bytes(self) -> int:
        """Of A, B and their scales of one step of the loop."""
        matrices = self.tiles["a"].bytes + self.tiles["b"].bytes
        scales = self.groups * (1 + self.atoms_b) * ATOM_BYTES
        return matrices + -(-scales // self.alignment) * self.alignment

    @property
    def alignment(self) -> int:
        """Of the first byte."""
        return max(tile.alignment for tile in self.tiles.values())

    @property
    def shared_bytes(self) -> int:
        """Of dynamic shared memory, with what it takes to begin where the swizzles do; D lies where stages were."""
        return max(super().shared_bytes, self.tile[0] // WARP_ROWS * self.tiles["d"].bytes + self.alignment)

    @property
    def barriers(self) -> int:
        """Of a stage: full and empty; of a pair whether the second block's is full."""
        return 1 + self.cluster

    @property
    def static_bytes(self) -> int:
        """Of mbarriers, and the address of what is allocated."""
        return 8 * (self.barriers * self.stages + 1) + 8

    @property
    def used_columns(self) -> int:
        """Of tensor memory: D, and the scales of every stage."""
        return self.tile[1] + 4 * self.groups * (1 + self.atoms_b) * self.stages

    @property
    def columns(self) -> int:
        """That are allocated: a power of two."""
        return max(LEAST_COLUMNS, 1 << (self.used_columns - 1).bit_length())

    @property
    def wavefronts(self) -> dict[str, Json]:
        """None: tcgen05.mma reads shared memory itself."""
        return {}

    @property
    def registers(self) -> dict[str, int]:
        """Of a thread, for what of D it stores at a time; D itself is in tensor memory."""
        return {"D on its way": PART + PART * dtype(self.out).bits // 32}

    @property
    def evidence(self) -> list[str]:
        d = self.placement_of_d
        return [f"{d.operand.id} on {self.arch.name}: {d.evidence}", "no GPU yet: documents and emulation"]

    @property
    def placement_of_d(self) -> Placement:
        """Where D is in tensor memory."""
        variant = OperandVariant(self.tile[0] * self.cluster, self.tile[1])
        return placement(MemoryOperand(self.instruction, "d"), variant)


def check(gemm: TensorGemm) -> TensorGemm:
    """The GEMM itself; UsageError with the nearest possible one where there can be no such kernel."""
    m, n, k = gemm.tile
    if m != LINES:
        raise UsageError(f"`tile`: m {m}: a block of {gemm.instruction.called} has {LINES} rows; nearest: m {LINES}.")
    step = LINES if gemm.type in SCALED else PART
    if n % step or not 0 < n <= MOST_N:
        near = min(max(step, round(n / step) * step), MOST_N)
        raise UsageError(f"`tile`: n {n} is not a multiple of {step} up to {MOST_N}; nearest: n {near}.")
    if gemm.type in SCALED and k % (BLOCKS * SCALED[gemm.type].block):
        each = BLOCKS * SCALED[gemm.type].block
        raise UsageError(
            f"`tile`: k {k} is not a multiple of {each}, {BLOCKS} scales; nearest: k {max(1, round(k / each)) * each}."
        )
    check_memory(gemm)
    if gemm.used_columns > MOST_COLUMNS:
        each = (gemm.used_columns - n) // gemm.stages
        raise UsageError(
            f"`stages` {gemm.stages}: {n} columns of D and {each} of scales a stage are {gemm.used_columns} columns of "
            f"tensor memory, of {MOST_COLUMNS}: `stages` {(MOST_COLUMNS - n) // each} fits."
        )
    _check_rows(gemm)
    return gemm


def _check_rows(gemm: TensorGemm) -> None:
    """That a lane is a row of D, and a column a column: UsageError for a table that says otherwise."""
    m, n, _ = gemm.tile
    placed = gemm.placement_of_d.formulas
    row, col = placed["row"], placed["col"]
    cells = [(cta, lane, 0) for cta in range(gemm.cluster) for lane in range(m)]
    cells += [(0, 0, column) for column in range(n)]
    for cta, lane, column in cells:
        at = {"cta": cta, "lane": lane, "column": column} if gemm.cluster > 1 else {"lane": lane, "column": column}
        if row is None or col is None or (row(**at), col(**at)) != (cta * m + lane, column):
            raise UsageError(f"{gemm.instruction.called}.d: a lane of it is no row.")


def source(gemm: TensorGemm, called: str) -> str:
    """The whole file."""
    word, letter = ACCUMULATORS["s32" if gemm.type == "s8" else "f32"]
    steps = gemm.tile[2] // gemm.instruction.shape.k
    return templates.fill(
        Path(__file__).with_suffix(".cu"),
        version=__version__,
        dtype=dtype,
        gemm=gemm,
        scaled=SCALED.get(gemm.type),
        called=called,
        barriers=gemm.barriers,
        part=PART,
        word=word,
        letter=letter,
        bits={name: f"{encode_tcgen05(gemm.tiles[name].descriptor):#018x}" for name in FACTORS},
        instructions=_instruction_descriptors(gemm),
        tma=descriptor.tma,
        conversion=staged.conversion,
        loads=box_loads(gemm.boxes, {"a": "m0", "b": "n0 + rank * (TILE_N / 2)" if gemm.cluster > 1 else "n0"}),
        starts={name: k_starts(gemm.tiles[name], steps) for name in FACTORS},
    )


def _instruction_descriptors(gemm: TensorGemm) -> list[str]:
    """As C text, by the ID of the scales; the first alone without scales."""
    majors = {f"{name}_major": gemm.tiles[name].major for name in FACTORS}
    said: Json = {"m": gemm.tile[0] * gemm.cluster, "n": gemm.tile[1], **majors}
    said |= {f"{name}_type": gemm.element for name in FACTORS}
    scaled: Scaled | None = SCALED.get(gemm.type)
    if scaled is None:
        said["d_type"] = "s32" if gemm.type == "s8" else "f32"
        return [f"{bit_fields.encode_instruction(KINDS[gemm.type], said):#010x}u"]
    ids = {first * gemm.instruction.shape.k // scaled.block % BLOCKS for first in range(BLOCKS)}
    words = {
        id_: bit_fields.encode_instruction(
            KINDS[gemm.type], {**said, "scale_type": scaled.scale, "a_scale_id": id_, "b_scale_id": id_}
        )
        for id_ in ids
    }
    return [f"{words[id_]:#010x}u" if id_ in words else "" for id_ in range(BLOCKS)]
