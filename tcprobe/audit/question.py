"""The question `audit`: what other people's packages state, against the tables."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from tcprobe.errors import EnvironmentUnfitError, TcprobeError, UsageError
from tcprobe.question import terminal
from tcprobe.question.declare import Option, PlainArgument, command
from tcprobe.question.options import Named, Seconds
from tcprobe.question.shared import JsonOption, OnlyOption, ResultsOption, SaveOption
from tcprobe.store.choose import layers
from tcprobe.text import escaped, message

if TYPE_CHECKING:
    from tcprobe.audit.package_audit import PackageAudit


def audits(
    packages: Annotated[Sequence[str], PlainArgument("[PACKAGE]...", multiple=True)] = (),
    *,
    limit: Annotated[
        float,
        Option(
            "--limit",
            "Give up on a package that has not answered after this many seconds.",
            "SECONDS",
            Seconds(),
            shown=True,
        ),
    ] = 300.0,
    python: Annotated[
        Path | None,
        Option(
            "--python",
            "Python interpreter of another environment that has the packages and msgspec.",
            "FILE",
            Named(path_type=Path, exists=True, dir_okay=False),
        ),
    ] = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "Iterator[PackageAudit | TcprobeError]":
    """Compare every layout that installed packages state with the measured tables.

    PACKAGE is tensor-layouts, triton, tilelang, jax, nvidia-cutlass-dsl, tinygrad, apache-tvm or tilus; or a CSV
    file, FRAGMENT.csv or FRAGMENT,sm_XX.csv with columns lane, i, row, col; or a folder of them. Without one it takes
    all installed packages. Each is imported in its own process, with --python in another environment. Every
    difference is printed as a report for the package's maintainers, and makes the exit code 1; a package that is not
    installed makes it 3. --json prints one object per package.
    \f
    What came of each package, in order; while one is read, a terminal says which, and how many there are.
    """
    from tcprobe.audit import package_audit
    from tcprobe.audit.adapters import adapters

    folders = layers(results, only)
    if python and not packages:
        raise UsageError("`python` needs a PACKAGE: tcprobe does not search another environment for packages.")
    files = {package: Path(package) for package in packages if package.endswith(".csv") or Path(package).is_dir()}
    names = [package if package in files else package_audit.index_name(package) for package in packages]
    installed = names if python else [name for name in adapters() if package_audit.version(name)]
    if not names and not installed:
        raise EnvironmentUnfitError(f"no package is installed: pip install {' '.join(adapters())}")
    chosen = list(dict.fromkeys(names or installed))
    for number, name in enumerate(chosen, 1):
        try:
            if name not in files and name not in installed:
                raise EnvironmentUnfitError(f"{name} is not installed: pip install {name}")
            with terminal.working(f"{number} of {len(chosen)}: reading layouts of {name}"):
                if name in files:
                    answer = package_audit.audit_files(files[name], folders)
                else:
                    answer = package_audit.audit(name, folders, limit, python)
        except TcprobeError as error:
            yield error
        else:
            yield answer


@command(
    audits,
    short="Compare layouts in other people's packages with the tables.",
    name="audit",
    json="tcprobe.audit.package_audit:AuditAnswer",
)
def print_audits(
    found: "Iterator[PackageAudit | TcprobeError]",
    *,
    save: SaveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Each as it comes; the exit code says whether a layout differs, or what was wrong first."""
    differs, fault = False, None
    for answer in found:
        if isinstance(answer, TcprobeError):
            fault = fault or answer
            click.echo(message(str(answer)), err=True)
            continue
        differs = differs or bool(answer.findings)
        if as_json:
            click.echo(json.dumps(answer.to_json()))
        else:
            _print(answer)
        if save:
            from tcprobe.store import surveys

            surveys.save_audit(save, answer.to_json())
    sys.exit(1 if differs else fault.exit_code if fault else 0)


def _print(audited: "PackageAudit") -> None:
    from tcprobe.ask.compare import CONFIRMED, NOT_COVERED
    from tcprobe.audit.package_audit import known_report, report

    agree, apart = audited.count(CONFIRMED), audited.count(NOT_COVERED)
    counts = f"{agree} layouts agree, {len(audited.findings)} differ, {apart} not covered"
    terminal.line(f"{audited.package} {audited.version}: {counts}")
    for words, many in audited.reasons.most_common():
        terminal.line(escaped(f"  not covered, {many}: {words}"))
    for ruling in audited.findings:
        click.echo("")
        click.echo("\n".join(escaped(line) for line in report(audited, ruling).split("\n")))
        terminal.line(escaped(f"Reported: {known_report(audited.package, ruling)}."))
