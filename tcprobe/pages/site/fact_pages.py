"""The page of a fragment: archs, formula, the map both ways, code to copy, references, provenance; that of a layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby

from tcprobe.ask.describe import indices
from tcprobe.code.names import identifier
from tcprobe.emit import cute, cute_dsl, ptx, tilelang, triton
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.fit import fitted
from tcprobe.fit.formula import in_manual
from tcprobe.fit.linear import cached_inverse
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import WHOLE, Role
from tcprobe.layout.grid import Block, blocks
from tcprobe.layout.table import Table
from tcprobe.pages.site import addresses, markup, words
from tcprobe.pages.site.data_files import payload, picture_of
from tcprobe.pages.site.facts import Fact, Facts, for_every_n
from tcprobe.pages.site.markup import LinkList, View
from tcprobe.pages.tables import spans
from tcprobe.store.cell import Cell
from tcprobe.values import Json

_DRAWN: dict[tuple[object, ...], list[Json]] = {}
WHAT = {
    Role.FACTOR: "Factor",
    Role.ACCUMULATOR: "Accumulator",
    Role.RESULT: "Result",
    Role.SOURCE: "Source",
    Role.METADATA: "Metadata",
    Role.SCALE: "Scales",
    Role.ADDRESS: "Row addresses",
}


def fact_page(facts: Facts, fact: Fact) -> View:
    """The page of a fragment."""
    fragment, main = fact.fragment, fact.main
    emulated = {
        arch: f"The tensor cores of {arch} do not have this type: {machine_code}."
        for arch in fact.cells
        if (machine_code := facts.emulation(fragment, arch))
    }
    data = {"kind": "fact", **payload(fact), "emulated": emulated, "page": data_page(fact)}
    what = f"{WHAT.get(fragment.role, fragment.role.value)} {words.name(fragment)}"
    context = {
        "id": fact.id,
        "fragment": fragment,
        "every_n": _every_n(fact),
        "grows": fact.grows,
        "first": fact.each[0].table.id,
        "what": what + (f".{fragment.layout}" if fragment.layout else ""),
        "instruction": for_every_n(fragment.instruction, fragment.shape) if fact.sizes else fragment.instruction,
        "size": words.size(fragment, fact.grows),
        "name": words.name(fragment),
        "axis": words.axis(fragment),
        "strip": list(_strip(fact)),
        "main": main.arch,
        "evidence": words.evidence(main),
        "formula": words.formula(main.table),
        "numbering": words.numbering(main),
        "emulated": emulated.get(main.arch, ""),
        "layouts": [_layout(fact, table) for table in fact.tables.values()],
        "blocks": tables(fact.each[0]),
        "verdicts": fact.verdicts(main.arch),
        "provenance": words.provenance(main),
        "command": words.command(main),
        "measured": main.measured is not None,
        "absent": _absent(fact),
        "picks": [words.selector_words(fragment, selector) for selector in fragment.selectors],
        "users": users(fact),
        "data_page": data_page(fact),
        "arch_page": addresses.arch(main.arch),
        "data": markup.data(data),
    }
    return View(addresses.fact(fact.id), "fact", fact.id, "", context)


def tables(cell: Cell) -> list[Json]:
    """The blocks of a cell as tables, made once for each layout in elements of some width: many fragments share few."""
    operand = cell.fragment
    key = (cell.table.id, operand.slot_bits, operand.register_bits, operand.rows, operand.cols)
    if key not in _DRAWN:
        _DRAWN[key] = [_block_tables(block, cell.fragment) for block in blocks(cell.table, cell.fragment)]
    return _DRAWN[key]


def _block_tables(
    block: Block, fragment: Fragment, matrix_most: int = markup.MOST_MATRIX, most: int = markup.MOST_REGISTERS
) -> Json:
    """A block as tables of so many characters at most, and whether that is all of it."""
    matrix, registers = markup.matrix(block, matrix_most), markup.registers(block, fragment, most)
    holding = len({thread for thread, _ in block.slots})
    return {
        "title": block.title,
        "matrix": matrix.markup,
        "lanes": registers.markup,
        "whole": matrix.rows == len(block.pieces) and registers.rows == holding,
    }


def users(fact: Fact) -> list[tuple[str, str]]:
    """(id, page) of the instructions that take the fragment."""
    shape = fact.fragment.shape
    names = [for_every_n(id_, shape) if fact.sizes else id_ for id_ in inventory.user_ids(fact.fragment.id)]
    return [(name, addresses.instruction(name)) for name in names]


def _every_n(fact: Fact) -> str:
    """What of a fact for every N depends on it."""
    if not fact.sizes:
        return ""
    ns = [cell.fragment.shape.n for cell in fact.sizes]
    which = f"{len(ns)} N from {ns[0]} to {ns[-1]}"
    grown = f"The same formula for {which}: each has the first of these columns. Code is that of N = {ns[-1]}."
    return grown if fact.grows else f"The same table for {which}."


def data_page(fact: Fact) -> str:
    """Where the data of a fact is; of one for every N among all data."""
    return "json/all.json" if fact.sizes else addresses.data(fact.id)


def _strip(fact: Fact) -> Iterator[Json]:
    """All archs; neighbours share an entry if they have one table on the same evidence, or none for the same reason."""
    keys = {  # kind, words, layout id
        row.name: (fact.kind(row.name), words.badge(fact, row.name), fact.cells[row.name].table.id)
        if row.name in fact.cells
        else _without_table(fact, row.name)
        for row in ARCHS
    }
    for (kind, short, table), group in groupby(keys, key=keys.__getitem__):
        names = list(group)
        yield {
            "kind": kind,
            "short": short,
            "other": table not in ("", fact.main.table.id),
            "there": names if table else [],
            "lack": spans(names),
        }


def _without_table(fact: Fact, name: str) -> tuple[str, str, str]:
    """(kind, words, nothing) of an arch without a table; why one that could have it has none stands below."""
    kind = fact.kind(name)
    why = words.why_absent(fact, name).removeprefix("does not have it") if kind == "absent" else ""
    return kind, words.SHORT[kind] + why, ""


def _absent(fact: Fact) -> list[tuple[str, str]]:
    """(archs, why they have no table) of those that could have one."""
    by_reason: dict[str, list[str]] = {}
    for row in ARCHS:
        if fact.kind(row.name) == "unknown":
            by_reason.setdefault(words.why_absent(fact, row.name), []).append(row.name)
    return [(spans(archs), why) for why, archs in by_reason.items()]


def _layout(fact: Fact, table: Table) -> Json:
    cells = {name: cell for name, cell in fact.cells.items() if cell.table == table}
    cell = fact.main if table == fact.main.table else next(iter(cells.values()))
    counts = sorted(table.copies) if fact.fragment.role in WHOLE else [1]
    verdict, used = fitted(table).verdict, sum(slot is not None for slot in table.cells)
    lines = [f"{verdict[:1].upper()}{verdict[1:]}, proven over all {used} slots that hold anything."]
    lines += [] if counts == [1] else [f"Each element has {' or '.join(map(str, counts))} holders."]
    lines += [f"{indices(fact.fragment)}."] if fact.fragment.role is Role.METADATA else []
    return {
        "id": table.id,
        "page": addresses.layout(table.id),
        "on": cell.arch,
        "notes": [*lines, *filter(None, [in_manual(fitted(table).formulas.values())])],
        "name": words.layout_name(fact.fragment, fact.shape),
        "archs": spans(list(cells)) if len(fact.tables) > 1 else "",
        "formula": "" if cell is fact.main else words.formula(table),
        "picture": picture_of(cell),
        "code": tabs(cell),
    }


MOST_REGISTERS = 16  # that are written one by one


def tabs(cell: Cell) -> list[tuple[str, str]]:
    """(language, code to copy) of a table; what a format cannot say has no tab, operands with unused slots none."""
    if cell.fragment.role not in WHOLE or None in cell.table.cells:
        return []
    texts = {name: answer_or_none(partial(write, cell)) for name, write in WRITERS.items()}
    return [(name, text) for name, text in texts.items() if text is not None]


def _cuda_tab(cell: Cell) -> str:
    """Constexpr functions of the formulas, and of their inverse where it is linear."""
    forward = {name: formula for name, formula in fitted(cell.table).formulas.items() if formula}
    back = cached_inverse(cell.table) or {}
    lines = [
        f"// {cell.fragment.id} on {cell.arch}, layout {cell.table.id}",
        f"namespace {identifier(cell.fragment.id)} {{",
    ]
    copy = ["copy"] if max(cell.table.copies) > 1 else []
    arguments = (cell.table.space.names, [*cell.table.outputs, *copy])
    for way in (forward, back):
        for name, formula in way.items():
            parameters = ", ".join(f"int {n}" for n in arguments[way is back])
            function = f"{name if way is forward else name + '_of'}({parameters})"
            lines.append(f"__host__ __device__ constexpr int {function} {{\n  return {formula};\n}}")
    return "\n".join([*lines, "}"])


def _cute_tab(cell: Cell) -> str:
    shape, stride = cute.thread_value(cell)
    written = cute.layout_code(cell).replace("cute::", "")
    return f"// {cute.mode_text(shape)}:{cute.mode_text(stride)}\nusing namespace cute;\n{written}"


def _ptx_tab(cell: Cell) -> str:
    if cell.fragment.registers > MOST_REGISTERS:
        raise UsageError(f"{cell.fragment.id} has {cell.fragment.registers} registers.")
    return ptx.declaration(cell)


WRITERS: dict[str, Callable[[Cell], str]] = {
    "CUDA": _cuda_tab,
    "CuTe C++": _cute_tab,
    "CuTe DSL": cute_dsl.layout_code,
    "Triton": triton.layout_code,
    "tilelang": tilelang.layout_code,
    "PTX": _ptx_tab,
}


MOST_LINKS = 300  # of fragments; of more their instructions are linked
MOST_OF_LAYOUT = 12_500, 9_000  # characters of a matrix, of a table of registers; pages of fragments have more


def layout_page(facts: Facts, id_: str) -> View:
    """The page of a layout: who has it, where, and the map itself."""
    table = facts.tables[id_]
    sharing, fragment = facts.sharing[id_], facts.sharing[id_][0][1].fragment
    by_archs: dict[str, dict[str, LinkList]] = {}
    for fact, cell, archs in sharing:
        prefix, _, last = (cell.fragment.id if fact.grows else fact.id).rpartition(".")
        page = addresses.fact(fact.id) + (f"?n={cell.fragment.shape.n}" if fact.grows else "")
        by_archs.setdefault(spans(archs), {}).setdefault(prefix, []).append((last, page))
    context = {
        "many": len(sharing) > MOST_LINKS,
        "id": id_,
        "formula": words.formula(table),
        "manual": in_manual(fitted(table).formulas.values()),
        "held": [
            (
                archs,
                [
                    (prefix, addresses.instruction(prefix) if prefix in facts.instructions else "", links)
                    for prefix, links in by_prefix.items()
                ],
            )
            for archs, by_prefix in by_archs.items()
        ],
        "size": " x ".join(f"{axis.size} {axis.name}" for axis in table.space.axes) + f" → {', '.join(table.outputs)}",
        "blocks": [_block_tables(block, fragment, *MOST_OF_LAYOUT) for block in blocks(table, fragment)],
    }
    return View(addresses.layout(id_), "layout", f"Layout {id_}", "", context)
