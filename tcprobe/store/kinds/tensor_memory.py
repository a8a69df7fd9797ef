"""Where operands of tcgen05.mma, and what tcgen05.cp writes, are in tensor memory: (row, col) to CTA, lane and bit.

A subject is `ID.OPERAND.mMnN` of a multiply, with `.TYPE` of D, `.Vx` for V scales a row and `.selectorS` where one
selects; `ID.memory`, with the multicast, of a copy. `runs` are those of `layout.cell_runs`: [row, col, length, CTA,
lane, bit, step]. Of what a multiply reads an element has as many places as were read for some element of D.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.runs import CellRun, ElementPlace, places_of_runs
from tcprobe.references.tensor_memory import BYTE, CELL, LANES, WIDTHS, fields
from tcprobe.store.finding import Finding, makers

KIND = "tensor_memory"
METHODS = ("live",)
COLUMNS = 512
MOST_ROWS, MOST_RUNS = 256, 1 << 16
_MULTIPLIED = re.compile(
    r"(?P<form>tcgen05\.mma\.[\w.:]{1,60})\.(?P<operand>d|a|e|scale_a|scale_b)\.m(?P<m>[0-9]{1,3})n(?P<n>[0-9]{1,3})"
    r"(?:\.(?P<type>f16|f32|s32))?(?:\.(?P<vector>[1-6])x)?(?:\.selector(?P<selector>[0-3]))?"
)
_COPIED = re.compile(r"(?P<form>tcgen05\.cp\.\w{1,9})\.memory(?:\.(?P<multicast>warpx[\w:]{1,9}))?")
CellNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 14)]
PlainRun = tuple[CellNumber, CellNumber, CellNumber, CellNumber, CellNumber, CellNumber, CellNumber]


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """`rows` x `cols` elements of `bits` bits."""

    rows: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
    cols: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
    bits: Annotated[int, msgspec.Meta(ge=1, le=CELL)]
    runs: Annotated[list[PlainRun], msgspec.Meta(max_length=MOST_RUNS)]

    @property
    def held(self) -> list[ElementPlace]:
        """Every place of every element."""
        return places_of_runs([CellRun(*run) for run in self.runs])


class Subject(NamedTuple):
    """What a finding is of; `type` is that of D, `vector` counts the scales of a row."""

    form: str
    operand: str
    m: int = 0
    n: int = 0
    type: str = ""
    vector: int = 0
    selector: int = 0
    multicast: str = ""

    def __str__(self) -> str:
        if self.operand == "memory":
            return f"{self.form}.memory" + (f".{self.multicast}" if self.multicast else "")
        kind, vector = f".{self.type}" if self.type else "", f".{self.vector}x" if self.vector else ""
        selected = f".selector{self.selector}" if self.operand not in ("d", "a") else ""
        return f"{self.form}.{self.operand}.m{self.m}n{self.n}{kind}{vector}{selected}"


USUAL_N = 64  # where N makes no difference; every multiply has it


def measured_as(
    instruction: Instruction, operand: str, size: tuple[int, int], scales_and_selector: tuple[int, int]
) -> Subject:
    """The subject that says where an operand of a multiply of M x N is, with so many scales a row, and which selector.

    A and E are measured at one N, scale_a at the largest, D in its widest type.
    """
    (m, n), (vector, selector) = size, scales_and_selector
    if operand in ("a", "e"):
        n = USUAL_N
    elif operand == "scale_a":
        n = int(instruction.stated["n_values"][-1])
    kind = next(str(name) for name in instruction.stated["d_types"] if name != "f16") if operand == "d" else ""
    scaled = vector if operand.startswith("scale_") else 0
    return Subject(instruction.id, operand, m, n, kind, scaled, selector)


def subject(text: str) -> Subject | None:
    """What a subject says; None where it is none of this kind."""
    if copied := _COPIED.fullmatch(text):
        return Subject(copied["form"], "memory", multicast=copied["multicast"] or "")
    read = _MULTIPLIED.fullmatch(text)
    if read is None:
        return None
    m, n, vector, selector = (int(read[name] or 0) for name in ("m", "n", "vector", "selector"))
    return Subject(read["form"], read["operand"], m, n, read["type"] or "", vector, selector)


def check(finding: Finding) -> None:
    """DataError unless it is of an operand of a form of the arch, of its size, each element in a place of its own."""
    said = subject(finding.subject)
    row = inventory.instructions().get(said.form) if said else None
    if said is None or str(said) != finding.subject or row is None or not row.target.on(arch(finding.arch)):
        raise DataError(f"{finding.arch} has no {finding.subject} in tensor memory.")
    if (finding.body.rows, finding.body.cols) != _size(row, said):
        raise DataError(f"{finding.subject}: {finding.body.rows} x {finding.body.cols} is not its size.")
    _check_places(finding, *_element(row, said))


def _element(instruction: Instruction, parsed: Subject) -> tuple[int, int]:
    """Bits of an element, and how many columns next to each other are one."""
    if parsed.operand == "e":
        return fields(instruction)
    a = WIDTHS.get(instruction.kind or "", BYTE)
    return {"d": dtype(parsed.type or "f32").bits, "a": a, "memory": CELL}.get(parsed.operand, BYTE), 1


def _size(instruction: Instruction, parsed: Subject) -> tuple[int, int]:
    """Rows and columns; (0, 0) of what the form does not have."""
    if parsed.operand == "memory":
        known = instruction.stated.get("multicast", ("",))
        return (instruction.shape.m, instruction.shape.n) if parsed.multicast in known else (0, 0)
    stated = instruction.stated
    operand = next((o for o in instruction.operands if o.name == parsed.operand), None)
    if operand is None or parsed.m not in stated["m_values"] or parsed.n not in stated["n_values"]:
        return 0, 0
    wrong_type = parsed.operand == "d" and parsed.type not in stated["d_types"]
    if wrong_type or (parsed.operand != "d" and parsed.type):
        return 0, 0
    sizes = {"d": (parsed.m, parsed.n), "scale_a": (parsed.m, parsed.vector), "scale_b": (parsed.vector, parsed.n)}
    return sizes.get(parsed.operand, (parsed.m, operand.cols))


def _check_places(finding: Finding, bits: int, span: int) -> None:
    body: Body = finding.body
    if body.bits != bits:
        raise DataError(f"{finding.subject}: its elements have {bits} bits, not {body.bits}.")
    if sum(count for _, _, count, *_ in body.runs) > MOST_RUNS * 8:
        raise DataError(f"{finding.subject}: more places than tensor memory has.")
    held = body.held
    if {(row, col) for row, col, *_ in held} != {(row, col) for row in range(body.rows) for col in range(body.cols)}:
        raise DataError(f"{finding.subject}: the places are not those of {body.rows} x {body.cols} elements.")
    ctas = 1 + ("cta_group::2" in finding.subject)
    if any(cta >= ctas or lane >= LANES or bit + body.bits > COLUMNS * CELL for *_, cta, lane, bit in held):
        raise DataError(f"{finding.subject}: a place outside tensor memory.")
    if any(bit % bits for *_, bit in held):
        raise DataError(f"{finding.subject}: an element that begins inside the place of another.")
    if len({place[2:] for place in held}) < len({(row, col // span, *place) for row, col, *place in held}):
        raise DataError(f"{finding.subject}: two elements in one place.")


def essence(body: Body) -> object:
    """All of it."""
    return body


def words(findings: Sequence[Finding]) -> str:
    """How many operands, of how many forms."""
    forms = {said.form for said in (subject(finding.subject) for finding in findings) if said}
    return f"{makers(findings)}: places of {len(findings)} operands of {len(forms)} forms in tensor memory"
