"""`run` and `fit`: from probes to tables, from tables to formulas."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcprobe.errors import EnvironmentUnfitError, UsageError
from tcprobe.question.answers import Answer, declare, plain
from tcprobe.question.naming import named
from tcprobe.question.options import JSON, WRITTEN, Named, NonEmptyText, Number, Output, Seconds
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.fit.formula import Formula
    from tcprobe.run.campaign import Report, Request
    from tcprobe.run.fleet import JobOutcome


@click.command(short_help="Measure fragments, on a GPU or from machine code.")
@click.argument("patterns", nargs=-1, metavar="[FRAGMENT]...")
@click.option("--arch", type=NonEmptyText(), metavar="sm_XX|all", help="Compute capability, for example sm_90, or all.")
@click.option(
    "--method",
    type=click.Choice(["auto", "live", "sass"]),
    default="auto",
    show_default=True,
    help="On a live GPU, or from the machine code that ptxas emits; auto: a GPU of the arch if there is one.",
)
@click.option("--device", "index", type=Number(), metavar="N", help="GPU number N, in CUDA's order.")
@click.option(
    "--family",
    type=NonEmptyText(),
    metavar="NAME",
    help="Only this family: wmma, wgmma, ...; or a kind of finding: banks, cost, numerics, tma, ...",
)
@click.option(
    "--cuda",
    "toolkits",
    multiple=True,
    type=Named(exists=True, file_okay=False),
    help="CUDA toolkit folder whose ptxas, and nvdisasm if it has one, to use; with --method sass several. "
    "Default: CUDA_HOME, the installed wheels, PATH.",
)
@WRITTEN
@click.option("--force", is_flag=True, help="Measure again what is already there.")
@click.option(
    "--limit",
    type=Seconds(),
    default=60,
    metavar="SECONDS",
    show_default=True,
    help="Seconds without an answer after which a launch, or a call of ptxas or nvdisasm, counts as hung.",
)
@click.option(
    "--report",
    "report",
    type=Output(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write one file with all that is measured of these devices and archs, for others to merge.",
)
@click.option(
    "--scheduler",
    type=NonEmptyText(),
    metavar="ADDRESS",
    help="Run on the workers of a Dask scheduler at tcp://HOST:PORT: each kind of GPU once, each compiler and arch "
    "once. What they find is merged, as by `tcprobe merge`.",
)
@click.option("--stages", "show_stages", is_flag=True, help="Print where the worker's time went.")
@JSON
@named("patterns", "one")
def run(
    arch: str | None,
    folder: Path,
    toolkits: tuple[Path, ...],
    report: Path | None,
    scheduler: str | None,
    show_stages: bool,
    as_json: bool,
    **selection: Any,
) -> None:
    """Measure fragments, on a live GPU or from machine code, and save their tables.

    Without FRAGMENT: on a GPU every form; from machine code every wmma fragment and what follows from it. Without
    --arch: your GPU, or without one the machine code of all archs. What is already measured is kept, so a run that was
    stopped continues where it ended. With --cuda that toolkit's ptxas assembles the probes, on a GPU too, where the
    driver's compiler may be too old for a form. --json prints one object per device or arch.
    """
    from tcprobe.isa.arch import arch as named_arch
    from tcprobe.run.backend import ended_by_errors, live_worker, sass_worker
    from tcprobe.run.campaign import Request
    from tcprobe.sass import toolchain

    cuda = next(iter(toolkits), None)
    request = Request(arch=arch, cuda=cuda, **selection)
    _check(toolkits, request)
    if scheduler:
        for option, value in {"--report": report, "--stages": show_stages, "--device": request.index}.items():
            if value not in (None, False):
                raise UsageError(f"{option} is for one machine, and {scheduler} uses several: give only one of them.")
        _run_fleet(scheduler, request, toolkits, folder, as_json)
        return
    from_code = request.method == "sass"
    worker = live_worker(toolchain.compiler(cuda) if cuda else None, request.limit)
    process = None if from_code else worker.start()
    early = {}
    if from_code and arch not in (None, "all"):
        tools, row = toolchain.find(cuda, request.limit), named_arch(str(arch))
        if row in tools.archs:
            early[row.name] = sass_worker(row.name, tools.ptxas, tools.nvdisasm, request.limit).start()

    with ended_by_errors(process, *early.values()):
        from tcprobe.cli import printing
        from tcprobe.question import terminal
        from tcprobe.run import runner
        from tcprobe.run.campaign import Campaign
        from tcprobe.run.survey import read_beside
        from tcprobe.store.results import Results

        session = runner.Session(worker, process) if process else None
        Results(folder).sweep()
        with terminal.progress("compiling") as tick:
            reports = Campaign(request, folder, printing.say, tick, early).run(session)
        others, conflicts = read_beside(toolkits[1:], request, folder, printing.say)
        reports += others
    for device_report in reports:
        _print(device_report, folder, as_json, show_stages)
    if report:
        _write_report(report, folder, reports)
    for conflict in conflicts:
        click.echo(escaped(f"conflict: {conflict}"), err=True)
    if conflicts or any(finding.status == "failed" for device_report in reports for finding in device_report.every):
        sys.exit(1)


def _check(toolkits: Sequence[Path], request: Request) -> None:
    """UsageError for options that contradict each other, and for an arch, family or kind of finding that is none."""
    from tcprobe.isa import inventory
    from tcprobe.isa.arch import arch
    from tcprobe.isa.names import search
    from tcprobe.run.campaign import KINDS
    from tcprobe.store import kinds

    if len(toolkits) > 1 and request.method != "sass":
        raise UsageError("several --cuda need --method sass, which reads machine code.")
    kind_names = [*kinds.names(), *KINDS]
    if request.family not in (None, *inventory.families(), *kind_names):
        raise search.no_family(request.family or "", kind_names)
    if request.arch not in (None, "all"):
        arch(request.arch)
    if request.method == "sass" and request.index is not None:
        raise UsageError("--device selects a live GPU, and --method sass reads machine code: give only one of them.")


def _run_fleet(scheduler: str, request: Request, toolkits: Sequence[Path], folder: Path, as_json: bool) -> None:
    """A request by the workers of a Dask scheduler; exit code 1 where a job was given up, or findings conflict."""
    from tcprobe.cli import printing
    from tcprobe.run.fleet import Fleet
    from tcprobe.run.fleet_dask import DaskCrew
    from tcprobe.store.results import Results

    crew = DaskCrew(scheduler, request.limit)
    try:
        folders = [str(path.resolve()) for path in toolkits] or [""]
        fleet = Fleet(crew, request, folders, printing.say, request.limit)
        outcomes, conflicts = fleet.run(Results(folder))
    finally:
        crew.close()
    for job_outcome in outcomes:
        _print_outcome(job_outcome, folder, as_json)
    for conflict in conflicts:
        click.echo(escaped(f"conflict: {conflict}"), err=True)
    if conflicts or any(job_outcome.words is not None for job_outcome in outcomes):
        sys.exit(1)


def _print_outcome(job_outcome: JobOutcome, folder: Path, as_json: bool) -> None:
    from tcprobe.cli import printing

    if as_json:
        click.echo(_line(job_outcome, folder))
        return
    for complaint in job_outcome.complaints:
        printing.say(f"{job_outcome.key}: {complaint}")
    if job_outcome.words is not None:
        click.echo(escaped(f"{job_outcome.key}: given up: {job_outcome.words}"))
        return
    earlier = f", {job_outcome.kept} known before" if job_outcome.kept else ""
    click.echo(escaped(f"{job_outcome.key}: {len(job_outcome.findings)} findings{earlier}, from {job_outcome.machine}"))


def _line(done: Report | JobOutcome, folder: Path) -> str:
    """What `--json` prints."""
    from tcprobe.run.campaign import RunLine

    return json.dumps(plain(RunLine.of(done.answer, results=str(folder))))


def _print(device_report: Report, folder: Path, as_json: bool, show_stages: bool) -> None:
    from tcprobe.cli import printing
    from tcprobe.store.results import Results

    if as_json:
        click.echo(_line(device_report, folder))
        return
    printing.run_summary(device_report, Results(folder))
    if show_stages and device_report.job_end:
        printing.stages(device_report.job_end)


def _write_report(path: Path, folder: Path, reports: Sequence[Report]) -> None:
    """Write what the folder has of the archs of a run, by the methods that it took."""
    from tcprobe.run import merge
    from tcprobe.store.finding import FROM_CODE
    from tcprobe.store.results import Results

    live = {device_report.device.arch for device_report in reports if device_report.device.method == "live"}
    read = {device_report.device.arch for device_report in reports if device_report.device.method != "live"}
    findings = [f for f in merge.own(Results(folder)) if f.arch in (read if f.method in FROM_CODE else live)]
    if not findings:
        raise EnvironmentUnfitError(f"nothing was measured, so there is no report: {path} was not written.")
    merge.write_report(path, findings)
    click.echo(escaped(f"{len(findings)} findings in {path}; `tcprobe merge` adds them."), err=True)


class FitAnswer(Answer):
    """The formulas of a layout, one object per line."""

    layout_id: str
    of_: str | None
    source: str
    elements: int
    threads: int
    fit: str
    formula: dict[str, str | None]


declare("fit", FitAnswer)
declare("run", "tcprobe.run.campaign:RunLine")


@click.command(short_help="Fit closed formulas to saved tables.")
@click.argument("paths", nargs=-1, type=Named(path_type=Path))
@click.option("--sympy", "style", flag_value="sympy", help="Print SymPy expressions.")
@click.option("--latex", "style", flag_value="latex", help="Print LaTeX.")
@JSON
def fit(paths: tuple[Path, ...], style: str | None, as_json: bool) -> None:
    """Fit closed formulas to saved tables.

    PATHS are results folders, layout files, or CSV files of lane,i,row,col. Default: the layouts in ./results, and the
    published ones.
    """
    from tcprobe.ask.saved import tables
    from tcprobe.fit import fit as fit_table

    fits = [(saved, fit_table(saved.table)) for saved in tables(paths)]
    if as_json:
        for saved, fitted in fits:
            formula = {n: None if f is None else str(f) for n, f in fitted.formulas.items()}
            answer = FitAnswer.of(
                saved.table,
                layout_id=saved.layout,
                of_=saved.who or saved.source,
                source=saved.source,
                fit=fitted.verdict,
                formula=formula,
            )
            click.echo(json.dumps(plain(answer)))
        return
    from tcprobe.cli import printing

    printing.formulas((saved, fitted, _formula_texts(fitted.formulas, style)) for saved, fitted in fits)


def _formula_texts(formulas: Mapping[str, Formula | None], style: str | None) -> dict[str, str]:
    """Formulas as text: C, or SymPy or LaTeX on demand."""
    if style is None:
        return {name: "no closed form" if f is None else str(f) for name, f in formulas.items()}
    from tcprobe.fit import symbolic

    form = symbolic.latex if style == "latex" else symbolic.expression
    return {name: "no closed form" if f is None else str(form(f)) for name, f in formulas.items()}


COMMANDS = (run, fit)
