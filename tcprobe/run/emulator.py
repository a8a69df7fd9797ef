"""A tensor core with any layout, for tests: it does what the kernels do, with the tables that it is given.

It knows nothing of PTX or of real layouts. `tables[fragment id]` says which element each slot holds (None:
none; several slots may hold the same), `reads[fragment id]` the same for the slots that a multiply takes
into account, where that differs. Multiplies take zeros and ones only, which is all that probes send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tcprobe.isa import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.layout.descriptor import Descriptor, offsets
from tcprobe.layout.table import Table, Tables
from tcprobe.probes.experiment import TimedCode
from tcprobe.probes.ptx import Kernel, Launch
from tcprobe.references import tensor_memory
from tcprobe.references.shared_memory.tensor_map import TensorMap, refusing_rules
from tcprobe.references.tensor_memory import CELL, Extent
from tcprobe.run.backend import Device

SHARED_BYTES = 228 << 10  # of an SM


class Emulator:
    """Runs launches on `tables`; `name` is the arch that it claims to be, its method is always "emulated"."""

    def __init__(self, tables: Tables, reads: Tables | None = None, name: str = "sm_90"):
        self._tables = tables
        self._reads = reads or {}
        self._arch = name
        self._loaded: set[str] = set()

    def devices(self) -> list[Device]:
        return [Device(0, "emulated tensor core", self._arch, "none", "none", "none", method="emulated")]

    def open(self, index: int) -> None:
        """Nothing to do."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Refuses what the arch does not have."""
        refused = {k.name: f"not on {self._arch}" for k in kernels if not k.target.on(arch.arch(self._arch))}
        self._loaded |= {k.name for k in kernels} - set(refused)
        return refused

    def unload(self, names: Iterable[str]) -> None:
        """Nothing to do."""
        self._loaded -= set(names)

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """Nothing: it has no machine code."""
        return TimedCode((), ())

    def shared_bytes(self) -> int:
        """As many as on sm_90."""
        return SHARED_BYTES

    def map_result(self, tensor_map: TensorMap) -> str:
        """The answer of a driver that refuses exactly the maps that break a rule."""
        return "CUDA_ERROR_INVALID_VALUE" if refusing_rules(tensor_map) else "CUDA_SUCCESS"

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        return [launch.kernel.op.emulate(launch, self) for launch in launches]

    def table(self, fragment: Fragment) -> Table:
        return self._tables[fragment.id]

    def read(self, fragment: Fragment) -> Table:
        """The layout of a fragment, restricted to the slots that a multiply reads."""
        return self._reads.get(fragment.id, self._tables[fragment.id])

    def behind(self, operand: SharedOperand, descriptor: Descriptor, major: str) -> Ints:
        """As descriptors are documented; tests override it."""
        fragment = operand.held
        row, col = np.indices((fragment.rows, fragment.cols))
        line, k = (row, col) if fragment.name == "a_smem" else (col, row)
        byte = offsets(descriptor, major, line, k, fragment.slot_bits) + descriptor.start
        bit: Ints = byte * 8 + k * fragment.slot_bits % 8
        return bit

    def in_tensor_memory(self, instruction: Instruction, operand: str, described: Any) -> Ints:
        """As PTX documents it; tests override it."""
        if operand == "memory":
            lanes_of_rows = tensor_memory.copy_lanes(instruction.id.rpartition(".")[2], described)
            cells = [
                [[(0, lane, CELL * col) for lane in lanes] for col in range(instruction.shape.n)]
                for lanes in lanes_of_rows
            ]
            return np.array(cells)
        return _documented_places(
            instruction, operand, Extent(described.m, described.n, described.selector, described.vector)
        )


@lru_cache(32)
def _documented_places(instruction: Instruction, operand: str, extent: Extent) -> Ints:
    """(CTA, lane, bit) of each copy of each element of an operand in tensor memory."""
    statements = tensor_memory.statements(instruction, operand, extent)
    assert not isinstance(statements, str), statements
    places = statements[0].holding
    cells = np.array(
        [
            [
                [(cell.cta, cell.lane, CELL * cell.column + cell.bit) for cell in places(row, col)]
                for col in range(statements[0].cols)
            ]
            for row in range(statements[0].rows)
        ]
    )
    cells.flags.writeable = False
    return cells
