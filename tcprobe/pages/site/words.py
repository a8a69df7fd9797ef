"""Short words that several pages use for a fragment, its archs and its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.fit import fitted
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Place, Role
from tcprobe.layout.table import Table
from tcprobe.pages.site.facts import BADGES, Fact, Facts
from tcprobe.pages.tables import spans
from tcprobe.sass import lowering
from tcprobe.sass.lowering import Lowering
from tcprobe.store.cell import Cell
from tcprobe.store.finding import FROM_CODE, PROVENANCE, how, made_by, source_words

UNITS = {Role.METADATA: "index field", Role.SCALE: "scale", Role.ADDRESS: "address"}
SAID = {"device", "driver", "cuda", "tcprobe"}  # of provenance, in the line of the evidence
SHORT = {
    "live": "live",
    "sass": "machine code",
    "derived": "derived",
    "same-opcode": "same opcode",
    "emulated": "emulated",
    "documented": "documented",
    "absent": "absent",
    "unknown": "unknown",
}


def name(fragment: Fragment) -> str:
    """What a matrix is called: A, B, C, D, or the operand's name."""
    return name_of(fragment.operand)


def name_of(operand: str) -> str:
    """An operand's letter as matrices have it, or its name."""
    return operand.upper() if len(operand) == 1 else operand


def axis(fragment: Fragment) -> str:
    """What holds elements: a lane of a warp, or a thread of more than one."""
    return "lane" if fragment.threads <= 32 else "thread"


def size(fragment: Fragment, any_n: bool = False) -> str:
    """Rows, columns, type, and what a lane holds; `any_n` says that there are as many columns as N."""
    products = f", {fragment.products} products per warp" if fragment.products > 1 else ""
    unit = f"{fragment.slot_bits} bits each"
    matrix = f"{fragment.rows} x {'N' if any_n else fragment.cols} of {fragment.type}{products}"
    of_n = f"; of N = {fragment.cols}" if any_n else ";"
    return f"{matrix}{of_n} a {axis(fragment)} holds {lane_contents(fragment)}, {unit}"


def lane_contents(fragment: Fragment) -> str:
    """What a lane holds: 8 elements in 4 registers."""
    elements = _count(fragment.elements, UNITS.get(fragment.role, "element"))
    return f"{elements} in {_count(fragment.registers, 'register')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 'e' * what.endswith('ss') + 's'}"


def formula(table: Table) -> str:
    """A line an output."""
    return "\n".join(f"{n} = {f or 'no closed form'}" for n, f in fitted(table).formulas.items())


def witnesses(fact: Fact, arch: str) -> str:
    """How many devices and compilers found an arch's table: "2 devices, 3 compilers"."""
    measured = fact.evidence(arch)
    devices = {made_by(f.measured)[:2] for f in measured if f.measured.method == "live"}
    compilers = {f.measured.provenance["compiler"] for f in measured if f.measured.method != "live"}
    counts = ((len(devices), "device"), (len(compilers), "compiler"))
    return ", ".join(_count(*pair) for pair in counts if pair[0])


def badge(fact: Fact, arch: str) -> str:
    """What stands under an arch's name in the strip."""
    kind = fact.kind(arch)
    return ", ".join(filter(None, (SHORT[kind], witnesses(fact, arch) if arch in fact.cells else "")))


def evidence(cell: Cell) -> str:
    """What a table rests on, in words that do not name the arch."""
    if cell.measured:
        by = f"tcprobe {cell.measured.provenance['tcprobe']}"
        return f"measured: {how(cell.measured)}, {by}, {source_words(cell.source)}"
    assert cell.stated is not None
    reference, claim = cell.stated
    return f"documented only, by {reference}, {claim.where}; not measured there"


def numbering(cell: Cell) -> str:
    """What row and column numbers come from."""
    return f"Row and column numbers from {cell.numbering}." if cell.numbering else ""


def provenance(cell: Cell) -> list[tuple[str, str]]:
    """(what, which) of a table's provenance, beyond what its evidence says."""
    if not cell.measured:
        return [("documented", evidence(cell))]
    measured = cell.measured
    rows = [("experiment", measured.experiment)]
    rows += [(key, measured.provenance[key]) for key in sorted({*PROVENANCE} - SAID)]
    tensor = measured.structure
    return rows + ([("structure tensor", f"{tensor.triples} triples, SHA-256 {tensor.sha256}")] if tensor else [])


def command(cell: Cell) -> str:
    """What obtains the table again: measures it, or shows what is documented where no probe can measure it."""
    experiment, measured = cell.fragment.experiment, cell.measured
    if not measured:
        row = inventory.instructions().get(experiment)
        if row and row.unprobed:
            return f"tcprobe show {cell.fragment.id} --arch {cell.arch}   # {row.unprobed}"
        return f"tcprobe run {experiment} --arch {cell.arch} --method live   # on such a GPU; not measured yet"
    if measured.method in FROM_CODE[1:]:
        return f"tcprobe run --arch {cell.arch} --method sass   # {experiment} follows from machine code"
    return f"tcprobe run {cell.fragment.id} --arch {cell.arch} --method {measured.method}"


def selector_words(fragment: Fragment, selector: int) -> str:
    """What a selector's number stands for: selector 1, or byte-id 1, thread-id 0."""
    return ", ".join(f"{name.replace('_', '-')} {value}" for name, value in fragment.picked(selector).items())


def layout_name(fragment: Fragment, shape: str = "") -> str:
    """A layout by what has it: m16n8k16 A, 16 bits."""
    return f"{fragment.family} {shape or fragment.shape} {name(fragment)}, {fragment.slot_bits} bits"


def why_absent(fact: Fact, arch: str) -> str:
    """Why there is no table, in words that do not name the arch."""
    return fact.why(arch).removeprefix(f"{arch} ").replace(f" on {arch}", "")


def legend() -> list[tuple[str, str]]:
    """(letter, words) of every badge."""
    return list(BADGES.values())


def some(ids: Sequence[str], most: int) -> tuple[list[str], int]:
    """The first ids, and how many more there are."""
    return list(ids[:most]), max(0, len(ids) - most)


def what_it_does(instruction: Instruction, every_n: bool = False) -> str:
    """What an instruction does, in words, and where operands are that are in no registers."""
    beyond = [o.name for o in instruction.operands if o.place is not Place.REGISTERS and o.role is not Role.SOURCE]
    shared = f" Not in registers: {', '.join(beyond)}." if beyond and instruction.multiplies else ""
    if not instruction.multiplies:
        places = list(dict.fromkeys(o.place.value for o in instruction.operands if o.place is not Place.IMMEDIATE))
        return f"Moves matrices between {' and '.join(places) if len(places) > 1 else 'lanes'}."
    products = f"{instruction.products} products of " if instruction.products > 1 else ""
    shape = instruction.shape
    if not shape.m:
        return f"D = A B + C; M and N are in a descriptor, K is {shape.k}.{shared}"
    return f"D = A B + C: {products}{shape.m} x {shape.k} times {shape.k} x {'N' if every_n else shape.n}.{shared}"


def targets(instruction: Instruction) -> str:
    """From which targets on, in words."""
    return " or ".join(f"{target}, PTX {ptx}" for target, ptx in instruction.target.options)


def variants(instruction: Instruction) -> list[tuple[str, str]]:
    """(what varies in the form, its values) as PTX documents them."""
    return [(name.replace("_", " "), ", ".join(map(str, values))) for name, values in instruction.stated.items()]


def lowerings(facts: Facts, instruction: Instruction) -> list[tuple[str, str, str]]:
    """(archs in words, words, archs one by one), archs with the same together."""
    by_text: dict[str, list[str]] = {}
    for arch, bodies in facts.lowerings.items():
        saved = next((body for body in bodies if instruction.id in body["instructions"]), None)
        if saved:
            low = Lowering(**saved["instructions"][instruction.id])
            refused = (low.refused or "").replace(f" on .target '{arch}'", "")
            text = lowering.words(low, instruction) + (f" ({refused})" if refused else "")
            by_text.setdefault(text, []).append(arch)
    return [(spans(archs), text, " ".join(archs)) for text, archs in by_text.items()]
