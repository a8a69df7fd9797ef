"""The first page, and pages that are lists or words.

Fragments by arch, identical rows merged, with lists that lead to every other page; the fragments of a shape, an arch, a
measuring run, a compiler; errata; the guide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.grid import blocks
from tcprobe.pages.site import (
    addresses,
    check_pages,
    comparison_pages,
    data_files,
    instruction_pages,
    markup,
    number_pages,
    order_pages,
    tile_pages,
    words,
)
from tcprobe.pages.site.facts import BADGES, Fact, Facts
from tcprobe.pages.site.markup import LinkList, ListPart, View, cells, list_page
from tcprobe.references import claim_of, references
from tcprobe.references.shared_memory.claims import CLAIMS
from tcprobe.store.choose import Found
from tcprobe.values import Json

CLASSES = {"-": "n", "?": "u"}  # letters that are no names
MOST_MATRIX = 12_000  # characters
LIVE = "mma.m16n8k16.row.col.f32.f16.f16.f32.a"
EXAMPLES = (
    ("A", "m16n8k16 f16 f32 a"),
    ("B", "m16n8k16 f16 f32 b"),
    ("D", "m16n8k16 f16 f32 d"),
    ("wmma", "wmma m16n16k16 d f32"),
    ("wgmma", "wgmma m64n16k16 f32 f16 d"),
    ("fp8", "m16n8k32 f32 e4m3 a"),
)


def front_page(facts: Facts, makers: LinkList, beyond: LinkList) -> View:
    """The page; `makers` and `beyond` lead to what is not a table."""
    families = [f for f in inventory.families() if any(fact.fragment.family == f for fact in facts.facts.values())]
    every_n = {row.family for row in inventory.executed_by(WARPGROUP)}
    types = sorted({fact.fragment.type for fact in facts.facts.values()})
    shown = facts.facts.get(LIVE) or next(
        iter(facts.facts.values())
    )  # the matrix as it stands there without the script
    block = blocks(shown.each[0].table, shown.each[0].fragment)[0]
    live = {
        "id": shown.id,
        "arch": shown.main.arch,
        "bits": shown.fragment.slot_bits,
        "layout": data_files.with_formula(shown.main.table),
    }
    context = {
        "counted": facts.count_text,
        "families": ", ".join(f"{name} (every N)" if name in every_n else name for name in families),
        "archs": facts.archs,
        "legend": [(CLASSES.get(letter, letter), letter, meaning) for letter, meaning in words.legend()],
        "rows": _rows(facts),
        "makers": makers,
        "filters": [("family", "Family", families), ("type", "Type", types), ("arch", "Arch", facts.archs)],
        "arch_links": [(f"{name}, {arch_row(name).generation}", addresses.arch(name)) for name in facts.archs],
        "layouts": [_layout(facts, id_) for id_ in sorted(facts.tables)],
        "live": {
            "id": shown.id,
            "page": addresses.fact(shown.id),
            "arch": shown.main.arch,
            "formula": words.formula(shown.main.table),
            "matrix": markup.matrix(block, most=MOST_MATRIX).markup,
        },
        "data": markup.data({"kind": "home", "first": live, "archs": facts.archs, "examples": EXAMPLES}),
        "more": [
            ("Bank conflicts: a playground", addresses.PLAYGROUND),
            *instruction_pages.wgmma_links(facts),
            *([("Tensor memory (documented)", addresses.TENSOR_MEMORY)] if facts.bare or facts.without_source else []),
            *beyond,
            *((view.title, view.page) for view in number_pages.number_pages(facts)),
            *(
                (view.title, view.page)
                for view in order_pages.order_pages(facts)
                if view.page == order_pages.ORDER_PAGE
            ),
            *((view.title, view.page) for view in (*check_pages.check_pages(facts), *tile_pages.tile_pages(facts))),
        ],
    }
    about = "Measured register layouts of NVIDIA tensor-core instructions: a page for every fragment"
    return View("index.html", "index", "Register layouts of tensor-core fragments", about, context)


def _layout(facts: Facts, id_: str) -> tuple[str, str, str]:
    """(id, page, what has it) of a layout."""
    fact, cell, _ = facts.sharing[id_][0]
    return id_, addresses.layout(id_), words.layout_name(cell.fragment, "" if fact.grows else fact.shape)


def shape_address(family: str, shape: str) -> str:
    """The page that lists the fragments of a family and shape."""
    return f"m/family-{addresses.slug(f'{family} {shape}')}.html"


def shape_pages(facts: Facts) -> Iterator[View]:
    """A page for each family and shape: its instructions, with their operands."""
    by_shape: dict[tuple[str, str], list[tuple[str, Instruction]]] = {}
    for name, row in facts.instructions.items():
        by_shape.setdefault((row.family, facts.by_fragment[row.fragments[-1].id].shape), []).append((name, row))
    for (family, shape), rows in by_shape.items():
        title = f"{family} {shape}"
        lines = [
            [
                [(name, addresses.instruction(name))],
                [(words.name(f), addresses.fact(facts.by_fragment[f.id].id)) for f in row.fragments],
            ]
            for name, row in rows
        ]
        part = ListPart(heads=["Instruction", "Operands"], rows=lines)
        about = f"All forms of {title}, and their fragments"
        yield list_page(shape_address(family, shape), title, about, [f"{len(rows)} forms."], [part])


def _rows(facts: Facts) -> list[Json]:
    merged: dict[tuple[object, ...], list[Fact]] = {}
    for fact in facts.facts.values():
        merged.setdefault((fact.fragment.family, fact.shape, *_cells(facts, fact)), []).append(fact)
    return [_row(facts, members) for members in merged.values()]


def _row(facts: Facts, members: list[Fact]) -> Json:
    first, archs = members[0], facts.archs
    family, shape = first.fragment.family, first.shape
    operands = dict.fromkeys(words.name(fact.fragment) for fact in members)
    types = dict.fromkeys(fact.fragment.type for fact in members)
    single = len(members) == 1
    return {
        "family": family,
        "types": " ".join(types),
        "archs": " ".join(name.removeprefix("sm_") for name in archs if name in first.cells),
        "name": first.id if single else f"{family} {shape}",
        "count": len(members),
        "cells": [(CLASSES.get(text[0], text[0]), text) for text in _cells(facts, first)],
        "page": addresses.fact(first.id) if single else shape_address(family, shape),
        "of": "" if single else f"{', '.join(operands)} of {', '.join(types)}",
    }


def _cells(facts: Facts, fact: Fact) -> list[str]:
    """A letter an arch; layouts other than the main one are numbered from 2 on, multiplies that are emulated marked."""
    numbers: Mapping[str, int] = {id_: number for number, id_ in enumerate(fact.tables, 1)}
    badges = []
    for name in facts.archs:
        number = numbers[fact.cells[name].table.id] if name in fact.cells else 1
        emulated = "e" if name in fact.cells and facts.emulation(fact.fragment, name) else ""
        badges.append(BADGES[fact.kind(name)][0] + (str(number) if number > 1 else "") + emulated)
    return badges


LinkRow = list[LinkList]
NAMED_FACTS = 3  # fragments of a line that are named


def arch_page(facts: Facts, name: str) -> View:
    """What is known on an arch: by kind of evidence, fragments of one layout on a line."""
    row, present = arch_row(name), [fact for fact in facts.facts.values() if name in fact.cells]
    kinds = Counter(words.SHORT[fact.kind(name)] for fact in present for _ in fact.each)
    absent = [fact for fact in facts.facts.values() if name not in fact.cells]
    heads = ["Evidence", "Fragments", "Layout", "Formula"]
    parts = [
        ListPart("Layouts", "layouts", "", heads, list(_by_layout(present, name))),
        ListPart("Absent", "absent", "", ["Why", "Fragments"], list(_absent(absent, name))),
    ]
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    about = f"{row.generation}, compute capability {row.compute_capability}. "
    about += f"{kinds.total()} fragments in registers have a table, every N counted: {counts}."
    return list_page(addresses.arch(name), name, about, [about, f"Of {facts.count_text}."], parts)


def _by_layout(present: list[Fact], name: str) -> Iterable[LinkRow]:
    lines: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in present:
        key = (words.SHORT[fact.kind(name)], fact.cells[name].table.id, words.formula(fact.cells[name].table))
        lines.setdefault(key, []).append(fact)
    for (kind, layout, formula), facts in sorted(lines.items()):
        page = [(layout, addresses.layout(layout))]
        yield [*cells(kind), fact_links(facts, layout), page, *cells(formula.replace("\n", "; "))]


def fact_links(linked_facts: Iterable[Fact], layout: str = "") -> LinkList:
    """Links to the first of some facts, and where all of them are."""
    ids, more = words.some([fact.id for fact in linked_facts], NAMED_FACTS)
    named = [(id_, addresses.fact(id_)) for id_ in ids]
    return named + ([(f"{more} more", addresses.layout(layout) if layout else "")] if more else [])


def _absent(absent: list[Fact], name: str) -> Iterable[LinkRow]:
    lines: dict[str, list[Fact]] = {}
    for fact in absent:
        lines.setdefault(fact.why(name), []).append(fact)
    for why, facts in lines.items():
        yield [*cells(why), fact_links(facts)]


def maker_pages(facts: Facts) -> tuple[list[View], LinkList]:
    """A page a device with its driver, and a page a compiler; and the links to them."""
    runs: dict[tuple[str, str], list[tuple[Fact, Found]]] = {}
    for fact in facts.facts.values():
        for fragment in (cell.fragment for cell in fact.each):
            for saved in fact.layers.tables(fragment, facts.archs):
                runs.setdefault(_maker(saved), []).append((fact, saved))
    views = [_run(maker, measured) for maker, measured in sorted(runs.items())]
    return views, [(view.title, view.page) for view in views]


def _maker(saved: Found) -> tuple[str, str]:
    """(words, address)."""
    p = saved.measured.provenance
    if saved.measured.method == "live":
        device = f"{p['device']}, driver {p['driver']}"
        return device, addresses.device(device)
    return p["compiler"], addresses.compiler(p["compiler"])


def _run(maker: tuple[str, str], measured_facts: list[tuple[Fact, Found]]) -> View:
    title, page = maker
    lines: dict[tuple[str, str], list[Fact]] = {}
    for fact, saved in measured_facts:
        lines.setdefault((saved.measured.arch, saved.measured.method), []).append(fact)
    rows = [
        [
            [(arch, addresses.arch(arch))],
            *cells(words.SHORT.get(method, method), len(line_facts)),
            fact_links({fact.id: fact for fact in line_facts}.values()),
        ]
        for (arch, method), line_facts in lines.items()
    ]
    provenance = {
        key: sorted({saved.measured.provenance[key] for _, saved in measured_facts})
        for key in ("cuda", "compiler", "tcprobe")
    }
    made = [[*cells(key), [(text, "") for text in texts]] for key, texts in provenance.items()]
    parts = [
        ListPart("Tables", "tables", "", ["Arch", "Method", "Tables", "Fragments"], rows),
        ListPart("Made with", "made", "", ["What", "Which"], made),
    ]
    return list_page(page, title, f"What was measured by {title}", [], parts)


def errata_page(facts: Facts) -> View:
    """Known errors of the sources that tables are compared with."""
    heads = ["Source", "Place", "What is wrong"]
    statements = [cells(r.NAME, f.where, f.words, f.pattern) for r in references() for f in r.ERRATA]
    claims = [cells(c.source, c.words, c.verdict) for c in CLAIMS]
    parts = [
        ListPart("Layouts", "layouts", heads=[*heads, "Fragments"], rows=list(_erratum_rows(facts))),
        *([packages] if (packages := comparison_pages.differences_part(facts)).rows else []),
        ListPart("Statements", "statements", heads=[*heads, "Pattern"], rows=statements),
        ListPart("Shared memory", "shared", heads=["Source", "Statement", "Verdict"], rows=claims),
        ListPart("Sources", "sources", "", ["Name", "What"], [cells(r.NAME, r.SOURCE) for r in references()]),
    ]
    text = "Each layout that a source states is compared slot by slot, or by its structure tensor. Where one errs:"
    return list_page("errata.html", "Errata", "Known errors of manuals and libraries", [text], parts)


def _erratum_rows(facts: Facts) -> Iterable[LinkRow]:
    by_claim: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in facts.facts.values():
        for reference in references():
            claim = claim_of(reference, fact.fragment, arch_row(fact.main.arch))
            if not isinstance(claim, str) and claim.erratum:
                by_claim.setdefault((reference.NAME, claim.where, claim.erratum), []).append(fact)
    for key, claim_facts in by_claim.items():
        yield [*cells(*key), fact_links(claim_facts)]


MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
WMMA = "wmma.m16n16k16.d.f32"


def guide_pages(facts: Facts) -> list[View]:
    """Guide and contributing; their words stand in templates, without examples where the site has no page of them."""
    pages = {"mma": addresses.instruction(MMA), "a": addresses.fact(f"{MMA}.a"), "d": addresses.fact(f"{MMA}.d")}
    example = pages if MMA in facts.instructions else {}
    wmma = addresses.fact(WMMA) if WMMA in facts.facts else ""
    about = "Questions and where they are answered; how layouts are measured"
    context = {"example": example, "wmma": wmma, "mma": MMA, "wmma_name": WMMA}
    helps = "Measure your GPU, report a difference, add a form"
    return [
        View("method.html", "guide", "Guide and method", about, context),
        View("contribute.html", "contribute", "Contribute", helps, {"mma": MMA}),
    ]
