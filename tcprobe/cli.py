"""The command line: parse, call the library, print. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcprobe import __version__, cli_questions, cli_tools
from tcprobe.errors import UsageError
from tcprobe.options import ARCH, CUDA, JSON, RESULTS, WRITTEN, Named
from tcprobe.shell import Group

if TYPE_CHECKING:
    from tcprobe.results import Results

FAMILY = click.option("--family", type=click.Choice(["wmma", "mma"]), help="Only this family of instructions.")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tcprobe")
def main() -> None:
    """Which lane and register of a warp holds which matrix element of an NVIDIA tensor-core fragment.

    Measured on GPUs, saved as tables, fitted by closed formulas, compared with what others published.
    FRAGMENT names may be shortened as long as they are unique, and may be patterns with * and ?.
    """


for command in (*cli_questions.COMMANDS, *cli_tools.COMMANDS):
    main.add_command(command)


@main.command(short_help="Measure fragments, on a GPU or from machine code.")
@click.argument("patterns", nargs=-1, metavar="[FRAGMENT]...")
@click.option("--arch", "name", metavar="sm_XX|all", help="Compute capability, for example sm_90, or all.")
@click.option(
    "--method",
    type=click.Choice(["auto", "live", "sass"]),
    default="auto",
    show_default=True,
    help="On a live GPU, or from the machine code that ptxas emits; auto: a GPU of the arch if there is one.",
)
@click.option("--device", "index", type=int, metavar="N", help="GPU number N, in CUDA's order.")
@CUDA
@WRITTEN
@click.option("--force", is_flag=True, help="Measure again what is already there.")
@click.option(
    "--limit",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Seconds without an answer after which a launch, or a call of ptxas or nvdisasm, counts as hung.",
)
@click.option("--stages", "show_stages", is_flag=True, help="Print where the worker's time went.")
def run(folder: Path, show_stages: bool, **asked: Any) -> None:
    """Measure fragments, on a live GPU or from machine code, and save their tables.

    Without FRAGMENT: every wmma and dense mma form on a GPU, every wmma fragment from machine code. Without --arch:
    the GPU that is there, else machine code for all archs. What is measured already is kept, so a run that was
    stopped is taken up where it ended.
    """
    from tcprobe import arch
    from tcprobe.backends.process import Worker, sass_worker

    if asked["name"] not in (None, "all"):
        arch.arch(asked["name"])
    worker = Worker(limit=asked["limit"])
    process = None if asked["method"] == "sass" else worker.start()
    early = {}
    if asked["method"] == "sass" and asked["name"] not in (None, "all"):
        from tcprobe.sass import toolchain

        tools = toolchain.find(asked["cuda"], asked["limit"])
        row = arch.arch(asked["name"])
        if row in tools.archs:
            early[row.name] = sass_worker(row.name, tools.ptxas, tools.nvdisasm, asked["limit"]).start()

    from tcprobe import render, runner
    from tcprobe.campaign import Campaign, Request
    from tcprobe.results import Results

    session = runner.Session(worker, process) if process else None
    Results(folder).sweep()
    with render.progress() as tick:
        reports = Campaign(Request(**asked), folder, render.say, tick, early).run(session)
    for report in reports:
        render.run_summary(report, Results(folder))
        if show_stages and report.done:
            render.stages(report.done)
    if any(m.status == "failed" for report in reports for m in report.found):
        sys.exit(1)


@main.command(short_help="Fit closed formulas to saved tables.")
@click.argument("paths", nargs=-1, type=Named(path_type=Path))
@click.option("--sympy", "style", flag_value="sympy", help="Print SymPy expressions.")
@click.option("--latex", "style", flag_value="latex", help="Print LaTeX.")
@JSON
def fit(paths: tuple[Path, ...], style: str | None, as_json: bool) -> None:
    """Fit closed formulas to saved tables.

    PATHS are folders of results, layout files, or CSV files of lane,i,row,col. Default: ./results where it
    has tables, else the published ones.
    """
    from tcprobe.fit import fit as fit_table
    from tcprobe.saved import tables

    found = [(layout, who, table, fit_table(table)) for layout, who, table in tables(paths)]
    if as_json:
        for layout, who, table, fitted in found:
            formula = {n: None if f is None else str(f) for n, f in fitted.formulas.items()}
            click.echo(json.dumps({"layout_id": layout, "of": who, "elements": table.elements, "threads": table.threads,
                                   "fit": fitted.verdict, "formula": formula}))  # fmt: skip
        return
    from tcprobe import render

    render.formulas((layout, who, t, f, _printed(f.formulas, style)) for layout, who, t, f in found)


@main.command(short_help="Where tables agree with what others published.")
@click.argument("names", nargs=-1, metavar="[FILE.csv] [FRAGMENT]...")
@ARCH
@RESULTS
@JSON
def compare(names: tuple[str, ...], name: str | None, folder: Path | None, as_json: bool) -> None:
    """Say where saved tables agree with what others published.

    `compare FILE.csv FRAGMENT` checks somebody's own table of lane,i,row,col. Exit code 1 when something
    differs that is not a stated erratum.
    """
    from tcprobe import lookup

    results = lookup.folder_of(folder)
    if names and (names[0].endswith(".csv") or Path(names[0]).is_file()):
        _compare_file(Path(names[0]), names[1:], name, results)
        return
    from tcprobe.compare import findings, measured_fragments, methods_agree, verdicts
    from tcprobe.references import references

    unexplained = False
    for arch_name in lookup.archs_of(name, results):
        measured = list(measured_fragments(results, arch_name, names))
        if not measured:
            raise UsageError(
                f"nothing of that is measured on {arch_name} in {results.root}; measured: {', '.join(results.archs())}."
            )
        found = [(fragment, m, v) for fragment, m in measured for v in verdicts(fragment, m)]
        agree = list(methods_agree(results, arch_name))
        unexplained |= any(v.unexplained for _, _, v in found) or not all(same for *_, same in agree)
        if as_json:
            for fragment, m, v in found:
                click.echo(json.dumps({"id": fragment.id, "arch": m.arch, "method": m.method, **v.to_json()}))
            continue
        from tcprobe import render

        listed = [(r.NAME, where, pattern, words) for r in references() for pattern, where, words in findings(r)]
        render.comparison(arch_name, found, [] if names else listed)
        render.methods(agree)
    if not results.archs():
        raise UsageError(f"no measurements in {results.root}. `tcprobe run` makes them.")
    sys.exit(1 if unexplained else 0)


@main.command("list", short_help="List fragments, with patterns.")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@ARCH
@FAMILY
@JSON
def list_(patterns: tuple[str, ...], name: str | None, family: str | None, as_json: bool) -> None:
    """List fragments: all, or those that PATTERN means, that an arch has, or of a family."""
    from tcprobe import arch, inventory
    from tcprobe.describe import fragment_entry

    found = inventory.select_or_fail(*patterns, family=family, device=arch.arch(name) if name else None)
    if as_json:
        click.echo(json.dumps([fragment_entry(f) for f in found], indent=1))
        return
    from tcprobe import render

    render.fragments(found)


@main.command(short_help="Formula, map both ways, evidence and verdicts.")
@click.argument("patterns", nargs=-1, required=True, metavar="FRAGMENT...")
@ARCH
@RESULTS
@JSON
def show(patterns: tuple[str, ...], name: str | None, folder: Path | None, as_json: bool) -> None:
    """Show fragments: formulas, the map drawn both ways, where it comes from and what others say.

    Without --arch: the newest arch that has the table; --arch all: every one. What nobody measured on an arch is
    shown as documented, and says so. --json: one object a line.
    """
    from tcprobe import lookup, render
    from tcprobe.compare import verdicts
    from tcprobe.describe import notes
    from tcprobe.describe import shown as described
    from tcprobe.fit import fit as fit_table
    from tcprobe.known import everywhere

    results = lookup.folder_of(folder)
    chosen, without = lookup.chosen(patterns), 0
    for fragment in chosen:
        try:
            found = everywhere(fragment, name, results)
        except UsageError:
            if len(chosen) == 1:
                raise
            found = []
        without += not found
        for known in found:
            if as_json:
                click.echo(json.dumps(described(known, results)))
            else:
                judged = verdicts(fragment, known.measured) if known.measured else []
                render.shown(known, fit_table(known.table), judged, notes(known, results))
    if without == len(chosen):
        raise lookup.no_table(chosen[0], name, results)
    if without:
        click.echo(f"{without} more fragments have no table here; `tcprobe why-not` says why.", err=True)


@main.command("why-not", short_help="Why an arch does not have a fragment.")
@click.argument("fragment")
@click.option("--arch", "name", required=True, metavar="sm_XX", help="Compute capability, for example sm_75.")
@RESULTS
def why_not(fragment: str, name: str, folder: Path | None) -> None:
    """Explain why an arch does not have FRAGMENT, or why there is no table of it."""
    from tcprobe import arch, inventory, lookup

    row, results = arch.arch(name), lookup.folder_of(folder)
    for found in lookup.chosen((fragment,)):
        reason = inventory.why_not(found, row)
        saved = results.find(row.name, found)
        recorded = f"; {saved[0].method}: {saved[0].status}" if saved else "; not measured yet: `tcprobe run` does that"
        words = f" ({saved[0].words})" if saved and saved[0].words else ""
        allowed = f"nothing is in the way: {found.instruction} is allowed on {row.name}"
        click.echo(f"{found.id}: {reason or allowed + recorded}{words}")


def _printed(formulas: dict[str, Any], style: str | None) -> dict[str, str]:
    """Formulas as text: C, or SymPy or LaTeX on demand."""
    if style is None:
        return {name: "no closed form" if f is None else str(f) for name, f in formulas.items()}
    from tcprobe.fit import symbolic

    form = symbolic.latex if style == "latex" else symbolic.expression
    return {name: "no closed form" if f is None else str(form(f)) for name, f in formulas.items()}


def _compare_file(path: Path, names: Sequence[str], name: str | None, results: Results) -> None:
    from tcprobe import inventory, lookup
    from tcprobe.compare import same_but_renumbered, same_slots
    from tcprobe.foreign import read_csv

    if len(names) != 1:
        raise UsageError(f"`tcprobe compare {path} FRAGMENT` needs one fragment; got {len(names)}.")
    stated, fragment = read_csv(path), inventory.resolve(names[0])
    found = lookup.measured(fragment, name, results)
    if not found:
        raise lookup.no_table(fragment, name, results)
    measured = found[-1]
    table = measured.tables[fragment.operand]
    agreed, given, wrong = same_slots(stated, table)
    missing = table.slots - given
    click.echo(f"{path} against {fragment.id} on {measured.arch}: {agreed} of {given} slots agree" + (
        f"; {missing} slots are not stated" if missing else ""))  # fmt: skip
    for line in wrong:
        click.echo(f"  {line}")
    if wrong and fragment.family == "mma" and same_but_renumbered(stated, table):
        click.echo("  The two differ only by a renumbering of rows or columns, which the hardware cannot tell apart.")
    sys.exit(1 if wrong else 0)
