"""Where a machine instruction comes from: the PTX forms that become it on an arch, and the layouts of their operands.

What forms become is saved for every arch (`tcprobe lower`). Forms that a warpgroup executes are many;
of these the few of an opcode's own shape are assembled when one is met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, Arch
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.sass.lowering import Lowering, lower
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.cell import find
from tcprobe.store.choose import Layers
from tcprobe.values import Json

_SHAPE = re.compile(r"[A-Z]GMMA\.(?:SP\.)?([0-9]{1,3})x([0-9]{1,3})x([0-9]{1,3})\b")


@dataclass(frozen=True)
class OperandLayout:
    """The layout of a form's operand on the arch, and how it is known."""

    operand: str
    layout_id: str
    known: str
    evidence: str


@dataclass(frozen=True)
class Origin:
    """A PTX form that becomes an opcode, `each` times; `native` where the tensor cores do it in its own type."""

    instruction: str
    native: bool
    each: int
    layouts: tuple[OperandLayout, ...]

    def to_json(self) -> Json:
        """Plain data."""
        layouts = {
            layout.operand: {"layout_id": layout.layout_id, "known": layout.known, "evidence": layout.evidence}
            for layout in self.layouts
        }
        return {"instruction": self.instruction, "native": self.native, "each": self.each, "layouts": layouts}


class Origins:
    """The forms behind opcodes, looked up once for each arch and opcode."""

    def __init__(self, tools: Toolchain, layers: Layers) -> None:
        self._tools, self._layers = tools, layers
        self._saved: dict[str, dict[str, dict[str, Lowering]]] = {}
        self._origins: dict[tuple[str, str], tuple[Origin, ...]] = {}

    def find(self, arch: str, opcode: str, ptx: Mapping[str, int] | None = None) -> tuple[Origin, ...]:
        """The forms that become an opcode, native ones first; with `ptx` only those that stand there by name."""
        key = (arch, opcode)
        if key not in self._origins:
            forms = self._forms(arch, opcode)
            origins = [self._origin(arch, id_, lowering, opcode) for id_, lowering in forms.items()]
            self._origins[key] = tuple(sorted(origins, key=lambda o: (not o.native, o.each, o.instruction)))
        if ptx is None:
            return self._origins[key]
        ids = {self._ids[name] for name in ptx if name in self._ids}
        return tuple(origin for origin in self._origins[key] if origin.instruction in ids)

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {row.name: row.id for row in inventory.instructions().values()}

    def _forms(self, arch: str, opcode: str) -> dict[str, Lowering]:
        """The lowering of each form that becomes an opcode on an arch."""
        if arch not in self._saved:
            self._saved[arch] = self._by_opcode(arch)
        row = next((row for row in ARCHS if row.name == arch), None)
        shape = _SHAPE.match(opcode)
        if row and shape:
            return self._assemble(row, opcode, Shape(*map(int, shape.groups())))
        return self._saved[arch].get(opcode, {})

    def _by_opcode(self, arch: str) -> dict[str, dict[str, Lowering]]:
        forms: dict[str, Lowering] = {}
        for body, _ in self._layers.lowerings(arch):
            for id_, saved in body["instructions"].items():
                forms.setdefault(id_, Lowering(**saved))
        by_opcode: dict[str, dict[str, Lowering]] = {}
        for id_, lowering in forms.items():
            for opcode in lowering.opcodes if id_ in inventory.instructions() else ():
                by_opcode.setdefault(opcode, {})[id_] = lowering
        return by_opcode

    def _assemble(self, arch: Arch, opcode: str, shape: Shape) -> dict[str, Lowering]:
        forms = [i for i in inventory.instructions().values() if i.described and i.shape == shape and i.target.on(arch)]
        try:
            lowerings = lower(self._tools, arch, forms)
        except EnvironmentUnfitError:  # a ptxas that does not know the arch
            return {}
        return {id_: lowering for id_, lowering in lowerings.items() if opcode in lowering.opcodes}

    def _origin(self, arch: str, id_: str, lowering: Lowering, opcode: str) -> Origin:
        form = inventory.instructions()[id_]
        native = lowering.native(form)
        return Origin(id_, native, lowering.opcodes[opcode], self._layouts(arch, form) if native else ())

    def _layouts(self, arch: str, instruction: Instruction) -> tuple[OperandLayout, ...]:
        cells = [(fragment, find(fragment, arch, self._layers)) for fragment in instruction.fragments]
        return tuple(OperandLayout(f.operand, cell.table.id, cell.known, cell.evidence) for f, cell in cells if cell)
