"""What the commands print. Results go to stdout, all talk to stderr; only the progress bar needs rich."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tcprobe import draw
from tcprobe.compare import CONFIRMED, DIFFERS, NOT_COVERED, Verdict
from tcprobe.describe import some
from tcprobe.fit import Fit
from tcprobe.instruction import Fragment
from tcprobe.known import Known
from tcprobe.measurement import Measurement
from tcprobe.results import Results
from tcprobe.table import Table

if TYPE_CHECKING:  # brings NumPy along
    from tcprobe.campaign import Report
    from tcprobe.diff import Difference
    from tcprobe.runner import Done

STYLE: dict[str, dict[str, Any]] = {
    CONFIRMED: {"fg": "green"},
    DIFFERS: {"fg": "red"},
    NOT_COVERED: {"dim": True},
    "measured": {"fg": "green"},
    "refused": {"fg": "yellow"},
    "failed": {"fg": "red"},
}


def bold(text: str) -> str:
    """Text that stands out on a terminal."""
    return click.style(text, bold=True)


def width() -> int:
    """Columns of the terminal, or of COLUMNS; 80 where there is neither."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdigit() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (OSError, ValueError):
        return 80


def say(text: str) -> None:
    """A line of talk."""
    click.echo(text, err=True)


def fragments(rows: Sequence[Fragment]) -> None:
    """`list`: aligned columns, never cut."""
    heads = ("fragment", "rows x cols", "elements x threads", "registers", "from")
    lines = [
        (
            f.id,
            f"{f.rows} x {f.cols}",
            f"{f.elements} x {f.threads}",
            f"{f.registers} x {f.register_bits} bits",
            f.target.name,
        )
        for f in rows
    ]
    widths = [max(len(line[j]) for line in (heads, *lines)) for j in range(len(heads))]
    for line in (heads, *lines):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        click.echo(bold(text) if line is heads else text)
    say(f"{len(rows)} fragments")


@contextmanager
def progress() -> Iterator[Callable[[int, str | None], None]]:
    """A bar on stderr, on a terminal only; yields the function that adds to its total, or advances it."""
    if not sys.stderr.isatty():
        yield lambda _more, _finished: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("compiling", total=0)

        def tick(more: int, finished: str | None) -> None:
            if finished is None:
                bar.update(task, total=(bar.tasks[0].total or 0) + more)
            else:
                bar.update(task, advance=1, description=finished)

        yield tick


def run_summary(report: Report, results: Results) -> None:
    """What was measured on a device, what was refused and in which words, what failed, and where it is."""
    device, found = report.device, report.found
    tools = device.compiler if device.method == "sass" else f"driver {device.driver}, CUDA {device.cuda}"
    click.echo(f"{bold(device.name)} ({device.arch}), {tools}")
    for complaint in report.complaints:
        say(f"measured again, not trusted: {complaint}")
    for contradiction in report.contradictions:
        say(click.style("contradiction: ", fg="red") + contradiction)
    if report.unchecked:
        say(f"not checked by a multiply: {some(report.unchecked, 3)}")
    counts = Counter((m.status, _kind(m.experiment)) for m in found)
    for status in ("measured", "refused", "failed"):
        parts = [f"{n} {kind}" for (s, kind), n in sorted(counts.items()) if s == status]
        if parts:
            number = sum(n for (s, _), n in counts.items() if s == status)
            click.echo(f"{click.style(f'{status:<9}', **STYLE[status])}{number:>4}  ({', '.join(parts)})")
    if report.kept:
        click.echo(f"kept     {report.kept:>4}  measured before with the same probes; --force measures them again")
    for status in ("refused", "failed"):
        _words(status, [m for m in found if m.status == status])
    click.echo(f"{len(results.layouts())} distinct layouts; tables in {results.root / device.arch / device.method}")


def _words(status: str, found: Sequence[Measurement]) -> None:
    by_words: dict[str, list[str]] = {}
    for m in found:
        by_words.setdefault(m.words or "", []).append(m.experiment)
    for words, names in by_words.items():
        some = names[0] if len(names) == 1 else f"{len(names)} forms, for example {names[0]}"
        click.echo(f"{click.style(f'  {status}: ', **STYLE[status])}{some}: {words}")


def _kind(experiment: str) -> str:
    if experiment.startswith("wmma.mma"):
        return "wmma.mma"
    return "wmma fragments" if experiment.startswith("wmma") else "mma"


def stages(done: Done) -> None:
    """Seconds and share of each stage of a worker, and peak memory of it and of this process."""
    from tcprobe.backends.worker import peak_memory

    total = sum(done.stages.values()) or 1.0
    for stage, spent in sorted(done.stages.items(), key=lambda item: -item[1]):
        say(f"  {stage:<10}{spent:8.3f} s {spent / total:6.1%}")
    for name, peak in (("worker", done.peak_mb), ("tool", peak_memory())):
        if peak:
            say(f"  peak memory of the {name} {peak:.0f} MB")


def formulas(rows: Iterable[tuple[str, str, Table, Fit, dict[str, str]]]) -> None:
    """`fit`: (layout, who has it, table, fit, printed formulas) a layout."""
    for layout, who, table, found, printed in rows:
        title = f"{table.threads} threads x {table.elements} elements, {found.verdict}"
        click.echo(f"{bold(layout)}  {title}  {who}")
        for name, text in printed.items():
            click.echo(click.style(f"  {name:<8}", fg="cyan") + text)
        if found.contradiction:
            click.echo(f"  not linear: {found.contradiction}")


def shown(known: Known, fitted: Fit, verdicts: Sequence[Verdict], notes: Sequence[str]) -> None:
    """`show`: formula, notes on its layout, both drawings, provenance, verdicts."""
    table, fragment = known.table, known.fragment
    layout = f" .{fragment.layout}" if fragment.layout else ""
    click.echo(f"{bold(fragment.id)} on {known.arch}")
    click.echo(
        f"operand {fragment.operand.upper()}{layout}, {fragment.rows} x {fragment.cols} of {fragment.type}; "
        f"{fragment.elements} elements a lane in {fragment.registers} registers of {fragment.register_bits} bits"
    )
    for name in table.outputs:
        formula = fitted.formulas[name]
        click.echo(click.style(f"  {name} = ", fg="cyan") + (str(formula) if formula else "no closed form"))
    if fitted.contradiction:
        click.echo(f"  not linear: {fitted.contradiction}")
    for note in notes:
        click.echo(note)
    click.echo(bold("\nelement (row, col) -> lane:i"))
    click.echo("\n".join(draw.matrix(table, width())))
    click.echo(bold("\nlane -> row,col of each register's elements, low bits first"))
    click.echo("\n".join(draw.lanes(table, fragment, width())))
    click.echo()
    click.echo(known.evidence)
    click.echo(f"numbers from: {known.numbering}")
    for verdict in verdicts:
        _verdict(verdict)


def _verdict(verdict: Verdict) -> None:
    click.echo(f"{verdict.reference}: {click.style(verdict.verdict, **STYLE[verdict.verdict])} ({verdict.detail})")
    if verdict.erratum:
        click.echo(f"  stated erratum: {verdict.erratum}")


def comparison(
    name: str,
    found: Sequence[tuple[Fragment, Measurement, Verdict]],
    findings: Sequence[tuple[str, str, str, str]],
) -> None:
    """`compare`: counts by reference, every difference, and the known errors of the sources."""
    counts = Counter((v.reference, v.verdict) for _, _, v in found)
    heads = (f"{name}, against", CONFIRMED, DIFFERS, NOT_COVERED)
    names = list(dict.fromkeys(v.reference for _, _, v in found))
    first = max(map(len, (heads[0], *names)))
    click.echo(bold("  ".join((heads[0].ljust(first), *heads[1:]))))
    for reference in names:
        cells = (str(counts[reference, v]).rjust(len(v)) for v in heads[1:])
        click.echo("  ".join((reference.ljust(first), *cells)))
    for fragment, _, verdict in found:
        if verdict.verdict == DIFFERS:
            click.echo(bold(fragment.id))
            _verdict(verdict)
    errata = dict.fromkeys((v.reference, v.detail.split(":")[0], v.erratum) for _, _, v in found if v.erratum)
    listed = [(r, where, "", words) for r, where, words in errata if words] + [
        (r, where, pattern, words) for r, where, pattern, words in findings
    ]
    if listed:
        click.echo(bold("known errata of the sources"))
    for reference, where, pattern, words in listed:
        click.echo(f"  {reference}, {where}{f' ({pattern})' if pattern else ''}: {words}")


def methods(agree: Sequence[tuple[Fragment, str, str, bool]]) -> None:
    """How far the methods of one arch agree with each other."""
    counts = Counter((first, other, same) for _, first, other, same in agree)
    for first, other in dict.fromkeys((first, other) for _, first, other, _ in agree):
        same, differ = counts[first, other, True], counts[first, other, False]
        click.echo(f"{first} against {other}: {same} fragments have the same table, {differ} another")
    for fragment, first, other, same in agree:
        if not same:
            click.echo(f"{bold(fragment.id)}: {first} and {other} {click.style('differ', fg='red')}")


def difference(title: str, found: Difference) -> None:
    """One comparison of `diff`."""
    ones = f"{len(found.only_left)} only in the first, {len(found.only_right)} only in the second"
    click.echo(f"{bold(title)}: {len(found.same)} same, {len(found.changed)} changed, {ones}")
    for id_, lines in found.changed.items():
        click.echo(click.style("  changed ", fg="red") + id_)
        for line in lines:
            click.echo(f"    {line}")
    for side, ids in (("first", found.only_left), ("second", found.only_right)):
        if ids:
            click.echo(f"  only in the {side}: {some(ids, 8)}")
