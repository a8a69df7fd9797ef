"""What every GEMM is asked for, and what kernels share: D (m x n) = A (m x k) B (k x n), through shared memory.

`a` and `b` say what is contiguous in memory: of A its rows (row) or its columns, of B its rows or its columns (col).

The four products that a warp makes with mma.m8n8k4 are the quadrants of one of twice the rows and columns. Product p is
the quadrant at row p / 2, column p % 2 of D, so that products 0 and 1 have the same A, 0 and 2 the same B.

>>> from tcprobe.kernel.staged import join
>>> from tcprobe.store.cell import load
>>> a = join(load("mma.m8n8k4.row.col.f32.f16.f16.f32.a", "sm_70"))
>>> (a.fragment.rows, a.fragment.cols), a.table.at(lane=25, i=2)
((16, 4), {'row': 13, 'col': 2})
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tcprobe.ask.convert.code import CASTS, OLDER, Cast
from tcprobe.code.cuda import holder, of_holder, origin, register_and_letter
from tcprobe.code.templates import fill
from tcprobe.emit.common import formulas
from tcprobe.errors import UsageError
from tcprobe.isa import arch as archs
from tcprobe.isa.arch import Arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import Cell, cell
from tcprobe.store.choose import Layers
from tcprobe.store.choose import layers as folders
from tcprobe.text import comment, quoted
from tcprobe.values import Json

PRODUCTS = 4


def shape(instruction: Instruction) -> Shape:
    """m x n x k of what a warp makes at once."""
    m, n, k = instruction.shape
    return Shape(2 * m, 2 * n, k) if instruction.products == PRODUCTS else instruction.shape


def join(cell: Cell) -> Cell:
    """The table of all quadrants of an operand; that of a single product as it is."""
    fragment, table = cell.fragment, cell.table
    if fragment.products != PRODUCTS:
        return cell
    down, across = (fragment.operand != "b"), (fragment.operand != "a")
    apart = (fragment.rows * down, fragment.cols * across)
    values = {
        name: tuple(place[n] + apart[n] * (place[2] >> 1 - n & 1) if place else None for place in table.cells)
        for n, name in enumerate(("row", "col"))
    }
    m, n, k = fragment.shape
    rows, cols = fragment.rows << down, fragment.cols << across
    whole = replace(fragment, rows=rows, cols=cols, products=1, shape=Shape(2 * m, 2 * n, k))
    return replace(cell, fragment=whole, table=slot_table(table.threads, table.elements, values))


# by type of A and B what D is stored as, what is taken unasked first
OUTS = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "tf32": ("f32",),
    "e4m3": ("f16", "bf16", "f32"),
    "e5m2": ("f16", "bf16", "f32"),
    "s8": ("s32",),
    "mxf8": ("bf16", "f16", "f32"),
    "mxf4": ("bf16", "f16", "f32"),
    "nvf4": ("bf16", "f16", "f32"),
}


class Scaled(NamedTuple):
    """A type with scales: of its elements, of a scale, and how many elements along k share one."""

    element: str
    scale: str
    block: int


SCALED = {
    "mxf8": Scaled("e4m3", "ue8m0", 32),
    "mxf4": Scaled("e2m1", "ue8m0", 32),
    "nvf4": Scaled("e2m1", "ue4m3", 16),
}


def element(kind: str) -> str:
    """The type of an element of A and B, of a kernel's type."""
    return SCALED[kind].element if kind in SCALED else kind


FIRST = 70
OTHERS = 24  # registers for addresses and the loop, as ptxas takes them
MOST_STAGES = 16


@dataclass(frozen=True)
class StagedGemm(ABC):
    """`tile` is m x n x k of a block; `target` as --arch has it; `stored` what D is stored as, None: what fits."""

    target: str
    type: str
    tile: tuple[int, int, int]
    stages: int = 3
    a: str = "row"
    b: str = "col"
    stored: str | None = None
    layers: Layers | None = None
    cluster = 1  # blocks that share tiles of B

    @cached_property
    def arch(self) -> Arch:
        """The arch, one that there is a kernel for."""
        device = archs.arch(self.target)
        if device.number < FIRST:
            raise UsageError(f"there is no kernel for {device.name}: use sm_{FIRST} or later.")
        return device

    @property
    def element(self) -> str:
        """The type of an element of A and B."""
        return element(self.type)

    @property
    def bits(self) -> int:
        """Of an element of A and B."""
        return dtype(self.element).bits

    @property
    def compiled_for(self) -> str:
        """As nvcc's -arch has it: of what only one arch has, with an a."""
        return f"{self.arch.name}a" if self.type in SCALED else self.arch.name

    @cached_property
    @abstractmethod
    def instruction(self) -> Instruction:
        """The multiply."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Of a block."""

    @property
    @abstractmethod
    def stage_bytes(self) -> int:
        """Of A and B of one step of the loop."""

    @property
    @abstractmethod
    def alignment(self) -> int:
        """Of the first byte."""

    @property
    @abstractmethod
    def registers(self) -> dict[str, int]:
        """Of a thread, by what they hold."""

    @property
    @abstractmethod
    def wavefronts(self) -> dict[str, Json]:
        """Of A and B: what loads them into registers, and its cycles of shared memory; none where nothing does."""

    @property
    def out(self) -> str:
        """The type of D in memory."""
        outs = OUTS[self.type]
        if self.stored not in (None, *outs):
            words = f"products of {self.type} are stored as {' or '.join(outs)}"
            raise UsageError(f"`out` {quoted(str(self.stored))}: {words}.")
        return self.stored or outs[0]

    @property
    def shared_bytes(self) -> int:
        """Of dynamic shared memory, with what it takes to begin where the swizzles do."""
        return self.stage_bytes * self.stages + self.alignment

    @property
    def static_bytes(self) -> int:
        """Of shared memory that the kernel declares itself."""
        return 0

    @property
    def evidence(self) -> list[str]:
        d = self.cell("d")
        return [f"{d.fragment.id} on {d.arch}: {d.evidence}"]

    def cell(self, operand: str) -> Cell:
        """The table of an operand in registers."""
        return join(cell(self.instruction.fragment(operand), self.arch.name, self.layers or folders(None, False)))


def check_memory(gemm: StagedGemm) -> None:
    """UsageError where its stages are not as many as there can be, with how many there can be."""
    most = gemm.arch.shared_kib << 10
    if not 2 <= gemm.stages <= MOST_STAGES:
        raise UsageError(f"`stages` {gemm.stages}: 2 to {MOST_STAGES}; one is filled while another is multiplied.")
    if gemm.shared_bytes + gemm.static_bytes > most:
        fit = (most - gemm.alignment - gemm.static_bytes) // gemm.stage_bytes
        near = f"`stages` {fit} fits" if fit >= 2 else "use a smaller `tile`"
        raise UsageError(
            f"{gemm.stages} stages of {gemm.stage_bytes} bytes take {gemm.shared_bytes} bytes of shared "
            f"memory; a block on {gemm.arch.name} has at most {most}: {near}."
        )


def conversion(source: str, target: str, device: Arch) -> Cast:
    """How two elements become a word."""
    pair = (source, target)
    return CASTS[pair] if device.number >= CASTS[pair].target else OLDER[pair]


def pairs(cell: Cell) -> None:
    """UsageError unless elements 2 i and 2 i + 1 of every lane are neighbours in a row."""
    cells = cell.table.cells
    for first, second in zip(cells[::2], cells[1::2], strict=True):
        if first is None or second is None or tuple(second[:2]) != (first[0], first[1] + 1):
            raise UsageError(f"{cell.fragment.id} on {cell.arch}: its elements are not pairs in a row.")


def store(cell: Cell, out: str, device: Arch) -> str:
    """`store`(d, ld, rows, cols, from): registers of one fragment of D straight to global memory, inside bounds."""
    pairs(cell)
    fragment, kind = cell.fragment, register_and_letter(cell.fragment)[0]
    bits = {"lane": (cell.table.threads - 1).bit_length(), "i": (cell.table.elements - 1).bit_length()}
    coordinates = {name: of_holder(formula.text(bits), fragment.threads) for name, formula in formulas(cell).items()}
    return fill(
        Path(__file__).with_name("store.cu"),
        origin=comment(origin(cell)),
        fragment=fragment,
        word=kind,
        who=holder(fragment.threads),
        **coordinates,
        out=out,
        device=device,
        dtype=dtype,
        conversion=conversion,
    )
