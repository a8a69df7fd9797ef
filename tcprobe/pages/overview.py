"""The pages of a results folder, made from its tables alone: an overview, what changes between archs, errata,
lowering.

`render` gives every page's text; a page that is not what `render` gives is stale, and so is one made before that no
longer is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from tcprobe.ask.prices import KIND as PRICES
from tcprobe.ask.undocumented import KIND as UNDOCUMENTED
from tcprobe.ask.undocumented import everything
from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.layout.table import Table
from tcprobe.pages import checks, machine_code, numbers, orders, tensor_memory
from tcprobe.pages.tables import MADE, code, fitting, heading_anchor, page, row_and_col, spans
from tcprobe.references import claim_of, references
from tcprobe.store import findings
from tcprobe.store.cell import DOCUMENTED, Cell, by_arch
from tcprobe.store.choose import alone
from tcprobe.store.finding import FROM_CODE, METHODS, Measurement
from tcprobe.store.results import Results
from tcprobe.store.surveys import SavedAudit, load_audits, load_checks, load_samples, load_survey, since
from tcprobe.system import files
from tcprobe.text import markdown
from tcprobe.values import Json

PAGES = {
    "changes.md": "what changes between architectures",
    "lowering.md": "what each multiply and matrix move becomes in machine code, and the layouts of those instructions",
    "compilers.md": "what versions of ptxas agree on, and the exceptions",
    "costs.md": "what instructions cost, in cycles",
    "prices.md": "what the opcodes of main loops cost, and which pipe each needs",
    "numerics.md": "what multiplies compute: sums, what is cut, rounding",
    "orders.md": "in which order programs sum, and where along M that changes",
    "undocumented.md": "illegal metadata and undocumented selectors of sparse multiplies",
    "tensor_memory.md": "what is documented of tensor memory and tcgen05",
    "errata.md": "where other packages differ from the measurements",
    "checks.md": "what `tcprobe check` finds in the kernels of other packages",
}


def render(results: Results) -> dict[Path, str]:
    """Text of every page by path."""
    facts, archs = cells_of(results), results.archs()
    texts = {"changes.md": changes_page(facts, archs), "tensor_memory.md": tensor_memory.tensor_memory_page(results)}
    if machine_code.has_lowerings(results):
        texts["lowering.md"] = machine_code.lowering_page(results)
    if numbers.has_costs(results):
        texts["costs.md"] = numbers.costs_page(results)
    if findings.archs(results, PRICES):
        texts["prices.md"] = numbers.prices_page(results)
    if findings.archs(results, UNDOCUMENTED):
        texts["undocumented.md"] = undocumented_page(results)
    if findings.archs(results, numbers.NUMERICS):
        texts["numerics.md"] = numbers.numerics_page(results)
    if orders.has_orders(results):
        texts["orders.md"] = orders.orders_page(results)
    if survey := load_survey(results.root):
        texts["compilers.md"] = machine_code.compilers_page(survey)
    if audits := load_audits(results.root):
        texts["errata.md"] = errata_page(audits)
    if checked := load_checks(results.root):
        texts["checks.md"] = checks.checks_page(checked, load_samples(results.root))
    texts["README.md"] = _overview(results, facts, [name for name in PAGES if name in texts])
    return {results.root / name: ("\n".join(lines) + "\n") for name, lines in texts.items()}


def cells_of(results: Results) -> ByFragment:
    """The cells of every fragment on a folder's archs, documented ones too; fragments that have any."""
    layers, archs = alone(results), results.archs()
    cells = {fragment.id: by_arch(fragment, archs, layers) for fragment in inventory.fragments().values()}
    return {id_: by_name for id_, by_name in cells.items() if by_name}


def stale(results: Results, pages: Mapping[Path, str] | None = None) -> list[Path]:
    """Pages that are missing, not what their tables give, or no longer made."""
    current = render(results) if pages is None else pages
    return [path for path, text in current.items() if not _is(path, text.encode())] + _former(results, current)


def write(results: Results, pages: Mapping[Path, str] | None = None) -> None:
    """Write all pages, each whole, once all are made; EnvironmentUnfitError if one cannot be written.

    A page that an earlier tcprobe made, and says so in its first line, goes where it is no longer made.
    """
    current = render(results) if pages is None else pages
    for path, text in current.items():
        files.write(path, text.encode())
    for path in _former(results, current):
        path.unlink(missing_ok=True)


def _former(results: Results, current: Mapping[Path, str]) -> list[Path]:
    """Pages that were made before, and no longer are."""
    pages = sorted([*results.root.glob("*.md"), *results.root.glob("sm_*/*.md")])
    return [path for path in pages if path not in current and _begins(path)]


def _begins(path: Path) -> bool:
    """Whether a file says in its first line that it was made."""
    try:
        return not path.is_symlink() and (files.read(path) or b"").startswith(MADE.encode())
    except DataError:
        return False


def _is(path: Path, page: bytes) -> bool:
    """Whether a file is just that page."""
    try:
        return files.read(path, most=len(page)) == page
    except DataError:
        return False


def _overview(results: Results, facts: ByFragment, pages: Iterable[str]) -> list[str]:
    errata = [(r.NAME, e.where, e.words, f"`{e.pattern}`") for r in references() for e in r.ERRATA]
    device = arch(results.archs()[-1])
    seen = set()
    for fragment in inventory.of_a_warp().values():
        for reference in references():
            claim = claim_of(reference, fragment, device)
            if not isinstance(claim, str) and claim.erratum and (claim.where, claim.erratum) not in seen:
                seen.add((claim.where, claim.erratum))
                errata.append((reference.NAME, claim.where, claim.erratum, f"`{fragment.id}` among others"))
    return page(
        "README.md",
        pages=[(name, PAGES[name]) for name in pages],
        runs=runs(results),
        families=families(facts),
        descriptors=descriptors(results),
        references=references(),
        errata=errata,
    )


MOST_MADE = 80  # characters of what a run was made with


def runs(results: Results) -> list[list[str]]:
    """A line for each method and compiler or device; archs that are alike share it."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for folder in (results, *results.runs()):
        for name in folder.archs():
            for method in folder.methods(name):
                lines.setdefault(_run_row(method, list(folder.measurements(name, method))), []).append(name)
    return [[spans(archs), *key] for key, archs in lines.items()]


def _run_row(method: str, measurements: Sequence[Measurement]) -> tuple[str, ...]:
    counts = Counter(m.status for m in measurements)
    maker = "{compiler}" if method in FROM_CODE else "{device}, driver {driver}, CUDA {cuda}"
    makers = "; ".join(sorted({maker.format(**m.provenance) for m in measurements}))
    makers = makers if len(makers) <= MOST_MADE else f"{makers[: MOST_MADE - 3]}..."
    return (method, markdown(makers), *(str(counts[status]) for status in ("measured", "refused", "failed")))


EVIDENCE_HEADS = {
    "live": "live",
    "sass": "machine code",
    "derived": "derived",
    "same-opcode": "same opcode",
    "emulated": "emulated",
    DOCUMENTED: "documented only",
}
ByFragment = Mapping[str, Mapping[str, Cell]]  # by fragment id and arch, both in their order
HowAndArchs = tuple[tuple[str, str], ...]  # (how, archs)
MAndK = tuple[int, int]  # m and k


def families(facts: ByFragment) -> dict[str, tuple[list[str], Iterator[list[str]]]]:
    """(heads, rows) of the table of each family."""
    tables = {}
    for family, lines in _lines_by_family(facts).items():
        hows = [how for how in (*METHODS, DOCUMENTED) if any(how in dict(kinds) for kinds, _ in lines)]
        tables[family] = ["fragments", *(EVIDENCE_HEADS[how] for how in hows)], _fragment_rows(lines, hows)
    return tables


FragmentsOfLines = dict[tuple[HowAndArchs, MAndK], list[Fragment]]


def _lines_by_family(facts: ByFragment) -> dict[str, FragmentsOfLines]:
    """By family the fragments with one m and k and the same status."""
    families: dict[str, FragmentsOfLines] = {}
    for id_, archs in facts.items():
        fragment = inventory.fragments()[id_]
        by_kind: dict[str, list[str]] = {}
        for name, cell in archs.items():
            by_kind.setdefault(cell.how, []).append(name)
        evidence = tuple((how, spans(names)) for how, names in by_kind.items())
        key = (evidence, (fragment.shape.m, fragment.shape.k))
        families.setdefault(fragment.family, {}).setdefault(key, []).append(fragment)
    return families


def _fragment_rows(lines_by_kind: FragmentsOfLines, hows: Sequence[str]) -> Iterator[list[str]]:
    """Fragments in words, or, where the same words would stand twice, by their ids."""
    names_by_line = [_line_text(shape, fragments) for (_, shape), fragments in lines_by_kind.items()]
    for ((kinds, _), fragments), name in zip(lines_by_kind.items(), names_by_line, strict=True):
        text = name if names_by_line.count(name) == 1 else fitting(code(fragment.id for fragment in fragments))
        yield [text, *(dict(kinds).get(how, "") for how in hows)]


def _line_text(m_and_k: MAndK, fragments: Sequence[Fragment]) -> str:
    """Shape, operands, types, how many: m64nNk16, N of 8 to 256: A, D of f16, f32 (64)."""
    ns = sorted({fragment.shape.n for fragment in fragments})
    m, k = m_and_k
    deep = f"k{k}" if k else ""  # a matrix that is moved has none
    size = f"m{m}n{ns[0]}{deep}" if len(ns) == 1 else f"m{m}nN{deep}, {len(ns)} N from {ns[0]} to {ns[-1]}"
    operands = fitting([o.upper() if len(o) == 1 else o for o in dict.fromkeys(f.operand for f in fragments)], 30)
    types = fitting(sorted({f.type for f in fragments}), 30)
    return f"{size}: {operands} of {types} ({len(fragments)})"


CaseJson = Json
WIDTHS = (16, 32, 8, 1)  # bits of an element


def descriptors(results: Results) -> Iterator[Json]:
    """What each arch with descriptors shows."""
    for name in results.archs():
        measured = [sourced.finding for sourced in alone(results).findings("descriptors", name).values()]
        if not measured:
            continue
        groups: dict[tuple[str, ...], list[CaseJson]] = {}
        for case in sorted((finding.plain["case"] for finding in measured if finding.body.case), key=_place_of_case):
            family = inventory.instructions()[case["instruction"]].family
            key = (case["operand"], family, str(case["swizzle"] or "none"), ", ".join(case["ignored"]) or "-")
            groups.setdefault(key, []).append(case)
        products = [finding.body.products for finding in measured if finding.body.products]
        counts = {count: sum(getattr(p, count) for p in products) for count in ("products", "wrong")}
        rows = [_descriptor_row(key, cases) for key, cases in groups.items()]
        origin = {of: markdown(text) for of, text in measured[0].provenance.items()}
        yield {**origin, "name": name, "rows": rows, **counts}


def _place_of_case(plain: CaseJson) -> tuple[int, str, str, int]:
    """Where a case stands: by family and width as the inventory has them, operand, major and swizzle."""
    family = inventory.instructions()[plain["instruction"]].family
    swizzle = list(SWIZZLES).index(plain["swizzle"])
    return _widths().index((family, plain["bits"])), plain["operand"], plain["major"], swizzle


@cache
def _widths() -> list[tuple[str, int]]:
    """Families with operands behind descriptors, and bits of their elements."""
    rows = inventory.instructions().values()
    return list(dict.fromkeys((row.family, operand.held.slot_bits) for row in rows for operand in row.described))


def _descriptor_row(row_key: tuple[str, ...], row_cases: Sequence[CaseJson]) -> list[str]:
    operand, family, swizzle, ignored = row_key
    majors: dict[str, list[str]] = {}
    for case in row_cases:
        majors.setdefault(case["major"], []).append(str(case["bits"]))
    tried, agree, elements = (sum(case[name] for case in row_cases) for name in ("descriptors", "agree", "elements"))
    subtracted, distinguishing = (
        sum(case["base_offset"]["subtracted"][index] for case in row_cases) for index in (0, 1)
    )
    majors_text = "; ".join(f"{major}: {', '.join(bits)}" for major, bits in majors.items())
    agreeing, offsets = f"{agree} of {elements}", f"{subtracted} of {distinguishing}"
    return [f"{operand} of {family}", swizzle, majors_text, str(tried), agreeing, ignored, offsets]


class Change(NamedTuple):
    """From an arch to the next: how many measured fragments keep their layout, which change it, which are new.

    `changed` has the ids of fragments that change alike, with their tables before and after.
    """

    before: str
    after: str
    same: int
    changed: list[tuple[list[str], list[Table]]]
    new: list[str]

    @property
    def title(self) -> str:
        """Both archs with their generations."""
        rows = (arch(name) for name in (self.before, self.after))
        return " to ".join(f"{row.name} ({row.generation})" for row in rows)

    @property
    def changes(self) -> int:
        """How many fragments change their layout."""
        return sum(len(ids) for ids, _ in self.changed)

    @property
    def heads(self) -> list[str]:
        """Of the table of what changed."""
        both = (self.before, self.after)
        return ["fragments", *(f"{output} on {name}" for output in ("row", "col") for name in both)]

    @property
    def rows(self) -> Iterator[list[str]]:
        """Fragments that change alike, with their formulas before and after."""
        for ids, tables in self.changed:
            yield [fitting(code(ids)), *(text for both in zip(*map(row_and_col, tables), strict=True) for text in both)]


def changes_page(facts: ByFragment, archs: Sequence[str]) -> list[str]:
    """For each arch against the one before it: which fragments are new, which changed their layout and how."""
    steps = [_change(facts, pair) for pair in pairwise(archs)]
    rows = (
        [
            f"[{step.before} to {step.after}](#{heading_anchor(step.title)})",
            *map(str, (step.same, step.changes, len(step.new))),
        ]
        for step in steps
    )
    return page("changes.md", steps=steps, rows=rows)


def _change(facts: ByFragment, between: tuple[str, str]) -> Change:
    changed: dict[tuple[str, str], tuple[list[str], list[Table]]] = {}
    same, new = 0, []
    for id_, archs in facts.items():
        measured = {name: archs[name].table for name in between if name in archs and archs[name].how != DOCUMENTED}
        pair = list(measured.values())
        if len(pair) == 2 and pair[0].id == pair[1].id:
            same += 1
        elif len(pair) == 2:
            changed.setdefault((pair[0].id, pair[1].id), ([], pair))[0].append(id_)
        elif between[1] in measured and not inventory.fragments()[id_].target.on(arch(between[0])):
            new.append(id_)
    return Change(*between, same, list(changed.values()), new)


def errata_page(audits: Sequence[SavedAudit]) -> list[str]:
    """A row a package, then a section for each finding."""
    return page("errata.md", audits=audits, rows=map(_audit_row, audits), since=since, wrapped=_wrapped)


def _audit_row(audit: SavedAudit) -> list[str]:
    counts = [str(audit.agree), str(audit.differ), str(audit.not_covered)]
    earlier = f"{len(audit.earlier)}, since {markdown(audit.earlier[0].version)}" if audit.earlier else "none"
    return [audit.package, markdown(audit.version), *counts, earlier]


def _wrapped(text: str) -> list[str]:
    return wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def undocumented_page(results: Results) -> list[str]:
    """A section an arch; forms with the same finding share a line."""
    archs = []
    for name in results.archs():
        nearest = everything(name, alone(results))
        if nearest:
            how = "Live on {device}, driver {driver}, CUDA {cuda}, tcprobe {tcprobe}.".format(**nearest[0].provenance)
            forms: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
            for undocumented in nearest:
                key = (tuple(undocumented.values_said), tuple(undocumented.selectors_said))
                forms.setdefault(key, []).append(undocumented.metadata.experiment)
            archs.append((name, markdown(how), forms))
    return page("undocumented.md", archs=archs, wrapped=_wrapped)
