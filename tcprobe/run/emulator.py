"""A tensor core with any layout, for tests: it does what the kernels do, on tables given to it.

It knows nothing of PTX or of real layouts. `tables[fragment id]` says which element each slot holds (None:
none; several slots may hold the same), `reads[fragment id]` the same for the slots that a multiply takes
into account, where that differs. Multiplies take zeros and ones only, which is all that probes send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa import arch
from tcprobe.isa.instruction import THREADS, Fragment, Instruction
from tcprobe.layout.table import Table
from tcprobe.probes import multiply
from tcprobe.probes.ptx import POISON, Bytes, Kernel, Launch, Load, Multiply, Store
from tcprobe.probes.slots import pack, unpack
from tcprobe.run.backend import Device

_NUMBERS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
_RAW: dict[str, Any] = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64, "s32": np.uint32}


class Emulator:
    """Runs launches on `tables`; `name` is the arch that it claims to be, its method is always "emulated"."""

    def __init__(self, tables: Mapping[str, Table], reads: Mapping[str, Table] | None = None, name: str = "sm_90"):
        self._tables = tables
        self._reads = reads or {}
        self._arch = name
        self._loaded: set[str] = set()

    def devices(self) -> list[Device]:
        """The one emulated device."""
        return [Device(0, "emulated tensor core", self._arch, "none", "none", "none", method="emulated")]

    def open(self, index: int) -> None:
        """Nothing to do."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Refuses what the arch does not have."""
        refused = {k.name: f"not on {self._arch}" for k in kernels if not k.target.on(arch.arch(self._arch))}
        self._loaded |= {k.name for k in kernels} - set(refused)
        return refused

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """What the kernels would leave in their outputs."""
        return [self._run(launch) for launch in launches]

    def _run(self, launch: Launch) -> Bytes:
        match launch.kernel.op:
            case Load(fragment, layout):
                return self._load(launch, fragment, layout)
            case Store(fragment, layout):
                return self._store(launch, fragment, layout)
            case Multiply(instruction):
                return self._multiply(launch, instruction)

    def _load(self, launch: Launch, fragment: Fragment, layout: str) -> Bytes:
        memory = unpack(launch.inputs[0], fragment.slot_bits)
        positions, used = _positions(self._tables[fragment.id], fragment, layout, launch.ldm)
        registers = np.full((len(memory), self._tables[fragment.id].slots), 1, memory.dtype)
        registers[:, used] = memory[:, positions]
        return pack(registers, fragment.slot_bits).reshape(-1)

    def _store(self, launch: Launch, fragment: Fragment, layout: str) -> Bytes:
        registers = unpack(launch.inputs[0], fragment.slot_bits)
        positions, used = _positions(self._tables[fragment.id], fragment, layout, launch.ldm)
        memory = unpack(
            np.full((len(registers), launch.output_bytes // len(registers)), POISON, np.uint8),
            fragment.slot_bits,
        ).copy()
        memory[:, positions] = registers[:, used]
        return pack(memory, fragment.slot_bits).reshape(-1)

    def _multiply(self, launch: Launch, instruction: Instruction) -> Bytes:
        a, b, c = (
            self._matrices(fragment, raw) for fragment, raw in zip(instruction.fragments, launch.inputs, strict=False)
        )
        product = np.einsum("xpmk,ypkn->yxpmn", a, b, optimize=True)
        if instruction.bit_op == "xor":  # popc(a ^ b) = a + b - 2ab
            product = a.sum(3)[None, :, :, :, None] + b.sum(2)[:, None, :, None, :] - 2 * product
        if multiply.hot_and_coded(instruction)[0].operand == "b":
            product = product.swapaxes(0, 1)
        d = product[None] + c[:, None, None]
        return self._scatter(instruction.fragments[3], d.reshape(-1, *d.shape[3:]))

    def _matrices(self, fragment: Fragment, raw: Bytes) -> NDArray[np.float32]:
        """Slots as matrices of shape (images, products, rows, cols); the last holder of an element counts."""
        ones = unpack(raw, fragment.slot_bits) == fragment.one
        table = self._reads.get(fragment.id, self._tables[fragment.id])
        index, used = _elements(table, fragment)
        matrices = np.zeros((len(raw), fragment.products * fragment.rows * fragment.cols), np.float32)
        matrices[:, index] = ones[:, used]
        return matrices.reshape(len(raw), fragment.products, fragment.rows, fragment.cols)

    def _scatter(self, fragment: Fragment, matrices: NDArray[Any]) -> Bytes:
        index, used = _elements(self._tables[fragment.id], fragment)
        slots = np.zeros((len(matrices), THREADS * fragment.elements), _NUMBERS[fragment.type])
        slots[:, used] = matrices.reshape(len(matrices), -1)[:, index]
        return pack(slots.view(_RAW[fragment.type]), fragment.slot_bits).reshape(-1)


def _elements(table: Table, fragment: Fragment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(element number, slot) of every used slot; elements are numbered (product, row, col)."""
    used = [s for s, cell in enumerate(table.cells) if cell is not None]
    cells = np.array([(*table.cells[s], 0)[:3] for s in used], np.int64)  # type: ignore[misc]
    return (cells[:, 2] * fragment.rows + cells[:, 0]) * fragment.cols + cells[:, 1], np.array(used)


def _positions(table: Table, fragment: Fragment, layout: str, ldm: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(memory position, slot) of every used slot."""
    index, used = _elements(table, fragment)
    row, col = np.divmod(index, fragment.cols)
    return (row * ldm + col if layout == "row" else col * ldm + row), used
