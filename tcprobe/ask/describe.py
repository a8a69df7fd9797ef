"""Tables as plain data, for `--json` and for pages. Keys stay: other programs rely on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from tcprobe.ask.compare import VerdictAnswer, verdicts
from tcprobe.ask.confidence import WhyAnswer
from tcprobe.ask.entry import FragmentEntry, fragment_entry
from tcprobe.fit import Layout, fitted
from tcprobe.isa import arch, inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import emulated, sparsity
from tcprobe.isa.operand import WHOLE, Role
from tcprobe.layout.table import Table
from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, plain
from tcprobe.store.choose import Layers, some
from tcprobe.store.finding import Measurement, how, source_words
from tcprobe.store.results import Results
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.undocumented import Undocumented
    from tcprobe.store.cell import Cell


class TableFormula(Answer):
    """C syntax in `lane` and `i`; null where there is no closed form."""

    row: str | None
    col: str | UnsetType | None = UNSET
    product: str | UnsetType = UNSET


class TableBases(Answer):
    """By bit, the lowest first."""

    lane: list[list[int]]
    register: list[list[int]]


class Obtained(Answer):
    """How a measurement was obtained."""

    method: str
    arch: str
    experiment: str
    compiler: str
    cuda: str
    device: str
    driver: str
    ptx: str
    tcprobe: str
    triples: int | UnsetType = UNSET
    structure_sha256: str | UnsetType = UNSET
    emulated_by: str | UnsetType = UNSET


class NotMeasured(Answer):
    """What a layout rests on that was not measured, and what it would take to measure it."""

    method: None
    arch: str
    source: str
    why: str


class UndocumentedAnswer(Answer):
    """What was found of metadata beyond PTX's text."""

    nibbles: list[list[list[int] | None]]
    selectors: dict[str, dict[str, Any]]
    provenance: dict[str, str]


class TableAnswer(FragmentEntry, kw_only=True):
    """The table of a fragment in registers: of metadata and scales one for each selector, with the immediates that the
    selector stands for; `undocumented` is what was found beyond PTX's text. `unread` lists by lane the i that no
    measured multiply reads, null where no multiply was measured. `source` is "published" or the folder that holds the
    measurement.
    """

    selector: int | UnsetType = UNSET
    byte_id: int | UnsetType = UNSET
    thread_id: int | UnsetType = UNSET
    undocumented: UndocumentedAnswer | UnsetType | None = UNSET
    arch: str
    source: str
    layout_id: str
    table: Annotated[
        list[list[list[int] | None] | None],
        Meta(
            description="By lane and i [row, col], null where the slot is unused. Where a warp holds several products "
            "(products above 1), slots of different products have the same row and col: product, by lane and i, says "
            "which, as formula.product does"
        ),
    ]
    product: list[list[int]] | UnsetType = UNSET
    formula: TableFormula
    bases: Annotated[
        TableBases | None,
        Meta(
            description="What each bit of the lane and of the register number i adds by XOR to row, col and product, "
            "the lowest bit first; null where the map is not linear"
        ),
    ]
    fit: str
    numbering: str
    unread: list[list[int]] | None
    same_layout: list[str]
    provenance: Obtained | NotMeasured
    references: list[VerdictAnswer]
    why: WhyAnswer | UnsetType = UNSET


def cell_entry(cell: Cell) -> Json:
    """The object that `show --json` prints."""
    return plain(cell_answer(cell))


def cell_answer(cell: Cell, why: WhyAnswer | UnsetType = UNSET) -> TableAnswer:
    """The entry, the table, formulas, provenance and verdicts.

    `table[lane][i]` is [row, col], or None where the slot is unused; of an address `table[lane]` is [[row]], or None
    where it does not count. i of metadata counts index fields of `index_bits` bits, [row, col] is the stored element of
    A that one governs, the first of two for 4-bit types, and `table[lane]` is None where the lane is not read.
    """
    table, fragment, measured = cell.table, cell.fragment, cell.measured
    fit = fitted(table)
    return TableAnswer.of(
        fragment_entry(fragment),
        **({} if cell.selector is None else _selected(cell)),
        arch=cell.arch,
        source=cell.source,
        layout_id=table.id,
        table=_lanes(fragment, table),
        product=by_lane(table, list(table.values["product"])) if "product" in table.outputs else UNSET,
        formula={name: str(formula) if formula else None for name, formula in fit.formulas.items()},
        bases=bases(fit.layout),
        fit=fit.verdict,
        numbering=cell.numbering,
        unread=unread(fragment, measured, cell.layers)[0] if measured else None,
        same_layout=cell.alike,
        provenance=_obtained(measured)
        if measured
        else NotMeasured(None, cell.arch, cell.evidence, hindrance(fragment)),
        references=[verdict.answer for verdict in verdicts(cell.judged, measured)] if measured else [],
        why=why,
    )


def bases(layout: Layout | None) -> dict[str, list[list[int]]] | None:
    """What each bit of "lane" and of "register" (i), the lowest first, adds by XOR to the table's outputs, row first.

    None where the map is not linear, or does not start at 0.
    """
    if layout is None or layout.offset:
        return None
    names = {"lane": "lane", "register": "i"}
    return {name: [list(image.values()) for image in layout.bases[axis]] for name, axis in names.items()}


def hindrance(fragment: Fragment) -> str:
    """What it would take to measure a fragment, or why tcprobe cannot."""
    form = inventory.instructions().get(fragment.experiment)
    return (form and form.unprobed) or "`tcprobe run` measures it on a GPU of that arch"


def _selected(cell: Cell) -> dict[str, Any]:
    """What the object of a selector's table says besides."""
    assert cell.selector is not None
    picked = {"selector": cell.selector, **cell.fragment.picked(cell.selector)}
    if cell.fragment.role is not Role.METADATA:
        return picked
    more = _find_undocumented(cell)
    return {**picked, "undocumented": more and more.answer}


def _lanes(fragment: Fragment, table: Table) -> list[list[list[int] | None] | None]:
    """What every lane holds; None for a lane whose operand is not looked at."""
    nothing: list[list[int] | None] = [None] * table.elements
    lanes = by_lane(table, [None if cell is None else list(cell[:2]) for cell in table.cells])
    return [None if lane == nothing and fragment.role not in WHOLE else lane for lane in lanes]


def _obtained(measured: Measurement) -> Obtained:
    structure = measured.structure
    row, device = inventory.instructions().get(measured.experiment), arch.BY_NAME[measured.arch]
    return Obtained.of(
        measured,
        **measured.provenance,
        triples=structure.triples if structure else UNSET,
        structure_sha256=structure.sha256 if structure else UNSET,
        emulated_by=measured.provenance["compiler"] if row and emulated(row, device) else UNSET,
    )


def holders(results: Results, arch: str, method: str) -> dict[str, list[str]]:
    """Layout id to the ids of the fragments of `arch` that have it, in the inventory's order."""
    of = {(f.experiment, f.operand): f.id for f in inventory.fragments().values()}
    order = {id_: number for number, id_ in enumerate(of.values())}
    by_layout = {
        layout: sorted((of[pair] for pair in pairs if pair in of), key=order.__getitem__)
        for layout, pairs in results.sharing(arch, method).items()
    }
    return {layout: ids for layout, ids in by_layout.items() if ids}


def unread(fragment: Fragment, measured: Measurement, layers: Layers) -> tuple[list[list[int]] | None, int]:
    """Per lane the elements that none of the measured multiplies reads, and how many multiplies those are.

    Those by the method of the fragment's own measurement count, and among them those that found the same table.
    """
    rows = [inventory.instructions()[id_] for id_ in inventory.user_ids(fragment.id)]
    measurements = [layers.multiply(row.id, measured) for row in rows if row.multiplies]
    table = measured.tables[fragment.operand]
    multiplies = [m for m in measurements if m and m.tables[fragment.operand] == table]
    if not multiplies:
        return None, 0
    nothing: tuple[tuple[int, ...], ...] = ((),) * fragment.threads
    per_lane = zip(*(m.unread.get(fragment.operand, nothing) for m in multiplies), strict=True)
    return [sorted(set.intersection(*map(set, lanes))) for lanes in per_lane], len(multiplies)


def notes(cell: Cell, brief: bool = False) -> list[str]:
    """What `show` says of a layout: its name, some of those who share it, copies and which of them are read.

    A `brief` answer leaves out other methods that found the same table.
    """
    table, fragment, measured = cell.table, cell.fragment, cell.measured
    same = cell.alike
    if cell.selector is not None:
        lines = [selected_words(cell)]
        if fragment.role is Role.METADATA:
            more = _find_undocumented(cell)
            lines += [indices(fragment), *_emulated(cell), *(more.lines if more else [])]
        return lines + ([] if measured else [f"not measured; {hindrance(fragment)}"])
    lines = [f"layout {table.id}" + (f", same layout as {some(same, 2 if brief else 4)}" if same else "")]
    lines += [fragment.container] if fragment.container else []
    if cell.in_cta(0):
        from tcprobe.ask import written

        return [*lines, *written.lines(cell)]  # type: ignore[arg-type]
    counts = sorted({len(holders) for holders in table.inverse.values()})
    if counts != [1]:
        lines.append(f"each element has {' or '.join(map(str, counts))} holders")
    if not measured:
        return [*lines, f"not measured; {hindrance(fragment)}"]
    lines += _emulated(cell)
    lines += _other_archs(fragment, measured, cell.layers)
    lines += (text for text, differs in _other_measurements(cell) if differs or not brief)
    lanes, multiplies = unread(fragment, measured, cell.layers)
    if lanes and any(lanes):
        same_i = all(lane == lanes[0] for lane in lanes)
        which = f"i = {ranges(lanes[0])}" if same_i else f"{sum(map(len, lanes))} of {table.points} slots"
        lines.append(f"never read by any of {multiplies} measured multiplies: {which}")
    return lines


def _find_undocumented(cell: Cell) -> Undocumented | None:
    from tcprobe.ask.undocumented import beyond

    return beyond(cell.fragment, cell.arch, cell.layers)


def selected_words(cell: Cell) -> str:
    """What a selector selects, and from which lanes a table of metadata or scales is read."""
    assert cell.selector is not None
    fragment, table = cell.fragment, cell.table
    if fragment.role is Role.METADATA:
        slots = f"index fields of {fragment.slot_bits} bits"
    else:
        picked = fragment.picked(cell.selector)
        slots = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in picked.items())
    read = [lane for lane in range(table.threads) if any(table.cells[lane * table.elements :][: table.elements])]
    lanes = "every lane" if len(read) == table.threads else f"lanes {', '.join(map(str, read))}"
    return f"selector {cell.selector}: {slots}; read from {lanes}"


def indices(fragment: Fragment) -> str:
    """What an index means, and which values are legal."""
    rule = sparsity(fragment)
    chunk = "col" if rule.fields == 1 else f"(col / {rule.fields * rule.span})"
    index = "index" if rule.span == 1 else f"{rule.span} * index + col % {rule.span}"
    values = ", ".join(f"{value:#x}" for value in rule.legal)
    said = "two ascending indices" if rule.fields > 1 else "index 0 and 1"
    return f"A[row][col] is column {rule.positions * rule.span} * {chunk} + {index}; legal four bits: {values}, {said}"


def _emulated(cell: Cell) -> list[str]:
    """That a table shows a compiler's work too, where the arch has no such instruction."""
    measured = cell.measured
    row = inventory.instructions().get(measured.experiment) if measured else None
    if measured is None or row is None or not emulated(row, arch.BY_NAME[measured.arch]):
        return []
    return [
        f"{measured.arch} has no such instruction: what {measured.provenance['compiler']} emulates it by is measured"
    ]


def _other_archs(fragment: Fragment, measured: Measurement, layers: Layers) -> list[str]:
    """On which other archs the fragment has the same table, and on which another."""
    layout = measured.tables[fragment.operand].id
    layouts = {name: layers.layout(fragment, name) for name in layers.archs() if name != measured.arch}
    lines = []
    for same, words in ((True, "the same table on"), (False, "ANOTHER table on")):
        names = [name for name, other in layouts.items() if other and (other == layout) == same]
        lines += [f"{words} {', '.join(names)}"] if names else []
    return lines


def _other_measurements(cell: Cell) -> Iterator[tuple[str, bool]]:
    """Whether the arch's other methods, and measurements in folders below, found the same table; and if they differ."""
    for other in (f for f in cell.layers.tables(cell.fragment, [cell.arch]) if f.measured is not cell.measured):
        differs = other.table(cell.fragment) != cell.table
        words = "ANOTHER TABLE" if differs else "the same table"
        found = f"({how(other.measured)}, {source_words(other.source)})"
        yield f"method {other.measured.method}: {words} {found}", differs


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in words: "8 to 15", or one by one."""
    whole = list(numbers) == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if whole and len(numbers) > 1 else ", ".join(map(str, numbers))


Slot = TypeVar("Slot")  # what is said of a slot


def by_lane(table: Table, by_slot: list[Slot]) -> list[list[Slot]]:
    """Values by slot as one list a lane."""
    return [by_slot[s : s + table.elements] for s in range(0, table.points, table.elements)]
