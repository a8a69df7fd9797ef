"""`run` and `fit`: from probes to tables, from tables to formulas."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from tcprobe.cli.options import (
    CUDA,
    JSON,
    WRITTEN,
    Given,
    Named,
    Number,
    Seconds,
)
from tcprobe.errors import UsageError


@click.command(short_help="Measure fragments, on a GPU or from machine code.")
@click.argument("patterns", nargs=-1, metavar="[FRAGMENT]...")
@click.option(
    "--arch", "name", type=Given(), metavar="sm_XX|all", help="Compute capability, for example sm_90, or all."
)
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
    type=Given(),
    metavar="NAME",
    help="Only this family: wmma, wgmma, ...; or a kind of finding: banks, descriptors, numerics, tma, undocumented.",
)
@CUDA
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
@click.option("--stages", "show_stages", is_flag=True, help="Print where the worker's time went.")
@JSON
def run(folder: Path, show_stages: bool, as_json: bool, **asked: Any) -> None:
    """Measure fragments, on a live GPU or from machine code, and save their tables.

    Without FRAGMENT: every form on a GPU; every wmma fragment from machine code, and what follows. Without --arch: the
    GPU that is there, else machine code for all archs. What is measured already is kept, so a run that was stopped is
    taken up where it ended. --json: one object a device or arch.
    """
    from tcprobe.isa import arch
    from tcprobe.run.process import Worker, ended_by_errors, sass_worker

    _check_family(asked["family"])
    if asked["name"] not in (None, "all"):
        arch.arch(asked["name"])
    if asked["method"] == "sass" and asked["index"] is not None:
        raise UsageError("--device means a live GPU; --method sass reads machine code.")
    worker = Worker(limit=asked["limit"])
    process = None if asked["method"] == "sass" else worker.start()
    early = {}
    if asked["method"] == "sass" and asked["name"] not in (None, "all"):
        from tcprobe.sass import toolchain

        tools = toolchain.find(asked["cuda"], asked["limit"])
        row = arch.arch(asked["name"])
        if row in tools.archs:
            early[row.name] = sass_worker(row.name, tools.ptxas, tools.nvdisasm, asked["limit"]).start()

    with ended_by_errors(process, *early.values()):
        from tcprobe.cli import printing
        from tcprobe.run import runner
        from tcprobe.run.campaign import Campaign, Request
        from tcprobe.store.results import Results

        session = runner.Session(worker, process) if process else None
        Results(folder).sweep()
        with printing.progress() as tick:
            reports = Campaign(Request(**asked), folder, printing.say, tick, early).run(session)
    for report in reports:
        if as_json:
            click.echo(json.dumps(report.to_json() | {"results": str(folder)}))
            continue
        printing.run_summary(report, Results(folder))
        if show_stages and report.done:
            printing.stages(report.done)
    if any(finding.status == "failed" for report in reports for finding in report.every):
        sys.exit(1)


def _check_family(family: str | None) -> None:
    """UsageError, which names the kinds of findings too, unless there is such a family."""
    from tcprobe.isa import inventory, wrong_names
    from tcprobe.run.runner import KINDS
    from tcprobe.store import kinds

    known = [*kinds.names(), *KINDS]
    if family not in (None, *inventory.families(), *known):
        raise wrong_names.no_family(family or "", known)


@click.command(short_help="Fit closed formulas to saved tables.")
@click.argument("paths", nargs=-1, type=Named(path_type=Path))
@click.option("--sympy", "style", flag_value="sympy", help="Print SymPy expressions.")
@click.option("--latex", "style", flag_value="latex", help="Print LaTeX.")
@JSON
def fit(paths: tuple[Path, ...], style: str | None, as_json: bool) -> None:
    """Fit closed formulas to saved tables.

    PATHS are folders of results, layout files, or CSV files of lane,i,row,col. Default: the layouts in ./results, and
    the published ones.
    """
    from tcprobe.ask.saved import tables
    from tcprobe.fit import fit as fit_table

    fits = [(saved, fit_table(saved.table)) for saved in tables(paths)]
    if as_json:
        for saved, fitted in fits:
            formula = {n: None if f is None else str(f) for n, f in fitted.formulas.items()}
            click.echo(json.dumps({"layout_id": saved.layout, "of": saved.who or saved.source, "source": saved.source,
                                   "elements": saved.table.elements, "threads": saved.table.threads,
                                   "fit": fitted.verdict, "formula": formula}))  # fmt: skip
        return
    from tcprobe.cli import printing

    printing.formulas((saved, fitted, _printed(fitted.formulas, style)) for saved, fitted in fits)


def _printed(formulas: dict[str, Any], style: str | None) -> dict[str, str]:
    """Formulas as text: C, or SymPy or LaTeX on demand."""
    if style is None:
        return {name: "no closed form" if f is None else str(f) for name, f in formulas.items()}
    from tcprobe.fit import symbolic

    form = symbolic.latex if style == "latex" else symbolic.expression
    return {name: "no closed form" if f is None else str(form(f)) for name, f in formulas.items()}


COMMANDS = (
    run,
    fit,
)
