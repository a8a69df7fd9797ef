"""The question `check`: what is wrong or slow in a kernel."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import click

from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch as archs
from tcprobe.mangled import unmangled
from tcprobe.question import terminal
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.question.arguments import arch_name
from tcprobe.question.declare import Option, PlainArgument, command, is_heard, note
from tcprobe.question.options import Named, NonEmptyText, Number
from tcprobe.question.shared import ArchOption, CudaOption, FunctionsOption, JsonOption, SarifOption
from tcprobe.text import message, one_line

if TYPE_CHECKING:
    from tcprobe.check.code_check import KernelCheck
    from tcprobe.check.rule import Finding, Rule

MOST_CHECKED = 2 << 20  # bytes of code that `read` has checked, too: seconds
MOST_ALONE = 8 << 20  # bytes of files that one process looks at

# what no rule looks at, and who does
BEYOND = (
    "rules do not look at races of ordinary loads and stores, at missing barriers, at what nobody wrote: "
    "`tcprobe emulate` does, on the kernel's PTX"
)


class Checked(NamedTuple):
    """The kernels of files with findings, each when it is looked at, and what could not be read, complete after them.

    `rules` were asked, `shown` are the severities that are asked for; `left_out` says what else is not among them.
    """

    kernels: "Iterable[KernelCheck]"
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
    min_cycles: Annotated[
        int | None,
        Option("--min-cycles", "Leave out warnings of fewer cycles, or of cycles not known.", "N", Number(1)),
    ] = None,
    cuda: CudaOption = None,
) -> Checked:
    """Find what is wrong or slow in kernels, in their machine code.

    FILE is a cubin, PTX, a file with fatbins (object, library, executable), or a folder of such files, for example a
    compiler's cache. One line for each finding: severity, rule, kernel, address, source line where the file has it,
    what is wrong and what to do; what instances of a template have in common once, the dearest first. An error makes
    results wrong, a warning makes a kernel slow, a note is what a rule cannot decide: notes are counted by reason.
    --all prints each finding, --json one object a kernel, also of a clean one; both as they are found. Exit code 1 with
    an error, 4 if part of a file cannot be read.
    """
    from tcprobe.check.code_check import Checker
    from tcprobe.check.report import baseline as findings_of
    from tcprobe.check.report import without
    from tcprobe.check.rule import SEVERITIES
    from tcprobe.sass import toolchain
    from tcprobe.sass.code_files import CodeFiles

    chosen = _chosen(rule)
    if not paths:
        return Checked((), [], chosen)
    known = findings_of(baseline) if baseline else frozenset()
    wanted = [archs.arch(name).name for name in (arch_name(arch) or "").split(",") if name]
    tools = toolchain.find(cuda)
    checker = Checker(tools, list(chosen), CodeFiles(tools, wanted, not cuda), kernel, _cores(paths))
    shown = SEVERITIES[: SEVERITIES.index(min) + 1]

    def found() -> "Iterator[KernelCheck]":
        any_ = False
        for each in checker.check(paths):
            any_ = True
            yield _least(without(each, known), shown, min_cycles)
        note(*dict.fromkeys(checker.notes))
        if kernel and not any_ and not checker.complaints:
            raise UsageError(f"no function is named {kernel}.")

    only = f"by {', '.join(chosen)} alone" if rule else ""
    beside = f"beside those of {baseline}" if baseline else ""
    cheap = f"of warnings those of {min_cycles} cycles or more" if min_cycles else ""
    return Checked(found(), checker.complaints, chosen, shown, ", ".join(filter(None, (only, beside, cheap))))


def _cores(paths: Sequence[Path]) -> int:
    """Processes that look at files: one where that takes less than to start others, and for a Python program, which
    each of them would have to import.
    """
    if not is_heard():
        return 1
    try:
        files = (file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]))
        return len(os.sched_getaffinity(0)) if sum(file.stat().st_size for file in files) > MOST_ALONE else 1
    except (AttributeError, OSError, ValueError):  # no such call here; a file that vanishes, or cannot be
        return 1


def _chosen(names: Sequence[str]) -> "dict[str, Rule]":
    """The rules of these names, or all."""
    from tcprobe.check.rule import rules

    every = rules()
    if unknown := next((name for name in names if name not in every), None):
        raise UsageError(f"`rule` {unknown[:60]!r}: one of {', '.join(every)} is needed.")
    return {name: rule for name, rule in every.items() if not names or name in names}


def _least(check: "KernelCheck", severities: Sequence[str], cycles: int | None) -> "KernelCheck":
    def counts(found: "Finding") -> bool:
        return found.severity in severities and (
            not cycles or found.severity != "warning" or found.numbers.get("cycles", 0) >= cycles
        )

    return replace(check, findings=tuple(each for each in check.findings if counts(each.finding)))


class CheckRuleAnswer(Answer):
    """A rule."""

    name: str
    severity: Literal["error", "warning", "note"]
    says: str
    mend: str
    evidence: tuple[str, ...]
    fails: Annotated[str, Meta(description="PTX in which it finds something.")]
    passes: Annotated[str, Meta(description="PTX in which it does not.")]


@command(
    checks,
    short="What is wrong or slow in the kernels of a file.",
    name="check",
    json={"": "tcprobe.check.code_check:CheckAnswer", "--rules": CheckRuleAnswer},
)
def print_checks(
    checked: Checked,
    *,
    paths: Sequence[Path] = (),
    rules: Annotated[
        bool, Option("--rules", "Explain each rule: why it is true, an example that fails, one that passes.")
    ] = False,
    every: Annotated[bool, Option("--all", "Each finding on a line of its own, notes too, as they are found.")] = False,
    by: Annotated[
        Literal["template", "rule"],
        Option("--by", "Findings with one rule and text once a template, or once.", default="template"),
    ] = "template",
    top: Annotated[
        int, Option("--top", "Lines of a severity, and of the table of templates. Default: 20.", "N", Number(1))
    ] = 20,
    sarif: SarifOption = None,
    as_json: JsonOption = False,
) -> None:
    """Findings, then counts; the exit code says whether there is an error, or something was not read.

    What was done is kept where it is interrupted.
    """
    if rules:
        _explain(checked, as_json)
        return
    if not paths:
        raise UsageError("a FILE is needed, or --rules.")
    done: list[KernelCheck] = []
    try:
        with terminal.progress("checking") as tick:
            for kernel in checked.kernels:
                done.append(kernel)
                tick(1, None)
                tick(0, unmangled(kernel.kernel))
                _print_found(kernel, every, as_json)
    except KeyboardInterrupt:
        _print_end(done, checked, every, by, top, sarif, as_json)
        raise
    _print_end(done, checked, every, by, top, sarif, as_json)
    errors = severities(done)["error"]
    sys.exit(DataError.exit_code if checked.complaints else 1 if errors else 0)


def _print_found(kernel: "KernelCheck", every: bool, as_json: bool) -> None:
    """What is printed of a kernel as soon as it is done."""
    if as_json:
        click.echo(json.dumps(kernel.to_json()))
    elif every:
        from tcprobe.check.summary import finding_line

        for placed in kernel.findings:
            click.echo(finding_line(kernel, placed, unmangled(kernel.kernel)))


def _print_end(
    done: "Sequence[KernelCheck]", checked: Checked, every: bool, by: str, top: int, sarif: Path | None, as_json: bool
) -> None:
    """What is printed and written when all is done, or where it is interrupted."""
    from tcprobe.check import report, summary

    if sarif:
        report.save(sarif, report.sarif(done, checked.rules, checked.complaints))
    if not as_json:
        for line in () if every else summary.lines(done, by, top):
            click.echo(line)
        terminal.line(one_line(f"{_many(len(done), 'kernel')}: {found_in_words(checked, done)}"))
        if done and not severities(done)["error"]:
            terminal.line(BEYOND)
    for complaint in checked.complaints:
        click.echo(message(complaint), err=True)


def severities(kernels: "Sequence[KernelCheck]") -> Counter[str]:
    """How many findings there are of each severity."""
    return Counter(placed.finding.severity for kernel in kernels for placed in kernel.findings)


def found_in_words(checked: Checked, kernels: "Sequence[KernelCheck]") -> str:
    """As "2 errors, 3 warnings, 1 note", and what is not among them; where nothing was looked at, that."""
    unread = f"{_many(len(checked.complaints), 'part')} of the files not looked at" if checked.complaints else ""
    if not kernels:
        return f"nothing was looked at{f': {unread}' if unread else ''}"
    counts = severities(kernels)
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


def _explain(checked: Checked, as_json: bool) -> None:
    for rule in checked.rules.values():
        if as_json:
            said = (rule.NAME, rule.SEVERITY, rule.SAYS, rule.FIX, rule.EVIDENCE, rule.FAILS, rule.PASSES)
            click.echo(json.dumps(plain(CheckRuleAnswer(*said))))
            continue
        terminal.line(f"{rule.NAME} ({rule.SEVERITY}): {rule.SAYS}")
        terminal.line(f"  do: {rule.FIX}")
        for evidence in rule.EVIDENCE:
            terminal.line(f"  why: {evidence}")
        for heading, example in (("fails", rule.FAILS), ("passes", rule.PASSES)):
            click.echo(f"  {heading}:")
            for text in example.strip("\n").split("\n"):
                click.echo(f"    {text}".rstrip())
