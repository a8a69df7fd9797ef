"""The pages of a results folder, made from its tables alone: an overview, what changes between archs, lowering.

`render` gives every page's text; a page that is not what `render` gives is stale, and so is one made before that no
longer is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tcprobe.ask.undocumented import KIND as UNDOCUMENTED
from tcprobe.errors import DataError
from tcprobe.isa import arch, inventory
from tcprobe.pages import (
    changes,
    compilers,
    costs,
    descriptors,
    errata,
    fragments,
    lowering,
    numerics,
    runs,
    tensor_memory,
    undocumented,
)
from tcprobe.pages.fragments import ByFragment
from tcprobe.pages.tables import MADE
from tcprobe.references import claim_of, references
from tcprobe.store import findings
from tcprobe.store.cell import by_arch
from tcprobe.store.choose import alone
from tcprobe.store.results import Results
from tcprobe.store.surveys import load_audits, load_survey
from tcprobe.system import files

PAGES = {
    "changes.md": "what changes between architectures",
    "lowering.md": "what each multiply and matrix move becomes in machine code, and the layouts of those instructions",
    "compilers.md": "what versions of ptxas agree on, and the exceptions",
    "costs.md": "what instructions cost, in cycles",
    "numerics.md": "what multiplies compute: sums, what is cut, rounding",
    "undocumented.md": "illegal metadata and undocumented selectors of sparse multiplies",
    "tensor_memory.md": "what is documented of tensor memory and tcgen05",
    "errata.md": "where other packages differ from the measurements",
}


def render(results: Results) -> dict[Path, str]:
    """Text of every page by path."""
    facts, archs = cells_of(results), results.archs()
    texts = {"changes.md": changes.page(facts, archs), "tensor_memory.md": tensor_memory.page(results)}
    if lowering.there(results):
        texts["lowering.md"] = lowering.page(results)
    if costs.there(results):
        texts["costs.md"] = costs.page(results)
    if findings.archs(results, UNDOCUMENTED):
        texts["undocumented.md"] = undocumented.page(results)
    if findings.archs(results, numerics.KIND):
        texts["numerics.md"] = numerics.page(results)
    if survey := load_survey(results.root):
        texts["compilers.md"] = compilers.page(survey)
    if audits := load_audits(results.root):
        texts["errata.md"] = errata.page(audits)
    texts["README.md"] = _overview(results, facts, [name for name in PAGES if name in texts])
    return {results.root / name: _text(lines) for name, lines in texts.items()}


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


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _overview(results: Results, facts: ByFragment, pages: Iterable[str]) -> Iterator[str]:
    yield from (MADE, "# Measured layouts", "")
    yield "Which lane and element of a warp holds which matrix element. `tcprobe show` prints a table, `compare`"
    yield "checks it against references, `why-not` says why there is none, and `site` makes a page of each."
    yield ""
    yield from (f"- [{name}]({name}): {PAGES[name]}" for name in pages)
    yield "- `sm_XX/METHOD/EXPERIMENT.json`: a measurement; `layouts/LAYOUT.json`: a layout, named by its content"
    yield from ("", "## Runs", "")
    yield from runs.table(results)
    yield from fragments.sections(facts)
    yield from descriptors.sections(results)
    yield from ("", "## References", "")
    yield from (f"- {reference.NAME}: {reference.SOURCE}" for reference in references())
    yield from ("", "Known errata of these sources:", "")
    yield from _errata(results)


def _errata(results: Results) -> Iterator[str]:
    for reference in references():
        for erratum in reference.ERRATA:
            yield f"- {reference.NAME}, {erratum.where}: {erratum.words} (`{erratum.pattern}`)"
    device = arch.arch(results.archs()[-1])
    seen = set()
    for fragment in inventory.of_a_warp().values():
        for reference in references():
            claim = claim_of(reference, fragment, device)
            if not isinstance(claim, str) and claim.erratum and (claim.where, claim.erratum) not in seen:
                seen.add((claim.where, claim.erratum))
                yield f"- {reference.NAME}, {claim.where}: {claim.erratum} (`{fragment.id}` among others)"
