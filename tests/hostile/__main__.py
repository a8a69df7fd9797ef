"""The campaign's command line: `python -m tests.hostile --help`."""

from __future__ import annotations

import argparse
import compileall
import fnmatch
import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import arguments, board, csvs, files, paths, run, texts
from .board import Case

CATEGORIES = {module.CATEGORY: module.cases for module in (paths, arguments, csvs, texts, files)}


def main() -> int:
    """Run, print the table and what was found; 1 if anything was."""
    chosen = _options()
    board.limits.seconds = chosen.limit
    compileall.compile_dir(Path(__file__).resolve().parents[2] / "tcprobe", quiet=1)
    began = time.monotonic()
    report = run.campaign(_cases(chosen), chosen.seconds, chosen.jobs, chosen.keep)
    print(table(report))
    print(f"{time.monotonic() - began:.0f} s; {report.left_out} inputs left out because time ran out")
    if not board.rights_can_go():
        print("left out: what is unreadable or read-only, as tcprobe does not run without the rights of root here")
    for line in grouped(report.findings, chosen.examples):
        print(line)
    if chosen.report:
        chosen.report.write_text(json.dumps([_plain(finding) for finding in report.findings], indent=1))
    return bool(report.findings or report.left_out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--category", choices=CATEGORIES, help="only this one")
    parser.add_argument("--case", default="*", help="only inputs whose name this pattern means")
    parser.add_argument("--thorough", action="store_true", help="every command on every input: about 25 minutes")
    parser.add_argument("--seconds", type=float, default=600, help="begin no input after that (600)")
    parser.add_argument("--limit", type=float, default=12, help="seconds of a command (12); more on a busy machine")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="leave the folders of the inputs here")
    parser.add_argument("--report", type=Path, help="write every finding into this file, as JSON")
    parser.add_argument("--examples", type=int, default=3, help="of each group of findings")
    return parser.parse_args()


def _cases(chosen: argparse.Namespace) -> Iterator[Case]:
    for name, cases in CATEGORIES.items():
        if chosen.category in (None, name):
            yield from (case for case in cases(chosen.thorough) if fnmatch.fnmatchcase(case.name, chosen.case))


def table(report: run.Report) -> str:
    """Category by column; the columns of faults count inputs, "clear message" counts commands."""
    head = ("category", "inputs tried", "commands", *run.KINDS, "clear message", "slowest s", "most MB")
    rows = [head]
    for name, tally in report.tallies.items():
        counts = [tally.kinds[kind] for kind in run.KINDS]
        numbers = (tally.inputs, tally.commands, *counts, tally.clear, f"{tally.seconds:.1f}", tally.megabytes)
        rows.append((name, *map(str, numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def grouped(findings: list[run.Finding], examples: int) -> Iterator[str]:
    """Findings by category, kind and what, the most frequent first, with some of the commands."""
    groups: dict[tuple[str, str, str], list[run.Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.category, finding.fault.kind, finding.fault.what), []).append(finding)
    for (category, kind, what), some in sorted(groups.items(), key=lambda item: -len(item[1])):
        inputs, names = {f.case for f in some}, sorted({run.shown(f.argv[0]) for f in some if f.argv})
        yield f"{category} {kind}: {what}: {len(some)} commands ({', '.join(names)[:80]}), {len(inputs)} inputs"
        for finding in _spread(some, examples):
            words = " ".join(shlex.quote(run.shown(word)) for word in finding.argv)
            yield f"    [{finding.case}] tcprobe {words}"[:220] + f"  -> {finding.fault.detail[:160]}"


def _spread(findings: list[run.Finding], count: int) -> list[run.Finding]:
    """Some findings, of inputs as different as there are."""
    first = list({finding.case: finding for finding in reversed(findings)}.values())[::-1]
    return first[:: max(1, len(first) // count)][:count]


def _plain(finding: run.Finding) -> dict[str, object]:
    argv = [run.shown(word) for word in finding.argv]
    told = {
        "kind": finding.fault.kind,
        "what": finding.fault.what,
        "detail": finding.fault.detail,
        "code": finding.code,
        "err": finding.err[:2000],
    }
    return {"category": finding.category, "case": finding.case, "argv": argv, **told}


if __name__ == "__main__":
    sys.exit(main())
