"""Questions to compilers, GPUs and machines.

compilers          what several versions of ptxas agree in
verify             the tables on a live GPU
doctor             what a machine can do
contribute         what its GPUs show, for everybody
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click

from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch as named
from tcprobe.question import terminal
from tcprobe.question.arguments import ArchName, arch_name
from tcprobe.question.declare import NameWords, Option, PlainArgument, command, note
from tcprobe.question.naming import split_names
from tcprobe.question.options import Minutes, Named, NonEmptyText, Output, Seconds
from tcprobe.question.shared import CudaOption, JsonOption, OnlyOption, ResultsOption
from tcprobe.store.choose import layers
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.run.backend import Device
    from tcprobe.run.contribute import Contribution
    from tcprobe.run.doctor import Part
    from tcprobe.run.survey import Survey
    from tcprobe.run.verify import Verified

FOLDER = Named(path_type=Path, exists=True, file_okay=False)


def compilers(
    names: Annotated[Sequence[str], PlainArgument("[FRAGMENT]...", multiple=True)] = (),
    *,
    cuda: Annotated[
        Sequence[Path],
        Option(
            "--cuda",
            "Folder of a CUDA toolkit; give it several times. Default: the installed one.",
            reads=FOLDER,
            multiple=True,
        ),
    ] = (),
    arch: Annotated[
        ArchName | None,
        Option("--arch", "Only this arch. Default: all that the compilers know.", "sm_XX|all", NonEmptyText()),
    ] = None,
) -> "Survey":
    """Compare what the toolkits of several folders make of the probes: tables and matrix instructions, arch by arch.

    The answer lists the archs of each version, how much all agree on, what differs, what only some versions show, and
    what they refuse. FRAGMENT limits the tables to these. Exit code 1 if something differs.
    """
    from tcprobe.run.survey import survey

    with terminal.progress("reading machine code") as tick:
        return survey(cuda, arch_name(arch), split_names(names), tick)


@command(compilers, short="Where several compilers agree, and the exceptions.", json="tcprobe.run.survey:SurveyAnswer")
def print_compilers(found: "Survey", *, as_json: JsonOption = False) -> None:
    """Words or JSON; the exit code says whether something differs."""
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        terminal.lines(found.in_words)
    sys.exit(1 if found.differing else 0)


def doctor(cuda: CudaOption = None) -> "Iterator[Part]":
    """Show what this machine can be used for, and what to install for the rest. --json prints one object per line."""
    from tcprobe.run.doctor import examine

    return examine(cuda)


@command(doctor, short="What this machine can be used for.", json="tcprobe.run.doctor:Part")
def print_doctor(parts: "Iterator[Part]", *, as_json: JsonOption = False) -> None:
    """Each as it is found."""
    for part in parts:
        if as_json:
            click.echo(json.dumps(asdict(part)))
        else:
            terminal.line(escaped(f"{'ok' if part.there else '--'}  {part.what}: {part.words}"))


class Verification(NamedTuple):
    """Multiplies on a GPU, verified one after the other; of how many other forms its arch has none, or no table."""

    device: "Device"
    verdicts: "Iterator[Verified]"
    others: int
    without_table: int


def verify_tables(
    patterns: Annotated[
        Sequence[str], NameWords("[INSTRUCTION]...", "many", required=False, completes=False, answers=False)
    ] = (),
    *,
    device: Annotated[int, Option("--device", "GPU number N.", "N", shown=True)] = 0,
    seed: Annotated[int, Option("--seed", "Seed of the random matrices.", shown=True)] = 0,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Verification:
    """Check the tables on a live GPU: the emitted code loads and stores operands, and D is compared with a model.

    NumPy gives D of whole numbers. The measured arithmetic (`tcprobe numerics`) gives D of random floats, bit by bit.

    The CUDA header loads and stores fragments. Factors in shared memory are written with what `tcprobe descriptor`
    prints, for every swizzle and major; A is tried in registers and in shared memory. INSTRUCTION is a shortened name
    or a pattern. Without one, every form that the GPU has is tried (warpgroup forms with N 8, 24, 64, 128 and 256),
    sparse forms under each selector with random metadata. It also shows which slots are never read, and that a
    wrong layout fails. Exit code 1 if something is wrong.
    """
    from tcprobe.run.gpu import Gpu
    from tcprobe.run.verify import verifiable, verify
    from tcprobe.store.cell import find_operands

    folders, rows = layers(results, only), verifiable(*patterns)
    gpu = Gpu()
    gpu.open(device)
    there = gpu.devices()[device]
    row = named(there.arch)
    allowed = [instruction for instruction in rows if instruction.target.on(row)]
    if not allowed:
        raise UsageError(f"{there.name} ({there.arch}) has none of these: `tcprobe why-not` says why.")
    tables = [(instruction, find_operands(instruction, row.name, folders)) for instruction in allowed]
    known = [(instruction, operands) for instruction, operands in tables if operands]
    if not known:  # neither measured nor documented there
        raise UsageError(f"nothing is known about {allowed[0].id} on {row.name}: `tcprobe run` measures it.")
    verdicts = verify(gpu, known, seed, folders)
    return Verification(there, verdicts, len(rows) - len(allowed), len(allowed) - len(known))


@command(
    verify_tables,
    short="Check the tables on a live GPU against NumPy.",
    name="verify",
    json="tcprobe.run.verify:VerifiedAnswer",
)
def print_verification(found: Verification, *, as_json: JsonOption = False) -> None:
    """Each multiply as it is verified, then the counts; the exit code says whether something is wrong."""
    verdicts = []
    for verdict in found.verdicts:
        verdicts.append(verdict)
        if as_json:
            click.echo(json.dumps(verdict.to_json()))
        else:
            _print_verdict(verdict)
    if not as_json:
        _print_counts(found, verdicts)
    if not all(verdict.good for verdict in verdicts):
        raise SystemExit(1)


def _print_verdict(verdict: "Verified") -> None:
    mark = click.style("ok   ", **terminal.GOOD) if verdict.good else click.style("WRONG", **terminal.BAD)
    words = [verdict.first] if not verdict.exact else []
    words += [verdict.floats.first] if verdict.floats and verdict.floats.wrong else []
    words += [f"never read: {o.upper()} i = {', '.join(map(str, i))}" for o, i in verdict.unread.items()]
    if verdict.expected not in (None, verdict.unread):
        words.append(f"the results list as never read: {verdict.expected}")
    words += ["a wrong layout goes unnoticed"] if not verdict.noticed else []
    case = verdict.case
    selector_text = "" if case.selector is None else f" selector {case.selector}"
    placed = f" ({case}; swizzles {', '.join(str(s or 'none') for s in case.swizzles)})" if case.shared else ""
    click.echo(f"{mark} {case.instruction.id}{selector_text}{placed}" + (f": {'; '.join(words)}" if words else ""))


def _print_counts(found: Verification, verdicts: "Sequence[Verified]") -> None:
    device = found.device
    exact, noticed = (sum(getattr(v, name) for v in verdicts) for name in ("exact", "noticed"))
    click.echo(
        f"{terminal.bold(escaped(device.name))} ({device.arch}): D is exact in {exact} of {len(verdicts)} multiplies; "
        f"a wrong layout of A was noticed in {noticed}; {_by_model(verdicts)}tables: "
        f"{escaped(', '.join(dict.fromkeys(v.source for v in verdicts)))}"
    )
    if found.others:
        click.echo(f"{device.arch} does not have {found.others} other forms", err=True)
    if found.without_table:
        click.echo(f"{found.without_table} forms lack a table on {device.arch}: `tcprobe run` measures them", err=True)


def _by_model(verdicts: "Sequence[Verified]") -> str:
    """Of random floats, how many results are the model's bits; nothing where no form has a model."""
    floats = [verdict.floats for verdict in verdicts if verdict.floats]
    count, wrong = sum(f.results for f in floats), sum(f.wrong for f in floats)
    return f"of random floats {count - wrong} of {count} results have the model's bits; " if floats else ""


def contribute(
    output: Annotated[
        Path,
        Option("--output", "File to write.", "FILE", Output(path_type=Path, dir_okay=False), shown=True, also="-o"),
    ] = Path("contribution.json.gz"),
    *,
    minutes: Annotated[
        float, Option("--minutes", "Minutes that all of it may take.", "MINUTES", Minutes(), shown=True)
    ] = 5.0,
    results: Annotated[
        Path,
        Option(
            "--results",
            "Folder that keeps what is measured, so that the same command continues what was stopped.",
            reads=Named(path_type=Path, file_okay=False),
            shown=True,
        ),
    ] = Path("contribution"),
    limit: Annotated[
        float,
        Option(
            "--limit",
            "Seconds without an answer after which a launch counts as hung.",
            "SECONDS",
            Seconds(),
            shown=True,
        ),
    ] = 60.0,
) -> "Contribution":
    """Measure the GPUs of this machine for tcprobe's tables, and write one file for you to send.

    The file has everything that could be measured in the time given: tables, arithmetic, descriptors, bank conflicts,
    costs. What is only documented of your GPU's arch comes first. At the end multiplies are verified with these
    tables. Each finding names the GPU, driver, CUDA version and compiler, and nothing else of the machine. Nothing is
    sent. After Ctrl-C, the same command continues. `tcprobe merge FILE --check` shows what the file adds.
    """
    from tcprobe.run.contribute import Request
    from tcprobe.run.contribute import contribute as measure

    with terminal.progress("measuring") as tick:
        return measure(Request(output, results, minutes, limit, note, tick))


@command(
    contribute,
    short="Measure your GPU for everybody: one file to send.",
    json="tcprobe.run.contribute:ContributionAnswer",
)
def print_contribution(made: "Contribution", *, as_json: JsonOption = False) -> None:
    """Words or JSON."""
    if as_json:
        click.echo(json.dumps(made.to_json()))
    else:
        terminal.lines(made.in_words)
