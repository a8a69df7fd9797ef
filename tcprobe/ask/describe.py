"""Fragments and measurements as plain data, for `--json` and for pages. Keys stay: other programs rely on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tcprobe.ask.compare import verdicts
from tcprobe.fit import Layout, fitted
from tcprobe.isa import arch, inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, emulated, sparsity
from tcprobe.isa.operand import WHOLE, Role
from tcprobe.layout.table import Table
from tcprobe.store.choose import Layers, some
from tcprobe.store.finding import Measurement, how, source_words
from tcprobe.store.results import Results
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.undocumented import Undocumented
    from tcprobe.store.cell import Cell


def fragment_entry(fragment: Fragment) -> Json:
    """An entry of `list --json`.

    `rows` x `cols` is m x k for operand a of a multiply, k x n for b, m x n for c and d; of a matrix move it is that of
    all matrices in memory, where k is None; `layout` is "row", "col" or None; `min_arch` the least PTX target;
    `min_ptx` the least PTX version that ptxas takes there, `stated_ptx` what PTX ISA states if that is another;
    `registers` of `register_bits` bits hold `elements` slots of `slot_bits`.
    """
    return {
        "id": fragment.id,
        "family": fragment.family,
        "instruction": fragment.instruction,
        "shape": fragment.shape._asdict() | {"k": fragment.shape.k or None},
        "operand": fragment.operand,
        "layout": fragment.layout,
        "type": fragment.type,
        "threads": fragment.threads,
        "elements": fragment.elements,
        "rows": fragment.rows,
        "cols": fragment.cols,
        "min_arch": fragment.target.name,
        "min_ptx": fragment.target.ptx,
        "stated_ptx": fragment.target.stated_for(*fragment.target.options[0]),
        "registers": fragment.registers,
        "register_bits": fragment.register_bits,
        "slot_bits": fragment.slot_bits,
        "products": fragment.products,
        "copies": fragment.copies,
        **(_selected(fragment) if fragment.selectors else {}),
    }


def form_entry(instruction: Instruction) -> Json:
    """An entry of `list --json` for an instruction that holds nothing in registers: keys of operands are None.

    Besides them `stated` has what PTX documents of a form that stands for several, `operands` where its matrices are,
    `unprobed` why tcprobe cannot measure it.
    """
    nothing = dict.fromkeys(fragment_entry(next(iter(inventory.fragments().values()))))
    known = {
        "id": instruction.id,
        "family": instruction.family,
        "instruction": instruction.name,
        "shape": {"m": None, "n": None, "k": instruction.shape.k or None},
        "min_arch": instruction.target.name,
        "min_ptx": instruction.target.ptx,
        "stated_ptx": instruction.target.stated_for(*instruction.target.options[0]),
    }
    places = [{"operand": o.name, "role": o.role.value, "place": o.place.value} for o in instruction.operands]
    stated = {name: list(values) for name, values in instruction.stated.items()}
    return {**nothing, **known, "operands": places, "stated": stated, "unprobed": instruction.unprobed}


def _selected(fragment: Fragment) -> Json:
    """What an entry of metadata or scales says besides: its documented selectors, and bits of an index field, or what
    each selector picks.
    """
    bits: Json = {"picks": [fragment.picked(s) for s in fragment.selectors]}
    if fragment.role is Role.METADATA:
        bits = {"index_bits": fragment.slot_bits}
    return {"role": fragment.role.value, "selectors": list(fragment.selectors), **bits}


def cell_entry(cell: Cell) -> Json:
    """The object that `show --json` prints: the entry, the table, formulas, provenance and verdicts.

    `table[lane][i]` is [row, col], or None where the slot is unused; of an address `table[lane]` is [[row]], or None
    where it does not count. Of metadata there is an object per `selector`; i counts index fields of `index_bits` bits,
    [row, col] is the stored element of A that one governs, the first of two for 4-bit types, and `table[lane]` is None
    where the lane is not read; `undocumented` is what was found beyond PTX's text (`ask.undocumented`) or None. Where a
    warp holds several products `product[lane][i]` says which. `formula` is C syntax in `lane` and `i`, None where there
    is no closed form; `bases` as `bases` has them. `unread[lane]` lists the i that no measured multiply reads, None
    where no multiply was measured. `source` is "published" or the folder that holds the measurement. A layout that is
    not measured has provenance {"method": None, "arch": ..., "source": ..., "why": ...} and no verdicts; `why` says
    what it would take to measure it.
    """
    table, fragment, measured = cell.table, cell.fragment, cell.measured
    fit = fitted(table)
    products = {"product": by_lane(table, list(table.values["product"]))} if "product" in table.outputs else {}
    stated = {"method": None, "arch": cell.arch, "source": cell.evidence, "why": hindrance(fragment)}
    return {
        **fragment_entry(fragment),
        **({} if cell.selector is None else _selector_json(cell)),
        "arch": cell.arch,
        "source": cell.source,
        "layout_id": table.id,
        "table": _lanes(fragment, table),
        **products,
        "formula": {name: None if formula is None else str(formula) for name, formula in fit.formulas.items()},
        "bases": bases(fit.layout),
        "fit": fit.verdict,
        "numbering": cell.numbering,
        "unread": unread(fragment, measured, cell.layers)[0] if measured else None,
        "same_layout": cell.alike,
        "provenance": provenance(measured) if measured else stated,
        "references": [verdict.to_json() for verdict in verdicts(cell.judged, measured)] if measured else [],
    }


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


def _selector_json(cell: Cell) -> Json:
    """What the object of a selector's table says besides."""
    fragment = cell.fragment
    assert cell.selector is not None
    picked: Json = {"selector": cell.selector, **fragment.picked(cell.selector)}
    if fragment.role is not Role.METADATA:
        return picked
    more = _find_undocumented(cell)
    return {**picked, "undocumented": more.to_json() if more else None}


def _lanes(fragment: Fragment, table: Table) -> list[list[list[int] | None] | None]:
    """What every lane holds; None for a lane whose operand is not looked at."""
    nothing: list[list[int] | None] = [None] * table.elements
    lanes = by_lane(table, [None if cell is None else list(cell[:2]) for cell in table.cells])
    return [None if lane == nothing and fragment.role not in WHOLE else lane for lane in lanes]


def provenance(measured: Measurement) -> Json:
    """How a measurement was obtained."""
    structure = measured.structure
    evidence = {"triples": structure.triples, "structure_sha256": structure.sha256} if structure else {}
    row, device = inventory.instructions().get(measured.experiment), arch.BY_NAME[measured.arch]
    made = {"emulated_by": measured.provenance["compiler"]} if row and emulated(row, device) else {}
    return {
        "method": measured.method,
        "arch": measured.arch,
        "experiment": measured.experiment,
        **measured.provenance,
        **evidence,
        **made,
    }


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
