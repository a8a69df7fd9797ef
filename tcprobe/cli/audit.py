"""`audit`: what other people's packages state, against the tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import EnvironmentUnfitError, TcprobeError, UsageError
from tcprobe.question import wrapping
from tcprobe.question.options import JSON, Named, Seconds, read_results
from tcprobe.text import escaped, message

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.audit.package_audit import PackageAudit
    from tcprobe.cli.requests import AuditRequest
    from tcprobe.store.choose import Layers


@click.command(short_help="Compare layouts in other people's packages with the tables.")
@click.argument("packages", nargs=-1, metavar="[PACKAGE]...")
@click.option(
    "--limit",
    type=Seconds(),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop a package that has not answered after this many seconds.",
)
@click.option(
    "--python",
    type=Named(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Python interpreter of another environment that has the packages and msgspec.",
)
@click.option("--save", type=Named(path_type=Path, file_okay=False), help="Also save into this results folder.")
@read_results
@JSON
def audit(
    packages: tuple[str, ...], save: Path | None, layers: Layers, as_json: bool, **request: Unpack[AuditRequest]
) -> None:
    """Compare every layout that installed packages state with the measured tables.

    PACKAGE is tensor-layouts, triton, tilelang, jax, nvidia-cutlass-dsl, tinygrad, apache-tvm or tilus; or a CSV file,
    FRAGMENT.csv or FRAGMENT,sm_XX.csv with columns lane, i, row, col; or a folder of them. Without one it takes all
    packages that are installed. Each is imported in its own process, with --python in another environment. Every
    difference is printed as a report for the package's maintainers, and makes the exit code 1; a package that is not
    installed makes it 3. --json prints one object a package.
    """
    differs, fault = False, None
    if request["python"] and not packages:
        raise UsageError("--python needs a PACKAGE: tcprobe does not search another environment for packages.")
    for answer in _audits(packages, layers, **request):
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


def _audits(
    packages: tuple[str, ...], layers: Layers, limit: float, python: Path | None
) -> Iterator[PackageAudit | TcprobeError]:
    """What came of each package, in order; while one is read, a terminal says which, and how many there are."""
    from tcprobe.audit import package_audit
    from tcprobe.audit.adapters import adapters
    from tcprobe.audit.package_audit import audit as audited
    from tcprobe.audit.package_audit import audit_files
    from tcprobe.question import terminal

    files = {package: Path(package) for package in packages if package.endswith(".csv") or Path(package).is_dir()}
    names = [package if package in files else package_audit.index_name(package) for package in packages]
    installed = names if python else [name for name in adapters() if package_audit.version(name)]
    if not names and not installed:
        raise EnvironmentUnfitError(f"no package is installed: pip install {' '.join(adapters())}")
    chosen_packages = list(dict.fromkeys(names or installed))
    for number, name in enumerate(chosen_packages, 1):
        try:
            if name not in files and name not in installed:
                raise EnvironmentUnfitError(f"{name} is not installed: pip install {name}")
            with terminal.working(f"{number} of {len(chosen_packages)}: reading layouts of {name}"):
                answer = audit_files(files[name], layers) if name in files else audited(name, layers, limit, python)
            yield answer
        except TcprobeError as error:
            yield error


def _print(audited: PackageAudit) -> None:
    from tcprobe.ask.compare import CONFIRMED, NOT_COVERED
    from tcprobe.audit.package_audit import known_report, report

    agree, apart = audited.count(CONFIRMED), audited.count(NOT_COVERED)
    counts = f"{agree} layouts agree, {len(audited.findings)} differ, {apart} not covered"
    wrapping.line(f"{audited.package} {audited.version}: {counts}")
    for words, many in audited.reasons.most_common():
        wrapping.line(escaped(f"  not covered, {many}: {words}"))
    for ruling in audited.findings:
        click.echo("")
        click.echo("\n".join(escaped(line) for line in report(audited, ruling).split("\n")))
        wrapping.line(escaped(f"Reported: {known_report(audited.package, ruling)}."))


COMMANDS = (audit,)
