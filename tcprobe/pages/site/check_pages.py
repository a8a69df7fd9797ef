"""What `tcprobe check` finds in packages, which mistakes it finds in kernels that had none, and what it looks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tcprobe.check.rule import rules
from tcprobe.pages import checks
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.markup import ListPart, View, cells, filled, list_page
from tcprobe.store.surveys import CheckedPackage, SavedMistakes, load_checks, load_mistakes

T = TypeVar("T")

CHECK_PAGE = "checks.html"
ABOUT = (
    "tcprobe check reads the machine code of compiled kernels. An error makes results wrong; a warning is where code "
    "takes more than it would need, and whether that matters for a kernel's time, a profile says."
)
SURVEYED = (
    "Packages as published, and Triton's tutorials as each version compiles them. Undecided are accesses of shared "
    "memory whose addresses lanes load, or compute from what a launch gives."
)
TRIED = (
    "An instruction of a kernel that is right is changed, and a rule must find it; changes that break nothing are "
    "left out. Undecided are places where the rule has a note, in the right kernel too."
)
WAVEFRONTS = "Each wavefront more is a cycle of an SM's shared memory for each warp that executes the instruction."


def check_pages(facts: Facts) -> Iterator[View]:
    """The page, where a folder has a survey."""
    packages = _nearest(facts, load_checks)
    if not packages:
        return
    packages = sorted(packages, key=checks.place)
    parts = [
        ListPart(
            "Packages", "packages", SURVEYED, checks.HEADS, [cells(*checks.row(one)) for one in packages], sorts=True
        ),
        _errors(packages),
        _worst(packages),
        _mistakes(_nearest(facts, load_mistakes)),
        _rules(),
    ]
    title = "What check finds in compiled kernels"
    yield list_page(CHECK_PAGE, title, "What is wrong or slow in kernels of packages", [ABOUT], filled(parts))


def _nearest(facts: Facts, load: Callable[[Path], T]) -> T | None:
    """What the nearest folder has that has any."""
    return next(filter(None, (load(layer.results.root) for layer in facts.layers.layers)), None)


def _errors(packages: Sequence[CheckedPackage]) -> ListPart:
    """A row for each thing that reading them by hand said."""
    together: dict[str, list[str]] = {}
    for where, count, argued in checks.errors(packages):
        together.setdefault(argued or "Not read yet.", []).append(f"{where}: {count}")
    rows = [cells("; ".join(each), argued) for argued, each in together.items()]
    return ListPart("Errors, read by hand", "errors", "", ("where, and how many", "what they are"), rows)


def _worst(packages: Sequence[CheckedPackage]) -> ListPart:
    heads = ("package", "arch", "kernel", "address", "wavefronts", "would do")
    rows = [
        cells(
            f"{one.package} {one.version}",
            one.arch,
            found.kernel[: checks.MOST_NAME],
            f"{found.address:#x}",
            *(f"{found.numbers[name]:g}" for name in ("wavefronts", "least")),
        )
        for one, found in checks.worst(packages)
    ]
    return ListPart("The bank conflicts that cost most", "conflicts", WAVEFRONTS, heads, rows, sorts=True)


def _mistakes(saved: SavedMistakes | None) -> ListPart:
    heads = ("mistake", "rule", "tried", "found", "undecided", "break nothing")
    rows = [
        cells(kind, one.rule, one.tried, one.found, one.undecided, sum(one.harmless.values()))
        for kind, one in (saved.kinds.items() if saved else ())
    ]
    return ListPart("Mistakes put into right kernels", "mistakes", TRIED, heads, rows, sorts=True)


def _rules() -> ListPart:
    heads = ("rule", "severity", "what it finds", "what to do")
    rows = [cells(rule.NAME, rule.SEVERITY, rule.SAYS, rule.FIX) for rule in rules().values()]
    return ListPart(
        "Rules", "rules", "tcprobe check --rules prints the evidence of each, and two examples.", heads, rows
    )
