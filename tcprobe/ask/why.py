"""What a table rests on, link by link: probe, code, anchor, assumption; how sure it is; what would prove it wrong."""

from __future__ import annotations

from typing import NamedTuple

from tcprobe.ask.confidence import Confidence
from tcprobe.ask.table_confidence import confidence
from tcprobe.isa import inventory
from tcprobe.store.cell import Cell
from tcprobe.values import Json

RAN = {
    "live": "the driver's compiler or ptxas assembled it, and the GPU ran it",
    "sass": "ptxas compiled it, and its machine code was followed instruction by instruction, without a GPU",
    "derived": "ptxas compiled the multiply to a machine instruction whose layout is known on this arch",
    "same-opcode": "ptxas compiled it to a machine instruction whose layout is known on another arch",
    "emulated": "an emulator ran it: this is a test",
}
ASSUMED = {
    "live": "a kernel does the same each time it runs: PTX fixes layouts by the form and the arch",
    "sass": "each machine instruction does what its model says; tests run every model beside a GPU",
    "derived": "the machine instruction has one layout wherever it appears in code of the arch",
    "same-opcode": "archs that encode a machine instruction alike give it the same layout: weaker, because it was "
    "not seen here",
    "emulated": "the emulator is the hardware",
}
WRONG = {
    "live": "`tcprobe run --method live --force` on such a GPU writes another table, or `tcprobe verify` fails there",
    "sass": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "derived": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "same-opcode": "`tcprobe run --method live` on a GPU of this arch writes another table",
    "emulated": "any GPU contradicts it",
}


class Why(NamedTuple):
    """`links` are (link, words), from the probe on; `confidence` is how sure they make a table."""

    links: list[tuple[str, str]]
    confidence: Confidence

    @property
    def lines(self) -> list[str]:
        """For `show --why`."""
        return [f"confidence: {self.confidence}", *(f"{link}: {words}" for link, words in self.links)]

    def to_json(self) -> Json:
        """Plain data: `confidence`, and `chain` by link."""
        return {"confidence": self.confidence.to_json(), "chain": dict(self.links)}


def why(cell: Cell) -> Why:
    """What a table rests on, and how sure it is."""
    return Why(chain(cell), confidence(cell))


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
    if row is not None and row.conventional:
        return (
            f"rows, columns and k have the numbers of {cell.numbering}; which slots meet is measured, numbers are not"
        )
    return f"numbers from {cell.numbering}: a place in memory, or an index, fixes each element"
