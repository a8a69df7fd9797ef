"""What a descriptor leads to, of an operand of wgmma: the byte of every element, the formula, and what it rests on.

>>> from tcprobe.ask.behind import behind
>>> from tcprobe.isa.names import resolve
>>> from tcprobe.store.choose import alone
>>> from tcprobe.store.results import published
>>> one = resolve("wgmma.m64n24k16.f32.bf16.bf16.b_smem").shared_operand
>>> found = behind(one, alone(published()), major="k", swizzle=128, sbo=1024)
>>> found.offsets[3][1], found.offsets[8][9]
(150, 1152)
>>> [str(element) for element in found.at(151)]
['[3][1]: bytes 150..151']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.ask.confidence import UNMEASURED, Confidence, witnesses
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import SharedOperand
from tcprobe.layout.descriptor import UNIT, Descriptor, formula, offsets
from tcprobe.store.choose import Layers
from tcprobe.store.evidence import whence
from tcprobe.store.finding import Finding, Sourced
from tcprobe.values import Json

ARCH, KIND = "sm_90", "descriptors"
STATED = ("PTX ISA, section 9.7.15.5.1.2", "CUTLASS, mma_sm90_desc.hpp")


class Lying(NamedTuple):
    """An element in shared memory: `bytes` from `offset` on, the start address counted as 0; of b1 one `bit` there."""

    row: int
    col: int
    offset: int
    bytes: int
    bit: int
    bits: int

    def __str__(self) -> str:
        if self.bits < 8:
            return f"[{self.row}][{self.col}]: byte {self.offset}, bit {self.bit}"
        last = f"s {self.offset}..{self.offset + self.bytes - 1}" if self.bytes > 1 else f" {self.offset}"
        return f"[{self.row}][{self.col}]: byte{last}"


@dataclass(frozen=True)
class Behind:
    """`measured` is the measured case of descriptors that covers it, with its provenance; None where there is none."""

    operand: SharedOperand
    major: str
    descriptor: Descriptor
    measured: Json | None
    source: str
    layers: Layers

    @property
    def offsets(self) -> list[list[int]]:
        """Bytes from the start address: m x stored k of A, k x n of B."""
        held = self.operand.held
        turned = held.name == "b_smem"
        return [
            [
                offsets(self.descriptor, self.major, *((c, r) if turned else (r, c)), held.slot_bits)
                for c in range(held.cols)
            ]
            for r in range(held.rows)
        ]

    def lying(self, rows: Sequence[int], cols: Sequence[int]) -> list[Lying]:
        """Where elements rows x cols lie; UsageError where one is outside the operand."""
        held, offsets_ = self.operand.held, self.offsets
        for name, values, size in (("row", rows, held.rows), ("col", cols, held.cols)):
            outside = next((value for value in values if not 0 <= value < size), None)
            if outside is not None:
                raise UsageError(f"{name} {outside} is outside 0 to {size - 1}.")
        return [self._lying((row, col), offsets_[row][col]) for row in rows for col in cols]

    def at(self, byte: int) -> list[Lying]:
        """The elements that have a byte, from the start address: several of b1, or where strides are zero.

        UsageError where there is none.
        """
        size = max(1, self.operand.held.slot_bits // 8)
        elements = [
            self._lying((row, col), start)
            for row, starts in enumerate(self.offsets)
            for col, start in enumerate(starts)
            if start <= byte < start + size
        ]
        if not elements:
            last = max(map(max, self.offsets)) + size - 1
            raise UsageError(
                f"byte {byte} of {self.operand.held.name} holds no element; the last byte with one is {last}."
            )
        return elements

    def _lying(self, element: tuple[int, int], offset: int) -> Lying:
        (row, col), held = element, self.operand.held
        k = col if held.name == "a_smem" else row
        return Lying(row, col, offset, max(1, held.slot_bits // 8), k % 8 if held.slot_bits < 8 else 0, held.slot_bits)

    @property
    def formula(self) -> str:
        """C syntax in row, col, lbo, sbo, base_offset and start."""
        held = self.operand.held
        return formula(self.major, self.descriptor.swizzle, held.slot_bits, held.name)

    @property
    def evidence(self) -> str:
        """What the map rests on, in words."""
        if self.measured is None:
            return f"documented only, by {', and '.join(STATED)}; not measured"
        case, of = self.measured["case"], self.measured["provenance"]
        counted = f"{case['agree']} of {case['elements']} elements behind {case['descriptors']} descriptors"
        counted += "" if case["instruction"] == self.operand.instruction.id else f" of {case['instruction']}"
        made = f"live on {of['device']}, driver {of['driver']}, CUDA {of['cuda']}, tcprobe {of['tcprobe']}"
        covering = _covering(self.operand, self.major, self.descriptor.swizzle, self.layers)
        contradicted = "".join(f"; {sourced.contradiction}" for sourced in covering if sourced.otherwise)
        return f"measured: {made}: {counted} are where the formula says, {whence(self.source)}{contradicted}"

    @property
    def confidence(self) -> Confidence:
        """In the map: counted over all findings of descriptors that cover it; what is STATED is the formula."""
        covering = _covering(self.operand, self.major, self.descriptor.swizzle, self.layers)
        found = [finding for sourced in covering for finding in (*sourced.alike, *sourced.otherwise)]
        alike = [finding for finding in found if _agrees(finding)]
        devices, compilers = witnesses(alike, live=True), witnesses(alike, live=False)
        said = (len(STATED), 0) if alike else (0, len(STATED))
        methods = len({finding.method for finding in alike})
        otherwise = len(found) - len(alike)
        return Confidence(methods, len(devices), len(compilers), otherwise, *said) if found else UNMEASURED

    def to_json(self) -> Json:
        """The object that `show --json` prints."""
        one = self.descriptor
        stated = {"method": None, "arch": ARCH, "source": self.evidence}
        return {
            **entry(self.operand),
            "arch": ARCH,
            "source": self.source,
            "major": self.major,
            "swizzle": one.swizzle or "none",
            "lbo": one.lbo,
            "sbo": one.sbo,
            "base_offset": one.base_offset,
            "start": one.start,
            "descriptor": f"{one.encode():#018x}",
            "offsets": self.offsets,
            "formula": self.formula,
            "provenance": stated
            if self.measured is None
            else {
                "method": self.measured["method"],
                "arch": ARCH,
                **self.measured["provenance"],
                **self.measured["case"],
            },
        }


def entry(operand: SharedOperand) -> Json:
    """An entry of `list --json`, with the keys of a fragment's; `majors` are those that its type has."""
    row, held = operand.instruction, operand.held
    return {
        "id": operand.id,
        "family": row.family,
        "instruction": row.name,
        "shape": row.shape._asdict(),
        "operand": held.name,
        "layout": None,
        "type": held.type,
        "threads": row.threads,
        "elements": 0,
        "rows": held.rows,
        "cols": held.cols,
        "min_arch": row.target.name,
        "min_ptx": row.target.ptx,
        "stated_ptx": row.target.stated_for(*row.target.options[0]),
        "registers": 0,
        "register_bits": 32,
        "slot_bits": held.slot_bits,
        "products": row.products,
        "copies": 1,
        "place": held.place.value,
        "majors": list(held.majors),
    }


def behind(operand: SharedOperand, layers: Layers, major: str = "k", swizzle: int = 0, **given: int) -> Behind:
    """The map of an operand; lbo, sbo, base_offset and start may be `given`, strides else are those without gaps.

    UsageError where the type does not have the major, or a field cannot be written.
    """
    if major not in operand.held.majors:
        raise UsageError(
            f"{operand.id}: {operand.held.type} has major {' and '.join(operand.held.majors)} only, not {major}."
        )
    chosen = packed_atoms(operand, major, swizzle)._replace(**given)
    case, source = evidence(operand, major, swizzle, layers)
    return Behind(operand, major, chosen.check(), case, source, layers)


def packed_atoms(operand: SharedOperand, major: str, swizzle: int) -> Descriptor:
    """The descriptor of one instruction's operand by itself: atoms of 8 next to each other, as `ask.descriptor` has."""
    lines, k = (
        (operand.held.rows, operand.held.cols)
        if operand.held.name == "a_smem"
        else (operand.held.cols, operand.held.rows)
    )
    if major == "mn":
        return Descriptor(swizzle * k, 8 * swizzle, swizzle) if swizzle else Descriptor(128, 16 * k)
    width = swizzle or UNIT
    one_row = swizzle and k * operand.held.slot_bits // 8 <= swizzle  # of the pattern: nothing reads the leading offset
    return Descriptor(UNIT if one_row else width * lines, 8 * width, swizzle)


def evidence(operand: SharedOperand, major: str, swizzle: int, layers: Layers) -> tuple[Json | None, str]:
    """The measured case that covers an operand, with method and provenance, and where it is saved.

    NoMajorityError where as many devices found its elements elsewhere.
    """
    for sourced in _covering(operand, major, swizzle, layers):
        finding = sourced.settled
        if _agrees(finding):
            case = finding.plain["case"]
            return {"case": case, "method": finding.method, "provenance": finding.provenance}, sourced.source
    return None, "published"


def _agrees(finding: Finding) -> bool:
    """Whether all elements of a case lie where the formula says."""
    case = finding.plain["case"]
    return bool(case["agree"] == case["elements"])


def _covering(operand: SharedOperand, major: str, swizzle: int, layers: Layers) -> Iterator[Sourced]:
    """Findings of descriptors of a family's operands of one width, major and swizzle, the nearest layer's first."""
    wanted = {"operand": operand.held.name, "bits": operand.held.slot_bits, "major": major, "swizzle": swizzle}
    for sourced in layers.findings(KIND, ARCH).values():
        case = sourced.finding.plain.get("case")
        if case is None or not wanted.items() <= case.items():
            continue
        if inventory.instructions()[case["instruction"]].family == operand.instruction.family:
            yield sourced
