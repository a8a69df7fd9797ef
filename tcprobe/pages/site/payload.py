"""What the script gets of a fragment: sizes, archs, and each layout as GF(2) bases, from which it builds the map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcprobe.fit import fitted
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.ranges import ranges
from tcprobe.layout.table import Table
from tcprobe.pages.site import words
from tcprobe.pages.site.facts import Fact
from tcprobe.store.cell import Cell
from tcprobe.values import Json

_MADE: dict[str, Json] = {}  # by layout id


def payload(fact: Fact) -> Json:
    """Of a fact: its fragment, its layouts, and for each group of archs that agree their layout and evidence."""
    by_arch = {arch: evidence_on(fact, arch) for arch in fact.cells}
    different = _once(by_arch.values())
    verdict_lists = _once(evidence["verdicts"] for evidence in different)
    return {
        **drawing(fact, {arch: different.index(evidence) for arch, evidence in by_arch.items()}),
        "known": [{**evidence, "verdicts": verdict_lists.index(evidence["verdicts"])} for evidence in different],
        "verdicts": verdict_lists,
    }


def _once(repeated: Iterable[Json]) -> list[Json]:
    """Each value once, in order."""
    unique: list[Json] = []
    for plain in repeated:
        if plain not in unique:
            unique.append(plain)
    return unique


def drawing(fact: Fact, more: Mapping[str, int]) -> Json:
    """What the script draws of a fact: sizes, layouts, and for each group of archs that agree layout and `more`."""
    numbers = {id_: number for number, id_ in enumerate(fact.tables)}
    alike: dict[tuple[int, int], list[str]] = {}
    for arch, cell in fact.cells.items():
        alike.setdefault((numbers[cell.table.id], more[arch]), []).append(arch)
    picks = [words.selector_words(fact.fragment, selector) for selector in fact.fragment.selectors]
    return {
        **sizes(fact.fragment),
        "main": fact.main.arch,
        "archs": {" ".join(archs): pair for pair, archs in alike.items()},
        "layouts": [bare(table) for table in fact.tables.values()],
        **({"sizes": [of_size(cell) for cell in fact.sizes]} if fact.grows else {}),
        **({"picks": picks} if picks else {}),
    }


def evidence_on(fact: Fact, arch: str) -> Json:
    """What the table of an arch rests on: evidence, numbering, what references say, how to obtain it again."""
    cell = fact.cells[arch]
    verdicts = [[v.reference, v.verdict, v.detail, v.erratum or ""] for v in fact.verdicts(arch)]
    again = words.command(cell).replace(arch, "{arch}")
    return {
        "measured": cell.measured is not None,
        "evidence": words.evidence(cell),
        "verdicts": verdicts,
        "numbering": words.numbering(cell),
        "made": words.provenance(cell),
        "command": again,
    }


def of_size(cell: Cell) -> tuple[int, int, int, str]:
    """What depends on N: it, columns, elements of a thread, the layout's id."""
    return cell.fragment.shape.n, cell.fragment.cols, cell.fragment.elements, cell.table.id


def sizes(fragment: Fragment) -> Json:
    """What the script must know of a fragment to draw it."""
    return {
        "name": fragment.operand.upper() if len(fragment.operand) == 1 else fragment.operand,
        "rows": fragment.rows,
        "cols": fragment.cols,
        "threads": fragment.threads,
        "elements": fragment.elements,
        "bits": fragment.slot_bits,
        "register": fragment.register_bits,
    }


def bare(table: Table) -> Json:
    """A layout without its formulas, which the page has, and without what is empty."""
    return {name: value for name, value in layout(table).items() if name != "formula" and value != []}


def with_formula(table: Table) -> Json:
    """The same with its formulas."""
    return {name: value for name, value in layout(table).items() if value != []}


def layout(table: Table) -> Json:
    """As `_layout`, each once."""
    if table.id not in _MADE:
        _MADE[table.id] = _layout(table)
    return _MADE[table.id]


def _layout(table: Table) -> Json:
    """A table: inputs, outputs, the image of each bit of each input, and what is unused; values where not linear."""
    fit = fitted(table)
    data: Json = {
        "id": table.id,
        "in": [[axis.name, axis.size] for axis in table.space.axes],
        "out": list(table.outputs),
    }
    data["formula"] = {name: str(formula) if formula else None for name, formula in fit.formulas.items()}
    if fit.layout is None:
        return data | {"values": [list(table.values[name]) for name in table.outputs]}
    bases = {
        name: [[image[out] for out in table.outputs] for image in images] for name, images in fit.layout.bases.items()
    }
    unused = [number for number, cell in enumerate(table.cells) if cell is None]
    return data | {
        "bases": bases,
        "zero": [fit.layout.origin[out] for out in table.outputs],
        "unused": [[first, last - first + 1] for first, last in ranges(unused)],
    }
