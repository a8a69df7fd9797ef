"""What scripts and other programs read, and what is drawn without a page.

The data of every fragment, of all together, and their schema; what the page of a fragment gives its script; the table
of words for the search box, where `subjects.csv` has what people say of a page beyond its title and headings;
thumbnails of layouts; and which tables have a picture.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from html import unescape
from importlib.resources import files
from typing import Any

from tcprobe import __version__
from tcprobe.ask import matrix_picture, shared_operand
from tcprobe.ask.describe import cell_entry
from tcprobe.ask.entry import form_entry, fragment_entry, shared_entry
from tcprobe.ask.matrix_picture import DARK, LIGHT, colour
from tcprobe.ask.tensor_memory import OperandVariant, operands, placement
from tcprobe.errors import answer_or_none
from tcprobe.fit import fitted
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, gpus
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.names.words import APART, MEANT, NOISE, STEMS
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.layout.grid import WIDE
from tcprobe.layout.table import Table, ranges
from tcprobe.pages.site import addresses, markup, words
from tcprobe.pages.site.facts import Fact, Facts, is_allowed
from tcprobe.question import answers
from tcprobe.sass.lowering import Lowering
from tcprobe.store.cell import Cell
from tcprobe.values import Json

WITH_DATA = (8, 24)  # N of which data were published before there was a page for every N
NUMBERS = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def fragment_files(fact: Fact) -> Iterator[tuple[str, str]]:
    """By address the object of `show --json` with the address of its page; of a fact for every N those of few N."""
    for cell in fact.each:
        if not fact.sizes or cell.fragment.shape.n in WITH_DATA:
            id_ = cell.fragment.id
            yield addresses.data(id_), _json({**cell_entry(cell), "page": addresses.fact(id_)})


def everything(facts: Facts) -> str:
    """Every id that `list` has, in its order, with its archs; each layout once, as bases."""
    fragments = [_in_registers(facts, fragment) for fragment in inventory.fragments().values()]
    rows, cases = inventory.instructions().values(), dict[tuple[str, str, int], Json | None]()
    shared = [
        {**answers.plain(shared_entry(each)), **_behind(facts, each, cases)} for row in rows for each in row.described
    ]
    forms = [
        {
            **answers.plain(form_entry(row)),
            **_elsewhere(facts, row, {name: _in_tensor_memory(facts, row, name) for name in facts.archs}),
        }
        for row in rows
        if not row.fragments
    ]
    return _json(
        {
            "schema": 1,
            "tcprobe": __version__,
            "archs": facts.archs,
            "fragments": [*fragments, *shared, *forms],
            "layouts": {id_: layout(table) for id_, table in facts.tables.items()},
        }
    )


def _in_registers(facts: Facts, fragment: Fragment) -> Json:
    """A fragment; the largest N of a fact for every N says also what depends on N, instead of data of its own."""
    fact = facts.by_fragment.get(fragment.id)
    if fact is None:
        # A fragment without any table
        on = [name for name in facts.archs if is_allowed(fragment.target, name)]
        archs = {name: {"layout": None, "evidence": "unknown"} for name in on}
        there = addresses.fact(fragment.id) if fragment in facts.without_source else None
        return {**answers.plain(fragment_entry(fragment)), "page": there, "json": None, "archs": archs}
    largest = fragment.id == fact.fragment.id
    # those that have the fragment, with the layout of its own N
    own = {cell.fragment.id: cell.table.id for cell in fact.sizes}.get(fragment.id)
    entry = {
        **answers.plain(fragment_entry(fragment)),
        "page": fact_address(fact, fragment),
        "json": None if fact.sizes else addresses.data(fact.id),
        "archs": {
            arch: {"layout": (own or fact.cells[arch].table.id) if arch in fact.cells else None, "evidence": kind}
            for arch in facts.archs
            if (kind := fact.kind(arch)) != "absent"
        },
    }
    sizes = [of_size(cell) for cell in fact.sizes] if largest else []
    return entry | ({"sizes": sizes} if sizes else {})


def fact_address(fact: Fact, fragment: Fragment) -> str:
    """Where a fragment is shown: of one of many N the page of all of them, and which of them."""
    query = f"?n={fragment.shape.n}" if fact.grows and fragment.id != fact.fragment.id else ""
    return addresses.fact(fact.id) + query


def _behind(facts: Facts, operand: SharedOperand, cases: dict[tuple[str, str, int], Json | None]) -> Json:
    """An operand in shared memory, with the evidence of what `show` prints of it: K-major, without a swizzle.

    `cases` keeps what was read: of a family, operands of one name and width share it.
    """
    key = operand.instruction.family, operand.held.name, operand.held.slot_bits
    if key not in cases:
        cases[key] = shared_operand.evidence(operand, "k", 0, facts.layers)[0]
    case = cases[key]
    return _elsewhere(facts, operand.instruction, {shared_operand.ARCH: case["method"] if case else "documented"})


def _in_tensor_memory(facts: Facts, form: Instruction, arch: str) -> str:
    """The evidence of what `show` prints of a form's operands in tensor memory: the least of them; unknown of none."""
    variant = OperandVariant(layers=facts.layers, name=arch)
    found = [answer_or_none(partial(placement, each, variant)) for each in operands(form)]
    stated = {one.status for one in found if one}
    return "documented" if "documented" in stated else "live" if stated else "unknown"


def _elsewhere(facts: Facts, instruction: Instruction, evidence: Mapping[str, str]) -> Json:
    """What is in no register: the page of its instruction, and the archs that have it, with their `evidence`."""
    on = [name for name in facts.archs if is_allowed(instruction.target, name)]
    archs = {name: {"layout": None, "evidence": evidence.get(name, "unknown")} for name in on}
    name = facts.page_names.get(instruction.id) or (instruction.id if instruction.id in facts.bare else None)
    return {"page": addresses.instruction(name) if name else None, "json": None, "archs": archs}


def names(facts: Facts) -> str:
    """A script that names all fragments in order, those that share all but the last part together."""
    by_prefix: list[list[str]] = []
    for id_ in facts.facts:
        prefix, _, last = id_.rpartition(".")
        if by_prefix and by_prefix[-1][0] == prefix:
            by_prefix[-1][1] += f" {last}"
        else:
            by_prefix.append([prefix, last])
    return f"globalThis.tcprobeNames={markup.plain(by_prefix)};\n"


def schema() -> str:
    """JSON Schema of the data of a fragment."""
    needed = {
        **dict.fromkeys(("id", "family", "instruction", "operand", "type", "arch", "source"), TEXT),
        **dict.fromkeys(("threads", "elements", "rows", "cols", "registers", "register_bits", "slot_bits"), NUMBERS),
        **dict.fromkeys(("products", "copies"), NUMBERS),
        "layout": {"enum": ["row", "col", None]},
        "layout_id": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
        "page": {"type": "string", "pattern": r"^f/[^/]+\.html$"},
        "table": {"type": "array", "description": "table[lane][i] is [row, col], null where the slot is unused"},
        "formula": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "fit": {"enum": ["linear", "boolean", "no closed form"]},
        "numbering": TEXT,
        "provenance": {"type": "object", "required": ["method", "arch"]},
        "references": {"type": "array", "items": {"type": "object", "required": ["name", "verdict", "detail"]}},
        "same_layout": {"type": "array", "items": TEXT},
    }
    return _json(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "tcprobe fragment",
            "type": "object",
            "required": list(needed),
            "properties": needed,
        }
    )


def _json(value: object) -> str:
    return markup.plain(value) + "\n"


_LAYOUTS: dict[str, Json] = {}  # by layout id


def payload(fact: Fact) -> Json:
    """Of a fact: its fragment, its layouts, and for each group of archs that agree their layout and evidence."""
    by_arch = {arch: evidence_on(fact, arch) for arch in fact.cells}
    different = _distinct(by_arch.values())
    verdict_lists = _distinct(evidence["verdicts"] for evidence in different)
    return {
        **drawing(fact, {arch: different.index(evidence) for arch, evidence in by_arch.items()}),
        "known": [{**evidence, "verdicts": verdict_lists.index(evidence["verdicts"])} for evidence in different],
        "verdicts": verdict_lists,
    }


def _distinct(repeated: Iterable[Json]) -> list[Json]:
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
    return {
        "measured": cell.measured is not None,
        "evidence": words.evidence(cell),
        "verdicts": verdicts,
        "numbering": words.numbering(cell),
        "made": words.provenance(cell),
        "command": words.command(cell).replace(arch, "{arch}"),
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
    """A table: inputs, outputs, the image of each bit of each input, and what is unused; values where not linear."""
    if table.id not in _LAYOUTS:
        _LAYOUTS[table.id] = _layout(table)
    return _LAYOUTS[table.id]


def _layout(table: Table) -> Json:
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


MOST_FORMS = 4  # of an opcode
ALIKE = ("a/", "g/", "c/", "recipes/", "path/")  # pages whose headings say what those of many others say
_HEAD = re.compile(r'<h[23] id="([^"]+)"[^>]*>(.*?)</h[23]>', re.DOTALL)
_TITLE = re.compile(r"<title>(.*?) · tcprobe</title>")
_TAG = re.compile(r"<[^>]*>")


def search_table(facts: Facts, pages: Mapping[str, str]) -> Json:
    """Ids with the number of their layout, words, GPUs, opcodes, and all other pages.

    Of pages of instructions those are named that are not what ids of fragments have in common.
    """
    ordinal = {id_: number for number, id_ in enumerate(facts.tables)}
    prefixes = {id_.rpartition(".")[0] for id_ in facts.facts}
    gpus_by_arch = []  # what they are called, and a pattern of all names
    for arch in ARCHS:
        rows = [row for row in gpus() if row.arch == arch.number]
        shown = ", ".join(row.shown for row in rows if row.shown)
        gpus_by_arch.append([arch.name, shown, "|".join(row.pattern for row in rows)])
    return {
        "schema": 1,
        "stems": sorted(STEMS),
        "meant": MEANT,
        "noise": sorted(NOISE),
        "apart": {part: sorted(also) for part, also in APART.items()},
        "gpus": gpus_by_arch,
        "ids": _ids(facts, ordinal),
        "instructions": [*(name for name in facts.instructions if name not in prefixes), *facts.bare],
        "opcodes": _opcodes(facts),
        "others": {  # by id the archs on which its layout is another one than the main one's
            fact.id: {arch: ordinal[c.table.id] for arch, c in fact.cells.items() if c.table != fact.main.table}
            for fact in facts.facts.values()
            if len(fact.tables) > 1
        },
        "layouts": [with_formula(layout) for layout in facts.tables.values()],
        "archs": facts.archs,
        "modes": {bits: width for width, bits in SWIZZLES.items()},
        "pages": list(_pages(facts, pages)),
    }


def search_files(facts: Facts, pages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The table for programs, and the same as a script, for pages that are opened as files."""
    text = markup.plain(search_table(facts, pages))
    yield "search.json", text + "\n"
    yield "words.js", f"globalThis.tcprobeWords={text};\n"


def _ids(facts: Facts, ordinal: Mapping[str, int]) -> list[list[Any]]:
    """[what ids have in common, their last parts, the number of the layout of each, archs with a table, main arch].

    Archs are bits in the order of `archs`; the main one is its number there.
    """
    runs: list[list[Any]] = []
    for id_, fact in facts.facts.items():
        prefix, _, last = id_.rpartition(".")
        number, on = ordinal[fact.main.table.id], sum(1 << facts.archs.index(arch) for arch in fact.cells)
        archs_and_main = [on, facts.archs.index(fact.main.arch)]
        if runs and runs[-1][0] == prefix and runs[-1][3:] == archs_and_main:
            runs[-1][1] += f" {last}"
            runs[-1][2].append(number)
        else:
            runs.append([prefix, last, [number], *archs_and_main])
    return runs


def _opcodes(facts: Facts) -> dict[str, list[str]]:
    """By opcode the forms that become it natively; those of a warpgroup tell their form themselves."""
    rows, forms = inventory.instructions(), dict[str, dict[str, None]]()
    for bodies in facts.lowerings.values():
        for body in bodies:
            for id_, plain in body["instructions"].items():
                low = Lowering(**plain)
                if id_ in facts.page_names and not rows[id_].described and not low.refused and low.native(rows[id_]):
                    for opcode in low.opcodes:
                        forms.setdefault(opcode, {})[id_] = None
    return {opcode: [*ids][:MOST_FORMS] for opcode, ids in sorted(forms.items())}


def _pages(facts: Facts, pages: Mapping[str, str]) -> Iterator[list[str]]:
    """[title, address, further words] of every page that is none of a fragment or an instruction, and its headings."""
    lines = (files("tcprobe.pages.site") / "subjects.csv").read_text("utf-8").splitlines()
    subjects = {
        row["page"]: row["words"] for row in csv.DictReader(lines)
    }  # what people say of a page, or of a heading
    for id_ in facts.tables:
        _, cell, _ = facts.sharing[id_][0]
        yield [f"layout {id_}: {words.layout_name(cell.fragment)}", addresses.layout(id_), ""]
    for address, text in pages.items():
        if address.startswith(("f/", "m/", "l/")) or not address.endswith(".html"):
            continue
        title = _TITLE.search(text)
        page_title = unescape(title[1]) if title else address
        name = address.removeprefix("a/").removesuffix(".html")
        generation = arch_row(name).generation.lower() if address.startswith("a/") else ""
        yield [page_title, address, subjects.get(address, "") or generation]
        for anchor, head in _HEAD.findall(text) if not address.startswith(ALIKE) else ():
            anchor_address = f"{address}#{anchor}"
            yield [f"{page_title}: {unescape(_TAG.sub('', head))}", anchor_address, subjects.get(anchor_address, "")]


SIDE = 32  # rows and columns that are drawn at most
PIXELS = 48  # of the longer side


def thumbnail_files(facts: Facts) -> Iterator[tuple[str, str]]:
    """Address and text of each layout's."""
    for id_, table in facts.tables.items():
        yield addresses.thumbnail(id_), thumbnail(table)


def thumbnail(table: Table) -> str:
    """An SVG of the upper left corner of the first matrix: a path for each colour, of runs of elements in a row."""
    holder = _holders(table)
    rows, cols = (min(SIDE, 1 + max(element[axis] for element in holder)) for axis in (0, 1))
    paths: dict[int, list[str]] = {}
    for row in range(rows):
        holders = [holder.get((row, col)) for col in range(cols)]
        for col, count, number in _runs([-1 if thread is None else colour(thread) for thread in holders]):
            paths.setdefault(number, []).append(f"M{col} {row}h{count}")
    parts = "".join(f'<path class="c{number}" d="{"".join(runs)}"/>' for number, runs in sorted(paths.items()))
    scale = PIXELS / max(rows, cols)
    size = f'viewBox="0 0 {cols} {rows}" width="{cols * scale:g}" height="{rows * scale:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} shape-rendering="crispEdges">'
    light, dark = ("".join(f".c{n}{{stroke:{ink}}}" for n, ink in enumerate(inks)) for inks in (LIGHT, DARK))
    style = f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
    return f'{head}<style>{style}</style><g transform="translate(0 .5)">{parts}</g></svg>\n'


def _holders(table: Table) -> dict[tuple[int, int], int]:
    """The first thread that holds each element, of the first product or selector."""
    *_, thread, i = table.space.axes
    row, col, which = (table.outputs.index(name) if name in table.outputs else -1 for name in ("row", "col", "product"))
    holder: dict[tuple[int, int], int] = {}
    for number, cell in enumerate(table.cells[: thread.size * i.size]):
        if cell is not None and not (which >= 0 and cell[which]):
            holder.setdefault((cell[row], cell[col] if col >= 0 else 0), number // i.size)
    return holder


def _runs(colours: list[int]) -> Iterator[tuple[int, int, int]]:
    """(first, how many, colour) of neighbours of one colour; what nobody holds is left out."""
    first = 0
    for end in range(1, len(colours) + 1):
        if end == len(colours) or colours[end] != colours[first]:
            if colours[first] >= 0:
                yield first, end - first, colours[first]
            first = end


MOST_PICTURE = 520  # cells; `tcprobe emit --to svg` draws larger ones
_PICTURED: dict[str, int] = {}  # of a picture, by address


def picture_of(cell: Cell) -> str:
    """The picture of a table; empty where it is too large for a page."""
    address = addresses.picture(cell.table.id, cell.fragment.slot_bits)
    if address not in _PICTURED:
        _PICTURED[address] = matrix_picture.pieces(cell) if cell.table.points <= MOST_PICTURE * WIDE else 0
    return address if 0 < _PICTURED[address] <= MOST_PICTURE else ""
