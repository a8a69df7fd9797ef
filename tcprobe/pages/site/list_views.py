"""Pages that are lists: an arch, a measuring run, a compiler, errata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tcprobe.isa.arch import arch as arch_row
from tcprobe.pages.site import addresses, package_views, words
from tcprobe.pages.site.facts import Fact, Facts
from tcprobe.pages.site.render import LinkList, ListPart, View
from tcprobe.references import claim_of, references
from tcprobe.references.shared_memory.claims import CLAIMS
from tcprobe.store.choose import Found

LinkRow = list[LinkList]
NAMED = 3  # fragments of a line that are named


def arch(facts: Facts, name: str) -> View:
    """What is known on an arch: by kind of evidence, fragments of one layout on a line."""
    row, present = arch_row(name), [fact for fact in facts.facts.values() if name in fact.cells]
    kinds: Counter[str] = Counter()
    for fact in present:
        kinds[words.SHORT[fact.kind(name)]] += len(fact.each)
    absent = [fact for fact in facts.facts.values() if name not in fact.cells]
    parts = [
        ListPart(
            "Layouts",
            "layouts",
            heads=["Evidence", "Fragments", "Layout", "Formula"],
            rows=list(_by_layout(present, name)),
        ),
        ListPart("Absent", "absent", heads=["Why", "Fragments"], rows=list(_absent(absent, name))),
    ]
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    about = f"{row.generation}, compute capability {row.compute_capability}. "
    about += f"{kinds.total()} fragments in registers have a table, every N counted: {counts}."
    of_all = f"Of {facts.count_text}."
    return View(addresses.arch(name), "list", name, about, {"paragraphs": [about, of_all], "parts": parts})


def _by_layout(present: list[Fact], name: str) -> Iterable[LinkRow]:
    lines: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in present:
        key = (words.SHORT[fact.kind(name)], fact.cells[name].table.id, words.formula(fact.cells[name].table))
        lines.setdefault(key, []).append(fact)
    for (kind, layout, formula), facts in sorted(lines.items()):
        yield [
            [(kind, "")],
            links(facts, layout),
            [(layout, addresses.layout(layout))],
            [(formula.replace("\n", "; "), "")],
        ]


def links(linked_facts: Iterable[Fact], layout: str = "") -> LinkList:
    """Links to the first of some facts, and where all of them are."""
    ids, more = words.some([fact.id for fact in linked_facts], NAMED)
    named = [(id_, addresses.fact(id_)) for id_ in ids]
    return named + ([(f"{more} more", addresses.layout(layout) if layout else "")] if more else [])


def _absent(absent: list[Fact], name: str) -> Iterable[LinkRow]:
    lines: dict[str, list[Fact]] = {}
    for fact in absent:
        lines.setdefault(fact.why(name), []).append(fact)
    for why, facts in lines.items():
        yield [[(why, "")], links(facts)]


def makers(facts: Facts) -> tuple[list[View], LinkList]:
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
        said_ = f"{p['device']}, driver {p['driver']}"
        return said_, addresses.device(said_)
    return p["compiler"], addresses.compiler(p["compiler"])


def _run(maker: tuple[str, str], measured_facts: list[tuple[Fact, Found]]) -> View:
    title, page = maker
    lines: dict[tuple[str, str], list[Fact]] = {}
    for fact, saved in measured_facts:
        lines.setdefault((saved.measured.arch, saved.measured.method), []).append(fact)
    rows = [
        [
            [(arch, addresses.arch(arch))],
            [(words.SHORT.get(method, method), "")],
            [(str(len(line_facts)), "")],
            links({fact.id: fact for fact in line_facts}.values()),
        ]
        for (arch, method), line_facts in lines.items()
    ]
    provenance = {
        key: sorted({saved.measured.provenance[key] for _, saved in measured_facts})
        for key in ("cuda", "compiler", "tcprobe")
    }
    parts = [
        ListPart("Tables", "tables", heads=["Arch", "Method", "Tables", "Fragments"], rows=rows),
        ListPart(
            "Made with",
            "made",
            heads=["What", "Which"],
            rows=[[[(key, "")], [(text, "") for text in texts]] for key, texts in provenance.items()],
        ),
    ]
    return View(page, "list", title, f"What was measured by {title}", {"paragraphs": [], "parts": parts})


def errata(facts: Facts) -> View:
    """Known errors of the sources that tables are compared with."""
    heads = ["Source", "Place", "What is wrong"]
    said_ = [_plain(r.NAME, f.where, f.words, f.pattern) for r in references() for f in r.ERRATA]
    claims = [_plain(c.source, c.words, c.verdict) for c in CLAIMS]
    parts = [
        ListPart("Layouts", "layouts", heads=[*heads, "Fragments"], rows=list(_erratum_rows(facts))),
        *([packages] if (packages := package_views.differences_part(facts)).rows else []),
        ListPart("Statements", "statements", heads=[*heads, "Pattern"], rows=said_),
        ListPart("Shared memory", "shared", heads=["Source", "Statement", "Verdict"], rows=claims),
        ListPart("Sources", "sources", heads=["Name", "What"], rows=[_plain(r.NAME, r.SOURCE) for r in references()]),
    ]
    text = "Each layout that a source states is compared slot by slot, or by its structure tensor. Where one errs:"
    context = {"paragraphs": [text], "parts": parts}
    return View("errata.html", "list", "Errata", "Known errors of manuals and libraries", context)


def _plain(*texts: str) -> LinkRow:
    """Cells without links."""
    return [[(text, "")] for text in texts]


def _erratum_rows(facts: Facts) -> Iterable[LinkRow]:
    by_claim: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in facts.facts.values():
        for reference in references():
            claim = claim_of(reference, fact.fragment, arch_row(fact.main.arch))
            if not isinstance(claim, str) and claim.erratum:
                by_claim.setdefault((reference.NAME, claim.where, claim.erratum), []).append(fact)
    for key, claim_facts in by_claim.items():
        yield [*([(text, "")] for text in key), links(claim_facts)]
