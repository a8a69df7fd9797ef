"""The question `emulate`: what a kernel does, on a CPU."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from tcprobe.errors import UsageError
from tcprobe.question import terminal
from tcprobe.question.arguments import arch_name, checked
from tcprobe.question.declare import Option, PlainArgument, command, note
from tcprobe.question.options import Named, NonEmptyText, Number
from tcprobe.question.shared import ArchOption, JsonOption, SarifOption
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.emulate.answer import Emulated


@checked
def emulate(
    ptx: Annotated[str | Path, PlainArgument("FILE", Named(path_type=Path, exists=True, dir_okay=False), among="")],
    *,
    launch: Annotated[
        Path | Mapping[str, Any] | None,
        Option(
            "--launch",
            "LAUNCH.json, or a Python file that sets `launch`: kernel, grid, block, arguments.",
            "FILE",
            Named(path_type=Path, exists=True, dir_okay=False),
        ),
    ] = None,
    schedule: Annotated[
        Literal["late", "early", "random"],
        Option("--schedule", "When work in flight takes effect, and whose turn it is.", shown=True),
    ] = "late",
    seed: Annotated[int, Option("--seed", "Of --schedule random.", "N", Number(0), shown=True)] = 0,
    most: Annotated[
        int, Option("--most", "Stop after this many instructions of warps.", "N", Number(1), shown=True)
    ] = 100_000_000,
    trace: Annotated[
        str | None,
        Option(
            "--trace",
            "Print what a thread reads and sets at a line of the text, each time.",
            "LINE,THREAD",
            NonEmptyText(),
        ),
    ] = None,
    break_: Annotated[
        str | None,
        Option(
            "--break",
            "Stop where a thread, 0 without one, comes to a line; print its registers, and which elements they hold.",
            "LINE[,THREAD]",
            NonEmptyText(),
        ),
    ] = None,
    arch: ArchOption = None,
) -> "Emulated":
    """Run a kernel's PTX on the CPU: all threads, to the bit, and find what is wrong in it whether it shows or not.

    FILE is PTX, as nvcc, Triton's and CuTe DSL's caches have it. Copies and multiplies in flight take effect as late
    as waits and fences allow, or as early, or at random by a seed; what they read and write is poisoned until then.
    Findings are races, bytes that nobody wrote, addresses out of bounds or misaligned, missing proxy fences, use of
    what is in flight, barriers of two counts, shared memory of blocks that have ended, deadlocks, leaks. An error
    makes the exit code 1, a kernel that does not come to its end (--most, --break) too, a warning or note does not. An
    unknown instruction is refused by name, with its line. --arch chooses the arithmetic of multiplies.
    docs/emulate.md has the format of LAUNCH.json.
    \f
    `launch` is a file, or an object as in LAUNCH.json in which {"buffer": array} or an array alone is a buffer. The
    answer has `arrays`, in the order of the arguments, and `findings`.
    """
    from tcprobe.emulate.answer import run

    if launch is None:
        raise UsageError("a launch is needed: give `launch`, a LAUNCH.json or a Python file.")
    return run(ptx, launch, (schedule, seed, most, arch_name(arch)), trace, break_)


@command(
    emulate,
    short="Run a kernel's PTX on the CPU, and find what is wrong in it.",
    json="tcprobe.emulate.answer:EmulatedAnswer",
)
def print_emulation(
    answer: "Emulated",
    *,
    sarif: SarifOption = None,
    as_json: JsonOption = False,
) -> None:
    """The buffers into their files; findings; the exit code says whether there is an error, or no end."""
    from tcprobe.check import report

    answer.save()
    if sarif:
        report.save(sarif, answer.sarif())
    if as_json:
        click.echo(json.dumps(answer.to_json()))
    else:
        for line in answer.lines:
            click.echo(escaped(line))
        for line in filter(None, answer.report.output):
            click.echo(f"printed: {escaped(line)}")
        for finding in answer.findings:
            terminal.line(escaped(finding.in_words))
        note(*answer.notes)
        terminal.line(answer.summary)
    if answer.report.wrong:
        raise SystemExit(1)
