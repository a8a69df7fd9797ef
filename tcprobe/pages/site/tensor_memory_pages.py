"""Pages of tensor memory and of what has no table.

Pictures of its 128 lanes of 512 columns show where tcgen05's multiplies keep operands, as documented. Instructions
without registers and fragments that no source describes have a page each that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from tcprobe.ask.absent import reason
from tcprobe.ask.tensor_memory import OperandVariant, Placement, extent, operands, placement
from tcprobe.errors import answer_or_none
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.pages.site import addresses, words
from tcprobe.pages.site.data_files import picture_of
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.markup import Links, ListPart, View, cells, filled, list_page
from tcprobe.pages.tables import spans
from tcprobe.references.tensor_memory import LANES
from tcprobe.store.choose import Layers
from tcprobe.values import Json

COLUMNS = 512
X, Y = 2, 2  # pixels of a column and of a lane
GAP = 24  # pixels between two CTAs
# the forms that are drawn, and how many scales a row has there
FORMS = (
    *((f"tcgen05.mma.cta_group::{group}.kind::f16", 0) for group in (1, 2)),
    ("tcgen05.mma.ws.cta_group::1.kind::f16", 0),
    ("tcgen05.mma.sp.cta_group::1.kind::f16", 0),
    ("tcgen05.mma.cta_group::1.kind::mxf8f6f4", 1),
    ("tcgen05.mma.cta_group::1.kind::mxf4nvf4", 4),
)
MOST_N = 128  # columns of D, so that all operands stand side by side


class Region(NamedTuple):
    """Adjacent lanes of one CTA that hold adjacent lines, over columns that count from the operand's first.

    A line is a row, of scales of B a column; `row` is the first.
    """

    cta: int
    lane: int
    lanes: int
    column: int
    columns: int
    row: int


def figures(facts: Facts) -> Iterator[Json]:
    """A picture for each form and M."""
    for id_, vector in FORMS:
        form = inventory.instructions()[id_]
        if id_ in facts.bare:
            yield from (_figure(form, int(m), vector, facts.layers) for m in form.stated["m_values"])


def _figure(instruction: Instruction, m: int, vector: int, layers: Layers) -> Json:
    n = max(n for n in map(int, instruction.stated["n_values"]) if n <= MOST_N)
    drawn, start = list[Json](), 0
    ctas = 1
    for operand in operands(instruction):
        variant = OperandVariant(m, n, 0, vector if operand.name.startswith("scale") else 0, layers=layers)
        has_m = answer_or_none(partial(extent, operand.form, "m", m)) is not None
        placed = answer_or_none(partial(placement, operand, variant)) if has_m else None
        if placed is None:  # nobody states it for this M and N
            continue
        regions = list(_regions(placed))
        width = 1 + max(region.column + region.columns - 1 for region in regions)
        ctas = max(ctas, 1 + max(region.cta for region in regions))
        drawn += [_rectangle(operand.name, region, start) for region in regions]
        drawn[-1]["key"] = (
            f"{words.name_of(operand.name)}: columns {start} to {start + width - 1}, {_placement_text(placed)}"
        )
        start += -(-width // 4) * 4
    high = ctas * LANES * Y + (ctas - 1) * GAP
    return {
        "head": f"{instruction.id.removeprefix('tcgen05.')}, M {m}, N {n}",
        "anchor": addresses.slug(f"{instruction.id} m{m}"),
        "page": addresses.instruction(instruction.id),
        "instruction": instruction.id,
        "width": COLUMNS * X,
        "height": high,
        "rects": drawn,
        "legend": [region["key"] for region in drawn if "key" in region],
        "warps": [(cta * (LANES * Y + GAP) + warp * 32 * Y, cta, warp) for cta in range(ctas) for warp in range(4)],
        "command": f"tcprobe show {instruction.id} --m {m} --n {n}",
    }


def _placement_text(placement: Placement) -> str:
    statement = placement.statement
    times = f", each held {placement.copies} times" if placement.copies > 1 else ""
    letter = f", layout {placement.letter}" if placement.letter and placement.operand.name == "d" else ""
    return f"{statement.rows} x {statement.cols} of {statement.bits} bits{letter}{times}; {statement.source}"


def _regions(placement: Placement) -> Iterator[Region]:
    """The operand's cells as few rectangles: lanes whose lines follow each other over the same columns."""
    statement, across = placement.statement, placement.operand.name == "scale_b"
    lines_by_lane: dict[tuple[int, int], dict[int, int]] = {}
    for row, col in product(range(statement.rows), range(statement.cols)):
        line = col if across else row
        for place in placement.places(row, col):
            lines = lines_by_lane.setdefault((place.cta, place.lane), {})
            lines[place.column] = min(line, lines.get(place.column, line))
    runs = sorted(run for (cta, lane), lines in lines_by_lane.items() for run in _runs(cta, lane, lines))
    region: Region | None = None
    for cta, column, columns, lane, line in runs:
        like = region and (region.cta, region.column, region.columns) == (cta, column, columns)
        if region and like and (region.lane + region.lanes, region.row + region.lanes) == (lane, line):
            region = region._replace(lanes=region.lanes + 1)
            continue
        if region:
            yield region
        region = Region(cta, lane, 1, column, columns, line)
    if region:
        yield region


def _runs(cta: int, lane: int, line_of: Mapping[int, int]) -> Iterator[tuple[int, int, int, int, int]]:
    """(cta, first column, columns, lane, line) of the columns next to each other of a lane that have one line."""
    runs: list[list[int]] = []
    for column, line in sorted(line_of.items()):
        if runs and runs[-1][1:] == [column - runs[-1][0], line]:
            runs[-1][1] += 1
        else:
            runs.append([column, 1, line])
    for first, count, line in runs:
        yield cta, first, count, lane, line


def _rectangle(name: str, region: Region, start: int) -> Json:
    """A rectangle: where, its colour by the first row, and what it holds."""
    axis = "column" if name == "scale_b" else "row"
    rows = f"{axis}s {region.row} to {region.row + region.lanes - 1}" if region.lanes > 1 else f"{axis} {region.row}"
    first = start + region.column
    return {
        "x": first * X,
        "y": region.cta * (LANES * Y + GAP) + region.lane * Y,
        "w": region.columns * X,
        "h": region.lanes * Y,
        "of": f"c{region.row // 16 % 8}",
        "text": f"{words.name_of(name)}: {rows}" if region.columns * X >= 100 and region.lanes >= 8 else "",
        "said": f"{words.name_of(name)}: {rows}; cta {region.cta}, "
        f"lanes {region.lane} to {region.lane + region.lanes - 1}, "
        f"columns {first} to {first + region.columns - 1}",
    }


def load_rows(facts: Facts) -> list[Sequence[Links]]:
    """A row for each shape of tcgen05.ld: what a warp's load takes, its registers and formula, its picture."""
    rows = list[Sequence[Links]]()
    for fact in facts.facts.values():
        fragment = fact.fragment
        if not (fragment.id.startswith("tcgen05.ld.") and fragment.operand == "d"):
            continue
        drawn = picture_of(fact.main)
        size = f"{fragment.rows} lanes x {fragment.cols} column{'s' * (fragment.cols > 1)}"
        formula = words.formula(fact.main.table).replace("\n", "; ")
        picture = [("picture", drawn)] if drawn else [("-", "")]
        rows.append([[(fragment.id, addresses.fact(fact.id))], *cells(size, fragment.registers, formula), picture])
    return rows


OPERAND_HEADS = ["Operand", "Role", "Where", "At most", "Type"]


def bare_pages(facts: Facts) -> Iterator[View]:
    """A page each, and the page that leads to them."""
    if facts.bare or facts.without_source:
        yield _tensor_memory_page(facts)
    yield from (_bare_page(facts, row) for row in facts.bare.values())
    yield from (_untold_page(facts, fragment) for fragment in facts.without_source)


def _tensor_memory_page(facts: Facts) -> View:
    heads = ["Load", "A warp takes", "Registers", "Formula", "Drawn"]
    shapes = load_rows(facts)
    bare, unknown = (
        [(id_, addresses.instruction(id_)) for id_, row in facts.bare.items() if bool(row.fragments) == registers]
        for registers in (False, True)
    )
    untold = [(fragment.id, addresses.fact(fragment.id)) for fragment in facts.without_source]
    parts = [
        ListPart("Into registers and back", "loads", "Documented, as CuTe has them.", links=_load_links(facts)),
        ListPart("Shapes of loads", "shapes", "", heads if shapes else (), shapes),
        ListPart("Instructions without registers", "bare", links=bare),
        ListPart("Instructions without a table", "unknown", links=unknown),
        ListPart("Fragments without a table", "untold", links=untold),
    ]
    about = (
        "Tensor memory has 128 lanes of 512 columns of 32 bits; warp w of a warpgroup reaches lanes 32 w to "
        "32 w + 31. None of this is measured: no GPU with tensor memory was available, and machine code shows no "
        "layout."
    )
    context = {"paragraphs": [about], "parts": filled(parts), "figures": list(figures(facts))}
    title = "tcgen05: what is documented, and what is not"
    return View(addresses.TENSOR_MEMORY, "tmem", "Tensor memory", title, context)


def _bare_page(facts: Facts, instruction: Instruction) -> View:
    what = f"{words.what_it_does(instruction)} Needs {words.targets(instruction)}."
    sizes = "Not measured; `tcprobe run` measures it."
    if instruction.unprobed:
        sizes = f"Sizes are the largest that PTX documents; {instruction.unprobed}."
    operands = [
        cells(o.name, o.role.value, o.place.value, f"{o.rows} x {o.cols}", o.type) for o in instruction.operands
    ]
    known = facts.by_fragment
    fragment_links = [
        (words.name(f), addresses.fact(known[f.id].id if f.id in known else f.id)) for f in instruction.fragments
    ]
    varies = [cells(*pair) for pair in words.variants(instruction)]
    lowered = [cells(archs, text) for archs, text, _ in words.lowerings(facts, instruction)]
    reached = (
        "128 lanes of 512 columns of 32 bits; warp w of a warpgroup reaches lanes 32 w to 32 w + 31. What reads it "
        "into registers:"
    )
    parts = [
        ListPart("Operands", "operands", sizes, OPERAND_HEADS, operands, fragment_links),
        ListPart("What varies", "varies", "", ["What", "Values"], varies),
        ListPart("What it becomes in machine code", "code", "", ["Archs", "Instructions"], lowered),
        *([ListPart("Tensor memory", "memory", reached, links=_load_links(facts))] if instruction.unprobed else []),
        ListPart("In the shell", "shell", code=f"tcprobe list {instruction.id} --json\ntcprobe lower {instruction.id}"),
    ]
    about = f"{instruction.id}: documented, not measured"
    page = addresses.instruction(instruction.id)
    return list_page(page, instruction.id, about, [what, f"PTX: {instruction.name}"], filled(parts))


def _load_links(facts: Facts) -> list[tuple[str, str]]:
    ids = [name for name in facts.instructions if name.startswith("tcgen05.")]
    return [(id_, addresses.instruction(id_)) for id_ in ids]


def _untold_page(facts: Facts, fragment: Fragment) -> View:
    """Why it has no table on each arch."""
    by_reason: dict[str, list[str]] = {}
    for name in facts.archs:
        why = reason(fragment, name, facts.layers, None).replace(f"{name} ", "").replace(f" on {name}", "")
        by_reason.setdefault(why, []).append(name)
    each = f"{words.lane_contents(fragment)} in each {words.axis(fragment)}"
    size = f"{fragment.rows} x {fragment.cols} of {fragment.type}; {each}."
    rows = [cells(spans(archs), why) for why, archs in by_reason.items()]
    links = [(id_, addresses.instruction(id_)) for id_ in inventory.user_ids(fragment.id)]
    parts = [
        ListPart("Archs", "archs", heads=["Archs", "Why there is no table"], rows=rows),
        ListPart("Instruction", "instruction", links=links),
    ]
    return list_page(addresses.fact(fragment.id), fragment.id, f"{fragment.id}: no table", [size], parts)
