"""What `tcprobe check` finds in packages that hold tensor-core code: a page of the survey that a folder keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tcprobe.pages.tables import page
from tcprobe.store.surveys import CheckedPackage, JudgedFinding, NamedFinding, SampledPackage

HEADS = ("package", "arch", "kernels", "errors", "warnings, by rule", "undecided of shared", "CPU s")

SAMPLE_HEADS = ("package", "archs", "cubins", "kernels", "kernels with errors", "kernels with warnings by text")

MOST_NAME = 120  # characters of a kernel's name


def place(one: CheckedPackage) -> tuple[str, str, int]:
    """What sorts packages: by name, version and arch."""
    return one.package.lower(), one.version, int(one.arch.removeprefix("sm_"))


def row(one: CheckedPackage) -> list[str]:
    """A line of the table."""
    errors = sum(count for what, count in one.findings.items() if what.endswith(" error"))
    warnings = [f"{what.split()[0]} {count}" for what, count in one.findings.items() if what.endswith(" warning")]
    share = f"{one.undecided} of {one.shared_accesses}"
    share += f" ({one.undecided / one.shared_accesses:.1%})" if one.shared_accesses else ""
    part = "" if one.files == one.files_of else f", {one.files} of {one.files_of} files"
    unread = f", {one.unread} not read" if one.unread else ""
    about = [f"{one.package} {one.version}{part}", one.arch, f"{one.kernels:,}{unread}"]
    return [*about, str(errors), ", ".join(warnings) or "none", share, f"{one.seconds:g}"]


def errors(packages: Sequence[CheckedPackage]) -> list[tuple[str, int, str]]:
    """(where errors of one kind are, how many, what reading them by hand said), each kind once."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in packages:
        for found in one.errors:
            counts[f"{found.rule}: {one.package} {one.version}, {one.arch}", found.argued] += 1
    return [(where, count, argued) for (where, argued), count in counts.items()]


def worst(packages: Sequence[CheckedPackage], most: int = 12) -> list[tuple[CheckedPackage, NamedFinding]]:
    """The conflicts that cost most, one for each package, kernel and text."""
    every = [(one, found) for one in packages for found in one.conflicts]
    every.sort(key=lambda each: each[1].numbers["least"] - each[1].numbers["wavefronts"])
    first = {(one.package, found.kernel, found.text): (one, found) for one, found in reversed(every)}
    return list(reversed(first.values()))[:most]


def sample_row(one: SampledPackage) -> list[str]:
    """A line of the table of samples."""
    words = []
    for severity in ("error", "warning"):
        verdicts = Counter[str]()
        for found in one.findings:
            if found.severity == severity:
                verdicts[found.verdict or "not read"] += found.kernels
        words.append(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or "0")
    name, _, version = one.package.partition("-")
    return [
        f"{name} {version}{', held out' if one.held_out else ''}",
        one.archs.replace(",", ", "),
        f"{one.cubins:,} of {one.of:,}",
        f"{one.kernels:,}",
        *words,
    ]


def judged(samples: Sequence[SampledPackage]) -> list[tuple[str, JudgedFinding]]:
    """(package, finding), errors first."""
    every = [(one.package.replace("-", " ", 1), found) for one in samples for found in one.findings]
    return sorted(every, key=lambda each: (each[1].severity, each[0]))


def checks_page(packages: Sequence[CheckedPackage], samples: Sequence[SampledPackage] = ()) -> list[str]:
    """The page's lines."""
    ordered = sorted(packages, key=place)
    accesses, undecided = (sum(getattr(one, name) for one in packages) for name in ("shared_accesses", "undecided"))
    return page(
        "checks.md",
        HEADS=HEADS,
        MOST_NAME=MOST_NAME,
        rows=[row(one) for one in ordered],
        kernels=f"{sum(one.kernels for one in packages):,}",
        accesses=f"{accesses:,}",
        share=f"{undecided / max(accesses, 1):.1%}",
        errors=errors(ordered),
        worst=worst(ordered),
        SAMPLE_HEADS=SAMPLE_HEADS,
        samples=[sample_row(one) for one in samples],
        sampled=f"{sum(one.kernels for one in samples):,}",
        packages=len({one.package for one in samples}),
        judged=judged(samples),
    )
