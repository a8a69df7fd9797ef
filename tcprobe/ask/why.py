"""What a table rests on, link by link: probe, code, anchor, assumption; how sure it is; what would prove it wrong."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tcprobe.ask.compare import CONFIRMED, DIFFERS, conventional, verdicts
from tcprobe.isa import inventory
from tcprobe.store.cell import Cell
from tcprobe.store.finding import FROM_CODE, witness
from tcprobe.store.measurement import Measurement
from tcprobe.values import Json

RAN = {
    "live": "the driver's compiler or ptxas assembled it, and the GPU ran it",
    "sass": "ptxas compiled it, and its machine code was followed instruction by instruction, without a GPU",
    "derived": "ptxas compiled the multiply to a machine instruction whose layout is known on this arch",
    "same-opcode": "ptxas compiled it to a machine instruction whose layout is known on another arch",
    "emulated": "an emulator ran it: this is a test",
}
ASSUMED = {
    "live": "a kernel that is run again does the same: PTX fixes layouts by the form and the arch",
    "sass": "each machine instruction does what its model says; tests run every model beside a GPU",
    "derived": "the machine instruction has one layout wherever it stands in code of the arch",
    "same-opcode": "archs that encode a machine instruction alike give it the same layout: weaker, nobody saw it here",
    "emulated": "the emulator is the hardware",
}
WRONG = {
    "live": "`tcprobe run --method live --force` on such a GPU writes another table, or `tcprobe verify` fails there",
    "sass": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "derived": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "same-opcode": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "emulated": "any GPU says otherwise",
}


class Confidence(NamedTuple):
    """How many measurements of the arch found the table and how many another, and what references say of it."""

    methods: int
    devices: int
    compilers: int
    otherwise: int
    confirmed: int
    differing: int

    @property
    def word(self) -> str:
        """What the numbers amount to."""
        if self.otherwise:
            return "contradicted"
        if not self.methods:
            return "documented only"
        independent = self.devices + self.compilers + self.confirmed
        return "strong" if self.devices and independent > 2 else "good" if independent > 1 else "single"

    def __str__(self) -> str:
        found = f"methods {self.methods}, kinds of GPU {self.devices}, compilers {self.compilers}"
        said = f"other tables {self.otherwise}; references that confirm {self.confirmed}, that differ {self.differing}"
        return f"{self.word}: {found}, {said}"

    def to_json(self) -> Json:
        """Plain data."""
        return {"word": self.word, **self._asdict()}


def confidence(cell: Cell) -> Confidence:
    """Counted over all measurements of the arch that the folders have."""
    if cell.measured is None:
        return Confidence(0, 0, 0, 0, 0, 0)
    whole = cell.measured.tables[cell.fragment.operand]
    found = list(cell.layers.tables(cell.fragment, [cell.arch]))
    alike = [one.measured for one in found if one.table(cell.fragment) == whole]
    said = Counter(verdict.verdict for verdict in verdicts(cell.fragment, cell.measured))
    return Confidence(
        len({m.method for m in alike}),
        len(_witnesses(alike, live=True)),
        len(_witnesses(alike, live=False)),
        len(found) - len(alike),
        said[CONFIRMED],
        said[DIFFERS],
    )


def _witnesses(alike: list[Measurement], live: bool) -> set[str]:
    return {witness(m) for m in alike if (m.method not in FROM_CODE) == live}


def chain(cell: Cell) -> list[tuple[str, str]]:
    """(link, words), from the probe on."""
    measured = cell.measured
    if measured is None:
        return [
            ("probe", "none: nobody measured it on this arch"),
            ("source", cell.evidence),
            ("wrong if", "a measurement on a GPU of this arch writes another table"),
        ]
    made, structure = measured.provenance, measured.structure
    checked = f"; it formed {structure.triples} products, just those that the table predicts" if structure else ""
    return [
        ("probe", f"{measured.experiment}, PTX text {made['ptx'][:12]}{checked}"),
        ("code", f"{RAN[measured.method]} ({made['compiler']}; {made['device']})"),
        ("anchor", _anchor(cell)),
        ("assumption", ASSUMED[measured.method]),
        ("wrong if", WRONG[measured.method]),
    ]


def _anchor(cell: Cell) -> str:
    row = inventory.instructions().get(cell.fragment.experiment)
    if row is not None and conventional(cell.fragment):
        return (
            f"rows, columns and k have the numbers of {cell.numbering}; which slots meet is measured, numbers are not"
        )
    return f"numbers from {cell.numbering}: a place in memory, or an index, fixes each element"


def lines(cell: Cell) -> list[str]:
    """For `show --why`."""
    return [f"confidence: {confidence(cell)}", *(f"{link}: {words}" for link, words in chain(cell))]


def to_json(cell: Cell) -> Json:
    """Plain data: `confidence`, and `chain` by link."""
    return {"confidence": confidence(cell).to_json(), "chain": dict(chain(cell))}
