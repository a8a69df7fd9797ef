"""The question `check`: what is wrong or slow in a kernel."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import click

from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch as archs
from tcprobe.question import terminal
from tcprobe.question.arguments import arch_name
from tcprobe.question.declare import Option, PlainArgument, command, note
from tcprobe.question.options import Named, NonEmptyText
from tcprobe.question.shared import ArchOption, CudaOption, FunctionsOption, JsonOption, SarifOption
from tcprobe.text import message, one_line

if TYPE_CHECKING:
    from tcprobe.check.code_check import KernelCheck, Placed
    from tcprobe.check.rule import Rule


MOST_CHECKED = 2 << 20  # bytes of code that `read` has checked, too: seconds


# what no rule looks at, and who does
BEYOND = (
    "rules do not look at races of ordinary loads and stores, at missing barriers, at what nobody wrote: "
    "`tcprobe emulate` does, on the kernel's PTX"
)


class Checked(NamedTuple):
    """The kernels of files with findings, what could not be read, and the rules that were asked.

    `shown` are the severities that are asked for; `left_out` says what else of the findings is not among them.
    """

    kernels: "list[KernelCheck]"
    complaints: list[str]
    rules: "dict[str, Rule]"
    shown: Sequence[str] = ()
    left_out: str = ""


def checks(
    paths: Annotated[
        Sequence[Path], PlainArgument("[FILE]...", Named(path_type=Path, exists=True), multiple=True)
    ] = (),
    *,
    rule: Annotated[
        Sequence[str],
        Option(
            "--rule", "Only this rule; can be given several times. --rules lists them.", "RULE", NonEmptyText(), True
        ),
    ] = (),
    kernel: FunctionsOption = None,
    min: Annotated[  # noqa: A002
        Literal["error", "warning", "note"],
        Option("--min", "Print only what is at least this severe.", default="note"),
    ] = "note",
    baseline: Annotated[
        Path | None,
        Option(
            "--baseline",
            "Leave out what this file has, which --json or --sarif wrote.",
            "FILE",
            Named(path_type=Path, exists=True, dir_okay=False),
        ),
    ] = None,
    arch: ArchOption = None,
    cuda: CudaOption = None,
) -> Checked:
    """Find what is wrong or slow in kernels, in their machine code.

    FILE is a cubin, PTX, a file with fatbins (object, library, executable), or a folder of such files, for example a
    compiler's cache. One line for each finding: severity, rule, kernel, address, source line where the file has it,
    what is wrong and what to do. An error makes results wrong, a warning makes a kernel slow, a note is what a rule
    cannot decide, with the reason. Exit code 1 with an error, 4 if part of a file cannot be read. --json prints one
    object a kernel, also of a clean one.
    """
    from tcprobe.check.code_check import Checker
    from tcprobe.check.report import baseline as findings_of
    from tcprobe.check.report import without
    from tcprobe.check.rule import SEVERITIES
    from tcprobe.sass import toolchain

    chosen = _chosen(rule)
    if not paths:
        return Checked([], [], chosen)
    known = findings_of(baseline) if baseline else frozenset()
    wanted = [archs.arch(name).name for name in (arch_name(arch) or "").split(",") if name]
    checker = Checker(toolchain.find(cuda), list(chosen.values()), wanted, kernel, not cuda)
    found = checker.check(paths)
    note(*dict.fromkeys(checker.notes))
    if kernel and not found and not checker.complaints:
        raise UsageError(f"no function is named {kernel}.")
    shown = SEVERITIES[: SEVERITIES.index(min) + 1]
    kernels = [_least(each, shown) for each in without(found, known)]
    only = f"by {', '.join(chosen)} alone" if rule else ""
    beside = f"beside those of {baseline}" if baseline else ""
    return Checked(kernels, checker.complaints, chosen, shown, ", ".join(filter(None, (only, beside))))


def _chosen(names: Sequence[str]) -> "dict[str, Rule]":
    """The rules of these names, or all."""
    from tcprobe.check.rule import rules

    every = rules()
    if unknown := next((name for name in names if name not in every), None):
        raise UsageError(f"`rule` {unknown[:60]!r}: one of {', '.join(every)} is needed.")
    return {name: rule for name, rule in every.items() if not names or name in names}


def _least(check: "KernelCheck", severities: Sequence[str]) -> "KernelCheck":
    return replace(check, findings=tuple(each for each in check.findings if each.finding.severity in severities))


@command(checks, short="What is wrong or slow in the kernels of a file.", name="check")
def print_checks(
    checked: Checked,
    *,
    paths: Sequence[Path] = (),
    rules: Annotated[
        bool, Option("--rules", "Explain each rule: why it is true, an example that fails, one that passes.")
    ] = False,
    sarif: SarifOption = None,
    as_json: JsonOption = False,
) -> None:
    """Findings, then counts; the exit code says whether there is an error, or something was not read."""
    if rules:
        _explain(checked, as_json)
        return
    if not paths:
        raise UsageError("a FILE is needed, or --rules.")
    if sarif:
        from tcprobe.check import report

        report.save(sarif, report.sarif(checked.kernels, checked.rules, checked.complaints))
    if as_json:
        for kernel in checked.kernels:
            click.echo(json.dumps(kernel.to_json()))
    else:
        for kernel in checked.kernels:
            for placed in kernel.findings:
                click.echo(_line(kernel, placed))
        terminal.line(one_line(f"{_many(len(checked.kernels), 'kernel')}: {found_in_words(checked)}"))
        if checked.kernels and not severities(checked.kernels)["error"]:
            terminal.line(BEYOND)
    for complaint in checked.complaints:
        click.echo(message(complaint), err=True)
    errors = severities(checked.kernels)["error"]
    sys.exit(DataError.exit_code if checked.complaints else 1 if errors else 0)


def _line(kernel: "KernelCheck", placed: "Placed") -> str:
    found, line = placed.finding, placed.line
    where = f", {line.file}:{line.line}" if line else ""
    place = f"{kernel.kernel} ({kernel.arch}, {kernel.file}) at {found.address:#06x}{where}"
    return one_line(f"{found.severity}: {found.rule}: {place}: {found.text}")


def severities(kernels: "Sequence[KernelCheck]") -> Counter[str]:
    """How many findings there are of each severity."""
    return Counter(placed.finding.severity for kernel in kernels for placed in kernel.findings)


def found_in_words(checked: Checked) -> str:
    """As "2 errors, 3 warnings, 1 note", and what is not among them; where nothing was looked at, that."""
    unread = f"{_many(len(checked.complaints), 'part')} of the files not looked at" if checked.complaints else ""
    if not checked.kernels:
        return f"nothing was looked at{f': {unread}' if unread else ''}"
    counts = severities(checked.kernels)
    counted = ", ".join(_many(counts[severity], severity) for severity in checked.shown)
    return "; ".join(filter(None, (counted, checked.left_out, unread)))


def counts_of(kernels: "Sequence[KernelCheck]") -> str:
    """Only what there is: "2 errors"; a dash for nothing."""
    return ", ".join(_many(n, severity) for severity, n in severities(kernels).items()) or "-"


def of_what_was_read(paths: Sequence[Path], size: int, **given: Any) -> Checked | None:
    """What `check` finds in files with `size` bytes of code that `read` has read; None where that would take long, and
    of files without code.
    """
    return checks(paths, **given) if 0 < size <= MOST_CHECKED else None


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


_ATTRIBUTE = {"mend": "FIX"}  # the name that programs read it by


def _explain(checked: Checked, as_json: bool) -> None:
    for rule in checked.rules.values():
        if as_json:
            fields = ("name", "severity", "says", "mend", "evidence", "fails", "passes")
            click.echo(json.dumps({field: getattr(rule, _ATTRIBUTE.get(field, field.upper())) for field in fields}))
            continue
        terminal.line(f"{rule.NAME} ({rule.SEVERITY}): {rule.SAYS}")
        terminal.line(f"  do: {rule.FIX}")
        for evidence in rule.EVIDENCE:
            terminal.line(f"  why: {evidence}")
        for heading, example in (("fails", rule.FAILS), ("passes", rule.PASSES)):
            click.echo(f"  {heading}:")
            for text in example.strip("\n").split("\n"):
                click.echo(f"    {text}".rstrip())
