"""What every GEMM is asked for: D (m x n) = A (m x k) B (k x n), through stages of shared memory.

`a` and `b` say what is contiguous in memory: of A its rows (row) or its columns, of B its rows or its columns (col).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from tcprobe.errors import UsageError
from tcprobe.isa import arch as archs
from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.kernel.quadrants import join
from tcprobe.store.cell import Cell, cell
from tcprobe.store.choose import Layers
from tcprobe.store.choose import layers as folders
from tcprobe.text import quoted
from tcprobe.values import Json

# by type of A and B what D is stored as, what is taken unasked first
OUTS = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "tf32": ("f32",),
    "e4m3": ("f16", "bf16", "f32"),
    "e5m2": ("f16", "bf16", "f32"),
    "s8": ("s32",),
}
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

    @cached_property
    def arch(self) -> Arch:
        """The arch, one that there is a kernel for."""
        device = archs.arch(self.target)
        if device.number < FIRST:
            raise UsageError(f"there is no kernel for {device.name}: use sm_{FIRST} or later.")
        return device

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
        """What the tables rest on."""
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
