"""The command line: parse, call the library, print. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcprobe import __version__
from tcprobe.cli import descriptor
from tcprobe.cli.options import (
    ARCH,
    ARCHS,
    CUDA,
    JSON,
    SELECTOR,
    WRITTEN,
    Given,
    Named,
    Number,
    Seconds,
    fragment_names,
    read_results,
    several,
    told,
)
from tcprobe.cli.shell import Group
from tcprobe.errors import ProbeError, UsageError

if TYPE_CHECKING:
    from tcprobe.ask.absent import WhyNot
    from tcprobe.store.choose import Layers

MANY = 9  # fragments, from which on only one of a kind is named
SHARED = ("a_smem", "b_smem")  # operands behind descriptors
FAMILY = click.option(
    "--family", type=Given(), metavar="NAME", help="Only this family of instructions: wmma, mma, ldmatrix, ..."
)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tcprobe")
def main() -> None:
    """Which lane and register of a warp holds which matrix element of an NVIDIA tensor-core fragment.

    Measured on GPUs, saved as tables, fitted by closed formulas, compared with what others published.
    FRAGMENT names may be shortened as long as they are unique, and may be patterns with * and ?.
    """


# what other modules have; they are imported when they are asked for
for module, commands in {
    "questions": ("where", "trace", "convert", "emit", "verify"), "reduce": ("reduce",), "swizzle": ("swizzle",),
    "banks": ("banks",), "path": ("path", "load"), "descriptor": ("descriptor",),
    "tools": ("diff", "merge", "lower", "doctor", "pages", "site"),
}.items():  # fmt: skip
    Group.later |= dict.fromkeys(commands, f"tcprobe.cli.{module}")


@main.command(short_help="Measure fragments, on a GPU or from machine code.")
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
    "--family", type=Given(), metavar="NAME", help="Only this family: wmma, wgmma, ...; banks: shared memory's, timed."
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
    if asked["family"] == "banks":
        _time_banks(folder, as_json, asked)
        return
    from tcprobe.isa import arch
    from tcprobe.run.process import Worker, ended_by_errors, sass_worker

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
    if any(m.status == "failed" for report in reports for m in report.found):
        sys.exit(1)


def _time_banks(folder: Path, as_json: bool, asked: dict[str, Any]) -> None:
    """Time every access of shared memory on a live GPU, fit the rule of its banks, and save it."""
    if asked["patterns"] or asked["method"] == "sass" or asked["name"]:
        raise UsageError("--family banks times the accesses of shared memory on the GPU at hand: only --device goes.")
    from tcprobe.run.backend import BackendFaultError
    from tcprobe.run.banks import measured

    try:
        found = measured(asked["index"] or 0, folder=folder)
    except BackendFaultError as error:
        raise ProbeError(str(error)) from None
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, row in found["accesses"].items():
        click.echo(f"{name:22} {row['misfits']} of {row['patterns']} patterns do not fit")
    for name, words in found["failed"].items():
        click.echo(f"{name:22} {words}")
    click.echo(f"{found['provenance']['device']} ({found['arch']}): rule saved in {folder}; `tcprobe banks --rule`")


@main.command(short_help="Fit closed formulas to saved tables.")
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

    found = [(saved, fit_table(saved.table)) for saved in tables(paths)]
    if as_json:
        for saved, fitted in found:
            formula = {n: None if f is None else str(f) for n, f in fitted.formulas.items()}
            click.echo(json.dumps({"layout_id": saved.layout, "of": saved.who or saved.source, "source": saved.source,
                                   "elements": saved.table.elements, "threads": saved.table.threads,
                                   "fit": fitted.verdict, "formula": formula}))  # fmt: skip
        return
    from tcprobe.cli import printing

    printing.formulas((saved, fitted, _printed(fitted.formulas, style)) for saved, fitted in found)


@main.command(short_help="Where tables agree with what others published.")
@click.argument("names", nargs=-1, metavar="[FILE.csv] [FRAGMENT]...")
@SELECTOR
@ARCH
@click.option("--complete", is_flag=True, help="With FILE: a slot that the file leaves out counts as a difference.")
@read_results
@JSON
def compare(names: tuple[str, ...], name: str | None, layers: Layers, as_json: bool, **asked: Any) -> None:
    """Say where saved tables agree with what others published.

    `compare FILE FRAGMENT` checks somebody's own table of lane,i,row,col (- is standard input), and says what is wrong
    with it as a whole: transposed, counted from 1, registers or lane bits exchanged, another arch's table; of metadata
    that of one --selector. Exit code 1 when something differs that is not a stated erratum.
    """
    from tcprobe.store import lookup

    if names and (names[0].endswith((".csv", ".tsv")) or names[0] == "-" or os.path.isfile(names[0])):
        same = _compare_file(names, name, layers, as_json, asked)
    elif asked["selector"] is not None:
        raise UsageError("--selector goes with FILE.csv and its fragment; without a file all selectors are compared.")
    else:
        archs = lookup.archs_of(name, layers)
        found = [_compare_arch(arch_name, names, layers, as_json) for arch_name in archs]
        if not any(count for count, _ in found):
            where = "" if name in (None, "all") else f" on {archs[0]}"
            measured = f"; measured: {', '.join(layers.archs())}" if layers.archs() else ". `tcprobe run` makes tables"
            raise UsageError(f"nothing of that is measured{where} in {layers.words}{measured}.")
        same = all(agrees for _, agrees in found)
    sys.exit(0 if same else 1)


def _compare_arch(name: str, patterns: Sequence[str], layers: Layers, as_json: bool) -> tuple[int, bool]:
    """Compare one arch's tables; how many there are, and whether nothing differs that is not a stated erratum."""
    from tcprobe.ask.compare import findings, measured_fragments, measurements_agree, verdicts
    from tcprobe.references import references

    measured = list(measured_fragments(layers, name, patterns))
    found = [(fragment, saved, v) for fragment, saved in measured for v in verdicts(fragment, saved.measured)]
    agree = list(measurements_agree(layers, name, patterns))
    if as_json:
        for fragment, (m, source, _), v in found:
            head = {"id": fragment.id, "arch": m.arch, "method": m.method, "source": source}
            click.echo(json.dumps({**head, **v.to_json()}))
    elif measured:
        from tcprobe.cli import printing

        listed = [(r.NAME, where, pattern, words) for r in references() for pattern, where, words in findings(r)]
        printing.comparison(name, found, [] if patterns else listed)
        printing.agreement(agree)
    return len(measured), not any(v.unexplained for _, _, v in found) and all(a.same for a in agree)


@main.command("list", short_help="List fragments, with patterns.")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", shell_complete=fragment_names)
@ARCH
@FAMILY
@JSON
def list_(patterns: tuple[str, ...], name: str | None, family: str | None, as_json: bool) -> None:
    """List fragments: all, or those that PATTERN means, that an arch has, or of a family.

    Operands in shared memory behind descriptors, and instructions that hold nothing in registers, follow them.
    """
    from tcprobe.ask.behind import entry
    from tcprobe.ask.describe import form_entry, fragment_entry
    from tcprobe.isa import arch, inventory
    from tcprobe.store import names

    device, patterns = arch.arch(name) if name else None, tuple(names.joined(patterns))
    shared = inventory.described(*patterns, family=family, device=device)
    forms = inventory.bare(*patterns, family=family, device=device)
    registers = [p for p in patterns if inventory.matches(p) or not (inventory.bare(p) or inventory.described(p))]
    only_others = bool(patterns) and not registers
    found = [] if only_others else inventory.select_or_fail(*registers, family=family, device=device)
    if as_json:
        entries = [*map(fragment_entry, found), *map(entry, shared), *map(form_entry, forms)]
        click.echo(json.dumps(entries, indent=1))
        return
    from tcprobe.cli import printing

    printing.fragments(found, shared, forms)


@main.command(short_help="Formula, map both ways, evidence and verdicts.")
@click.argument("patterns", nargs=-1, required=True, metavar="FRAGMENT...", shell_complete=fragment_names)
@SELECTOR
@descriptor.fields
@ARCHS
@read_results
@JSON
def show(
    patterns: tuple[str, ...], name: str | None, layers: Layers, as_json: bool, selector: int | None, **asked: Any
) -> None:
    """Show fragments: formulas, the map drawn both ways, where it comes from and what others say.

    Without --arch: of the archs measured in ./results, if it has any, else of all, the one with the strongest method,
    then the newest; --arch all: every one; --arch sm_70,sm_90: their formulas side by side. What nobody measured on an
    arch is shown as documented, and says so. Metadata (operand e of mma.sp) has a table for each selector. An operand
    in shared memory (a_smem and b_smem of wgmma) is shown behind a descriptor with --swizzle, --major, --lbo, --sbo,
    --base-offset, --start. --json: one object a line.
    """
    patterns = _behind(patterns, layers, as_json, asked)
    if not patterns:
        return
    from tcprobe.ask.compare import verdicts
    from tcprobe.ask.describe import notes
    from tcprobe.ask.describe import shown as described
    from tcprobe.cli import printing
    from tcprobe.fit import fit as fit_table
    from tcprobe.store import lookup, names
    from tcprobe.store.cell import everywhere, selections

    if name and "," in name:
        _side_by_side(patterns, several(name), layers, as_json)
        return
    (chosen, spoken), without = names.chosen(patterns, name, layers), 0
    told(*spoken)
    for fragment in chosen:
        try:
            cells = everywhere(fragment, name, layers)
        except UsageError:
            if len(chosen) == 1:
                raise
            cells = []
        without += not cells
        wanted = selector if fragment.selectors or len(chosen) == 1 else None
        for cell in (one for each in cells for one in selections(each, wanted)):
            if as_json:
                click.echo(json.dumps(described(cell)))
            else:
                judged = verdicts(fragment, cell.measured) if cell.measured else []
                printing.shown(cell, fit_table(cell.table), judged, notes(cell))
    if without == len(chosen):
        raise lookup.no_table(chosen[0], name, layers)
    if without:
        click.echo(f"{without} more fragments have no table here; `tcprobe why-not` says why.", err=True)


def _side_by_side(patterns: Sequence[str], archs: Sequence[str | None], layers: Layers, as_json: bool) -> None:
    """Fragments on several archs: formulas, layout and evidence of each; what one does not have is said."""
    from tcprobe.ask.describe import shown as described
    from tcprobe.cli import answers
    from tcprobe.isa.arch import arch as arch_row
    from tcprobe.store import lookup, names
    from tcprobe.store.cell import cell

    chosen, spoken = names.chosen(patterns, archs[-1], layers)
    told(*spoken)
    for fragment in chosen:
        cells, missing = [], []
        for at in archs:
            try:
                cells.append(cell(fragment, at, layers))
            except UsageError as error:
                if not fragment.target.on(arch_row(at or "")):
                    missing.append(f"{arch_row(at or '').name} does not have it")
                else:
                    missing.append(str(error))
        if not cells:
            raise lookup.no_table(fragment, archs[0], layers)
        if as_json:
            for one in cells:
                click.echo(json.dumps(described(one)))
        else:
            answers.side_by_side(cells)
        told(*missing)


def _behind(patterns: tuple[str, ...], layers: Layers, as_json: bool, asked: dict[str, Any]) -> tuple[str, ...]:
    """Show those that are operands in shared memory; the others."""
    from tcprobe.isa import inventory

    behind = [pattern for pattern in patterns if inventory.short(pattern).endswith(SHARED)]
    given = [f"--{option.replace('_', '-')}" for option in descriptor.NAMES if asked[option] is not None]
    if given and not behind:
        raise UsageError(f"{', '.join(given)} is for operands in shared memory: wgmma.m64n8k16.f32.f16.f16.b_smem.")
    for pattern in behind:
        from tcprobe.ask.behind import shared

        descriptor.shown(shared(pattern), layers, asked, as_json)
    return tuple(pattern for pattern in patterns if pattern not in behind)


@main.command("why-not", short_help="Why an arch does not have a fragment.")
@click.argument("fragment", nargs=-1, required=True, shell_complete=fragment_names)
@click.option(
    "--arch", "name", type=Given(), required=True, metavar="sm_XX", help="Compute capability, for example sm_75."
)
@read_results
@JSON
def why_not(fragment: tuple[str, ...], name: str, layers: Layers, as_json: bool) -> None:
    """Explain why an arch does not have FRAGMENT, or why there is no table of it. --json: one object a line."""
    from tcprobe.ask.absent import why_not as explained
    from tcprobe.ask.absent import why_not_form
    from tcprobe.isa import arch, inventory
    from tcprobe.store import names
    from tcprobe.store.lookup import some

    asked, row = " ".join(fragment), arch.arch(name)
    forms = inventory.bare(asked)
    found = [] if forms and not inventory.matches(asked) else names.like(asked, layers)
    answers = [*(explained(one, row, layers) for one in found), *(why_not_form(form, row, layers) for form in forms)]
    if as_json:
        click.echo("\n".join(json.dumps(answer.to_json()) for answer in answers))
        return
    groups: dict[object, list[WhyNot]] = {}
    for answer in answers:
        same = answer.words if len(answers) < MANY else (answer.allowed, answer.measured)
        groups.setdefault(same, []).append(answer)
    for alike in groups.values():
        click.echo(f"{some([answer.id for answer in alike], 1 if len(answers) >= MANY else MANY)}: {alike[0].words}")


def _printed(formulas: dict[str, Any], style: str | None) -> dict[str, str]:
    """Formulas as text: C, or SymPy or LaTeX on demand."""
    if style is None:
        return {name: "no closed form" if f is None else str(f) for name, f in formulas.items()}
    from tcprobe.fit import symbolic

    form = symbolic.latex if style == "latex" else symbolic.expression
    return {name: "no closed form" if f is None else str(form(f)) for name, f in formulas.items()}


def _compare_file(
    names: Sequence[str], arch_name: str | None, layers: Layers, as_json: bool, asked: dict[str, Any]
) -> bool:
    """Compare a CSV file with what is measured of a fragment; whether all that it states is so."""
    from tcprobe.ask.compare import against
    from tcprobe.cli import answers
    from tcprobe.layout.csv import read_csv
    from tcprobe.store import lookup
    from tcprobe.store.cell import selection
    from tcprobe.store.names import meant

    if len(names) < 2:
        raise UsageError(f"`tcprobe compare {names[0]} FRAGMENT` needs a fragment.")
    stated = read_csv(Path(names[0]))
    measured, note = meant(" ".join(names[1:]), arch_name, layers)
    measured, fragment = selection(measured, asked["selector"]), measured.fragment
    told(note)
    if not measured.measured:
        raise lookup.no_table(fragment, arch_name, layers)
    found = against(stated, fragment, measured.table, layers)
    if as_json:
        head = {"file": names[0], "id": fragment.id, "arch": measured.arch, "source": measured.source}
        click.echo(json.dumps({**head, "evidence": measured.evidence, **found._asdict()}))
    else:
        answers.against(names[0], measured, found)
    return not found.first and not (asked["complete"] and found.holes)
