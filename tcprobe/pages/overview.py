"""The pages of a results folder, made from its tables alone: one overview, one page per arch and method.

`render` gives every page's text; a page that is not what `render` gives is stale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, Verdict, verdicts
from tcprobe.ask.describe import holders, provenance, unread
from tcprobe.errors import DataError
from tcprobe.fit import fitted
from tcprobe.isa import arch, inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table
from tcprobe.pages import archs, tensor_memory, undocumented
from tcprobe.pages.archs import MADE, grid, row_and_col
from tcprobe.pages.warpgroup import warpgroup
from tcprobe.references import references, said
from tcprobe.store.choose import Layers, alone
from tcprobe.store.lookup import some
from tcprobe.store.measurement import WEAKER, Measurement, how
from tcprobe.store.results import Results
from tcprobe.store.surveys import UNDOCUMENTED
from tcprobe.system import files
from tcprobe.text import markdown

MARK = {CONFIRMED: "confirmed", DIFFERS: "**differs**", NOT_COVERED: "-"}


def render(results: Results) -> dict[Path, str]:
    """Text of every page by path."""
    found = {
        results.root / "README.md": _text(_overview(results)),
        results.root / "archs.md": _text(archs.matrix(results)),
        results.root / "changes.md": _text(archs.changes(results)),
    }
    found[results.root / "documented.md"] = _text(archs.documentation(results))
    found[results.root / "tensor_memory.md"] = _text(tensor_memory.page())
    if any(results.lowering(name) for name in results.archs()):
        found[results.root / "lowering.md"] = _text(archs.lowering(results))
    if any(results.opcodes(name) for name in results.archs()):
        found[results.root / "opcodes.md"] = _text(archs.opcodes(results))
    if any(UNDOCUMENTED.read(results, name) for name in results.archs()):
        found[results.root / "undocumented.md"] = _text(undocumented.page(results))
    for name in results.archs():
        for method in results.methods(name):
            found[results.root / name / f"{method}.md"] = _text(_arch_page(results, name, method))
    return found


def stale(results: Results) -> list[Path]:
    """Pages that are missing or not what their tables give."""
    return [path for path, text in render(results).items() if not _is(path, text.encode())]


def write(results: Results) -> None:
    """Write all pages, each whole, once all are made; EnvironmentUnfitError if one cannot be written."""
    for path, text in render(results).items():
        files.write(path, text.encode())


def _is(path: Path, page: bytes) -> bool:
    """Whether a file is just that page."""
    try:
        return files.read(path, most=len(page)) == page
    except DataError:
        return False


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _overview(results: Results) -> Iterator[str]:
    yield from (MADE, "# Measured layouts", "")
    yield "Which lane and element of a warp holds which matrix element. `lane` is 0 to 31, `i` counts a lane's elements"
    yield "from the low bits of its first register. Formulas are C, each proven over every slot of its table."
    yield ""
    yield from grid(["arch", "method", "how", "measured", "refused", "failed", "page"], _runs(results))
    yield ""
    yield "- [archs.md](archs.md): every fragment on every arch, which layout, by which method, with which verdict"
    yield "- [changes.md](changes.md): what changes between architectures"
    if any(results.lowering(name) for name in results.archs()):
        yield "- [lowering.md](lowering.md): what each multiply becomes in machine code"
    if any(results.opcodes(name) for name in results.archs()):
        yield "- [opcodes.md](opcodes.md): the layouts of tensor-core machine instructions"
    if any(UNDOCUMENTED.read(results, name) for name in results.archs()):
        yield "- [undocumented.md](undocumented.md): illegal metadata and undocumented selectors of sparse multiplies"
    yield "- [documented.md](documented.md): what is documented but not measured"
    yield "- [tensor_memory.md](tensor_memory.md): what is documented of tensor memory and tcgen05"
    yield from ("", "## Layouts", "")
    yield "Fragments with the same layout id have the very same map. The table of a layout is in its file."
    yield ""
    yield from grid(["layout", "elements", "row", "col", "held by"], _layouts(results))
    yield from ("", "## References", "")
    for reference in references():
        yield f"- {reference.NAME}: {reference.SOURCE}"
    yield ""
    yield "Known errata of these sources:"
    yield ""
    yield from _errata(results)


def _runs(results: Results) -> Iterator[list[str]]:
    for name in results.archs():
        for method in results.methods(name):
            found = list(results.measurements(name, method))
            counts = Counter(m.status for m in found)
            devices = sorted({markdown(how(m)) for m in found})
            numbers = [str(counts[status]) for status in ("measured", "refused", "failed")]
            yield [name, method, "; ".join(devices), *numbers, f"[{name}/{method}.md]({name}/{method}.md)"]


def _layouts(results: Results) -> Iterator[list[str]]:
    held: dict[str, list[str]] = {}
    for name in results.archs():
        for method in results.methods(name):
            for layout, ids in holders(results, name, method).items():
                held.setdefault(layout, []).extend(f"{name} `{id_}`" for id_ in ids)
    for layout in results.layouts():
        table = results.layout(layout)
        extra = f", product `{fitted(table).formulas['product']}`" if "product" in table.outputs else ""
        row, col = row_and_col(table)
        link = f"[{layout}](layouts/{layout}.json)"
        yield [link, f"{table.elements} x {table.threads}", row, col + extra, some(held.get(layout, []), 2)]


def _errata(results: Results) -> Iterator[str]:
    for reference in references():
        for finding in reference.FINDINGS:
            yield f"- {reference.NAME}, {finding.where}: {finding.words} (`{finding.pattern}`)"
    device = arch.arch(results.archs()[-1])
    seen = set()
    for fragment in inventory.of_a_warp().values():
        for reference in references():
            claim = said(reference, fragment, device)
            if not isinstance(claim, str) and claim.erratum and (claim.where, claim.erratum) not in seen:
                seen.add((claim.where, claim.erratum))
                yield f"- {reference.NAME}, {claim.where}: {claim.erratum} (`{fragment.id}` among others)"


def _arch_page(results: Results, name: str, method: str) -> Iterator[str]:
    row = arch.arch(name)
    saved = {m.experiment: m for m in results.measurements(name, method)}
    made = sorted({_provenance(m) for m in saved.values()})
    yield from (
        MADE,
        f"# {name} ({row.generation}, compute capability {row.compute_capability}), method {method}",
        "",
    )
    for line in made:
        yield f"- {line}"
    if method == WEAKER:
        yield ""
        yield "Weaker evidence: these layouts are those that another arch has for the same tensor-core opcode, encoded"
        yield 'alike. Which arch that is stands under "numbers from".'
    yield from ("", "## Fragments", "")
    yield "wmma is compared slot by slot, mma by its structure tensor: which A slot meets which B slot in which D slot."
    yield "Row, column and k numbers of mma are a convention; the tables use the numbers of the source named under"
    yield '"numbers from".'
    yield ""
    names = [reference.NAME for reference in references()]
    heads = ["fragment", "rows x cols", "layout", "row", "col", "numbers from", *names]
    measured = [(f, saved[f.experiment]) for f in inventory.of_a_warp().values() if _has(saved, f)]
    yield from grid(heads, (_fragment_line(f, m) for f, m in measured))
    yield from _metadata([(f, m.tables[f.operand]) for f, m in measured if f.selectors])
    yield from _emulations(saved.values())
    yield from ("", "## Copies", "")
    yield "Some wmma fragments hold an element several times. The multiplies read one copy; the others are ignored."
    yield ""
    copies = [(f, m) for f, m in measured if f.copies > 1]
    layers = alone(results)
    yield from grid(["fragment", "holders", "never read", "multiplies"], (_copy_line(layers, f, m) for f, m in copies))
    yield from ("", "## Multiplies", "")
    triples = [m for m in saved.values() if m.structure and m.status == "measured"]
    wmma = [m for m in triples if m.experiment.startswith("wmma")]
    yield f"{len(wmma)} wmma.mma: every structure tensor is the one that the load and store tables predict."
    other = [m for m in triples if m not in wmma and not m.experiment.startswith("wgmma")]
    yield f"{len(other)} mma: see the verdicts above."
    yield "Each measurement's file has the count and the hash of its triples."
    yield from warpgroup(results, name, method)
    yield from ("", "## Refused or failed", "")
    yield from _refusals([m for m in saved.values() if m.status != "measured"])


def _metadata(found: Sequence[tuple[Fragment, Table]]) -> Iterator[str]:
    """Which lanes are read under each selector, layouts once."""
    if not found:
        return
    yield from ("", "## Metadata", "")
    yield "An index field of a lane's register governs the element of A, as stored, at its row and col, in the"
    yield "lanes that the selector reads: 0: under selector 0."
    yield ""
    by_layout: dict[str, tuple[Table, list[str]]] = {}
    for fragment, table in found:
        by_layout.setdefault(table.id, (table, []))[1].append(f"`{fragment.id}`")
    lines = ([f"[{id_}](../layouts/{id_}.json)", some(names, 2), *row_and_col(table), "<br>".join(_read(table))]
             for id_, (table, names) in by_layout.items())  # fmt: skip
    yield from grid(["layout", "fragments", "row", "col", "lanes read"], lines)


def _read(table: Table) -> Iterator[str]:
    for selector in range(table.space.axes[0].size):
        one = table.selection(selector)
        lanes = sorted({slot // one.elements for slots in one.inverse.values() for slot in slots})
        every = len(lanes) == one.threads
        yield f"{selector}: {'all' if every else ', '.join(map(str, lanes))}"


def _emulations(found: Iterable[Measurement]) -> Iterator[str]:
    """Which measurements show the compiler's work too, by compiler."""
    by_compiler: dict[str, list[str]] = {}
    for m in found:
        if "emulated_by" in provenance(m):
            by_compiler.setdefault(m.provenance["compiler"], []).append(f"`{m.experiment}`")
    if by_compiler:
        yield from ("", "## Emulated", "")
        yield "The arch has no instruction for these sparse multiplies: what the compiler emulates them by is measured."
        yield ""
    for compiler, names in sorted(by_compiler.items()):
        yield f"- {markdown(compiler)}: {', '.join(sorted(names))}"


def _has(saved: dict[str, Measurement], fragment: Fragment) -> bool:
    found = saved.get(fragment.experiment)
    return found is not None and fragment.operand in found.tables


def _fragment_line(fragment: Fragment, measured: Measurement) -> list[str]:
    table = measured.tables[fragment.operand]
    marks = [_mark(verdict) for verdict in verdicts(fragment, measured)]
    link = f"[{table.id}](../layouts/{table.id}.json)"
    return [
        f"`{fragment.id}`",
        f"{fragment.rows} x {fragment.cols}",
        link,
        *row_and_col(table),
        markdown(measured.numbering or ""),
        *marks,
    ]


def _mark(verdict: Verdict) -> str:
    explained = " (stated erratum)" if verdict.verdict == DIFFERS and verdict.erratum else ""
    return MARK[verdict.verdict] + explained


def _copy_line(layers: Layers, fragment: Fragment, measured: Measurement) -> list[str]:
    counts = sorted({len(slots) for slots in measured.tables[fragment.operand].inverse.values()})
    lanes, multiplies = unread(fragment, measured, layers)
    if lanes is None:
        never = "not measured"
    elif all(lane == lanes[0] for lane in lanes):
        never = "i = " + ", ".join(map(str, lanes[0])) if lanes[0] else "none"
    else:
        never = f"{sum(map(len, lanes))} slots"
    return [f"`{fragment.id}`", " or ".join(map(str, counts)), never, str(multiplies)]


def _refusals(found: Sequence[Measurement]) -> Iterator[str]:
    by_words: dict[tuple[str, str], list[str]] = {}
    for m in found:
        by_words.setdefault((m.status, m.words or ""), []).append(f"`{m.experiment}`")
    for (status, words), names in sorted(by_words.items()):
        yield f"- {status}: {markdown(words)}: {some(names, 2)}"
    if not found:
        yield "None."


def _provenance(measured: Measurement) -> str:
    p = measured.provenance
    return markdown(f"{how(measured)}, compiler: {p['compiler']}, tcprobe {p['tcprobe']}")
