"""What the commands print. Results go to stdout, all talk to stderr."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tcprobe.ask.compare import STYLE
from tcprobe.fit import Fit
from tcprobe.fit.formula import manual_names
from tcprobe.question.terminal import BAD, NAME, bold, line
from tcprobe.store.choose import some
from tcprobe.store.finding import TABLE, Measurement
from tcprobe.store.results import Results
from tcprobe.text import escaped

if TYPE_CHECKING:  # brings NumPy along
    from tcprobe.ask.saved import Saved
    from tcprobe.run.campaign import Report
    from tcprobe.run.runner import JobEnd
    from tcprobe.store.finding import Finding

FEW = 2  # names that a count is shown with
MANY = 12  # names, above which a count stands for them


def say(text: str) -> None:
    """A line of talk."""
    line(escaped(text), err=True)


def run_summary(report: Report, results: Results) -> None:
    """What was measured on a device, what was refused and in which words, what failed, and where it is."""
    from tcprobe.probes import experiments
    from tcprobe.store import findings, kinds

    device, measurements = report.device, report.measurements
    tools = device.compiler if device.method == "sass" else f"driver {device.driver}, CUDA {device.cuda}"
    click.echo(f"{bold(escaped(device.name))} ({device.arch}), {escaped(tools)}")
    for complaint in report.complaints:
        say(f"measured again, because it cannot be trusted: {complaint}")
    if report.beside:
        count = f"{len(report.beside)} {'tables' if report.kind == TABLE else 'findings'}"
        say(f"{count} measured before are kept; the new outcome is recorded beside them: {report.beside[0]}")
    for contradiction in report.contradictions:
        click.echo(click.style("contradiction: ", **BAD) + escaped(contradiction), err=True)
    if report.unchecked:
        say(f"not checked by a multiply: {some(report.unchecked, 3)}")
    _documented_forms(report.documented)
    counts = Counter((m.status, experiments()[m.experiment].group) for m in measurements)
    counts.update((finding.status, finding.kind) for finding in report.findings)
    for status in ("measured", "refused", "failed"):
        parts = [f"{n} {kind}" for (s, kind), n in sorted(counts.items()) if s == status]
        if parts:
            number = sum(n for (s, _), n in counts.items() if s == status)
            click.echo(f"{click.style(f'{status:<9}', **STYLE[status])}{number:>4}  ({', '.join(parts)})")
    if report.kept:
        click.echo(f"kept     {report.kept:>4}  measured before, same probes and compiler; --force measures again")
    for status in ("refused", "failed"):
        _words(status, [finding for finding in report.every if finding.status == status])
    folder = results.root / device.arch / device.method
    if report.kind == TABLE:
        click.echo(escaped(f"{len(results.layouts())} distinct layouts; tables in {folder}"))
    else:
        measured = [f for f in findings.every(results, report.kind, device.arch) if f.status == "measured"]
        click.echo(
            escaped(f"{kinds.kind(report.kind).words(measured) if measured else 'nothing found'}; saved in {folder}")
        )


def _documented_forms(why: Mapping[str, str]) -> None:
    """How many mma forms are documented only, one line for each kind of reason."""
    kinds: dict[str, dict[str, None]] = {}
    forms = Counter(words.partition(": ")[0] for words in why.values())
    for words in why.values():
        kind, _, detail = words.partition(": ")
        kinds.setdefault(kind, {}).setdefault(detail)
    for kind, details in kinds.items():
        number = f"{forms[kind]} mma form{'s' if forms[kind] > 1 else ''}"
        say(f"documented only, {number}: {kind}: {some(list(details), 2)}")


def _words(status: str, any_findings: Sequence[Measurement | Finding]) -> None:
    by_words: dict[str, list[str]] = {}
    for finding in any_findings:
        by_words.setdefault(finding.words or "", []).append(finding.key.subject)
    for words, names in by_words.items():
        some = names[0] if len(names) == 1 else f"{len(names)} forms, for example {names[0]}"
        click.echo(f"{click.style(f'  {status}: ', **STYLE[status])}{some}: {words}")


def stages(job_end: JobEnd) -> None:
    """Seconds and share of each stage of a worker, and peak memory of it and of this process."""
    from tcprobe.run.worker import peak_memory

    total = sum(job_end.stages.values()) or 1.0
    for stage, spent in sorted(job_end.stages.items(), key=lambda item: -item[1]):
        say(f"  {stage:<10}{spent:8.3f} s {spent / total:6.1%}")
    for name, peak in (("worker", job_end.peak_mb), ("tool", peak_memory())):
        if peak:
            say(f"  peak memory of the {name} {peak:.0f} MB")


def formulas(layout_fits: Iterable[tuple[Saved, Fit, dict[str, str]]]) -> None:
    """`fit`: each layout, who has it and where it is, and its formulas."""
    for saved, fit, printed in layout_fits:
        title = f"{saved.table.threads} threads x {saved.table.elements} elements, {fit.verdict}"
        click.echo(f"{bold(saved.layout)}  {title}  {escaped(', '.join(filter(None, (saved.who, saved.source))))}")
        for name, text in printed.items():
            click.echo(click.style(f"  {name:<8}", **NAME) + text)
        if names := manual_names(fit.formulas.values()):
            line(f"  {names}")
        if fit.contradiction:
            click.echo(f"  not linear: {fit.contradiction}")
