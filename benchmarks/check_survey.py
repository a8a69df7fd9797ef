"""What `tcprobe check` finds in packages with tensor-core code: python benchmarks/check_survey.py SURVEY PACKAGE...

PACKAGE is NAME==VERSION=PATH[@sm_XX,...]: a wheel, a file or a folder, such as what `triton_kernels.py` or `pip install
--target` wrote; of a wheel the libraries and cubins in it are read. With archs, only code for these. SURVEY is a JSON
file, to which a row is added for each package and arch (a row of the same package, version and arch is replaced):
kernels, accesses of shared memory and how many of them are undecided, findings by rule and severity, seconds, every
error, and the conflicts that cost most. `tcprobe pages` makes a page of results/check/survey.json.

Nothing is downloaded. --most N reads at most N files of a package, evenly spread; the row says how many there are.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from tcprobe.check.code_check import Batch, Checker, Findings
from tcprobe.check.rule import Finding, rules
from tcprobe.sass import toolchain
from tcprobe.sass.addresses import SHARED
from tcprobe.sass.code_files import SUFFIXES, CodeFiles
from tcprobe.sass.disassemble import programs
from tcprobe.sass.kernel import Kernel

T = TypeVar("T")

WORST = 5  # conflicts of a row that are named


class CountingChecker(Checker):
    """Counts accesses of shared memory by arch; `seconds` is the CPU time of all rules."""

    def __init__(self, archs: Sequence[str]) -> None:
        tools = toolchain.find(None)
        super().__init__(tools, list(rules()), CodeFiles(tools, archs, try_others=True))
        self.accesses: Counter[str] = Counter()
        self.instructions: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def _here(self, batch: Batch) -> Future[list[Findings]]:
        for kernel in programs(self._tools, batch.arch, batch.functions):
            if isinstance(kernel, Kernel):
                reached = (i for i in kernel.instructions if i.mnemonic in SHARED and i.guard != "never")
                self.accesses[batch.arch] += sum(i.number in kernel.block_of for i in reached)
                self.instructions[batch.arch] += len(kernel.instructions)
        begun = time.process_time()
        found = super()._here(batch)
        self.seconds[batch.arch] += time.process_time() - begun
        return found


def survey(
    package: str, version: str, files: Sequence[Path], of: int, archs: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A row for each arch that the files have code for."""
    checker = CountingChecker(archs)
    kernels = list(checker.check(files))
    for arch in dict.fromkeys(kernel.arch for kernel in kernels):
        own = [kernel for kernel in kernels if kernel.arch == arch]
        placed = [(kernel, each.finding) for kernel in own for each in kernel.findings]
        counts = Counter((found.rule, found.severity) for _, found in placed)
        conflicts = [(k, f) for k, f in placed if f.rule == "bank-conflicts" and f.severity == "warning"]
        conflicts.sort(key=lambda each: each[1].numbers["least"] - each[1].numbers["wavefronts"])
        yield {
            "package": package,
            "version": version,
            "arch": arch,
            "files": len(files),
            "files_of": of,
            "kernels": len(own),
            "instructions": checker.instructions[arch],
            "shared_accesses": checker.accesses[arch],
            "undecided": counts["bank-conflicts", "note"],
            "findings": {f"{rule} {severity}": n for (rule, severity), n in sorted(counts.items())},
            "kernels_with": {
                rule: len({id(k) for k, f in placed if f.rule == rule and f.severity != "note"})
                for rule in sorted({f.rule for _, f in placed if f.severity != "note"})
            },
            "seconds": round(checker.seconds[arch], 1),
            "unread": len(checker.complaints),
            "errors": [_named(k.kernel, f) for k, f in placed if f.severity == "error"],
            "conflicts": [_named(k.kernel, f) for k, f in conflicts[:WORST]],
        }


def _named(kernel: str, found: Finding) -> dict[str, Any]:
    about = {"kernel": kernel[:200], "rule": found.rule, "address": found.address, "text": found.text}
    return about | {"numbers": dict(found.numbers)}


def argue(row: dict[str, Any], before: Sequence[dict[str, Any]]) -> None:
    """What reading an error by hand said stays with it, where a rule says the same of the same kernel."""
    known = {
        (found["kernel"], found["rule"], found["text"]): found["argued"]
        for other in before
        for found in other["errors"]
        if found.get("argued")
    }
    for found in row["errors"]:
        if words := known.get((found["kernel"], found["rule"], found["text"])):
            found["argued"] = words


def code_in(path: Path, folder: Path, most: int) -> tuple[list[Path], int]:
    """(at most so many files with code, evenly spread, of how many) of a wheel, a folder or a file.

    What is read of a wheel is unpacked into `folder`.
    """
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = sorted(name for name in wheel.namelist() if name.endswith(SUFFIXES))
            return [Path(wheel.extract(name, folder)) for name in spread(names, most)], len(names)
    if not path.is_dir():
        return [path], 1
    found = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
    found = [p for p in found if p.suffix != ".ptx" or p.with_suffix(".cubin") not in found]
    return spread(found, most), len(found)


def spread(files: Sequence[T], most: int) -> list[T]:
    """At most so many, evenly spread."""
    return list(files) if len(files) <= most else [files[j * len(files) // most] for j in range(most)]


def main(arguments: Sequence[str]) -> None:
    most = 1 << 30
    if "--most" in arguments:
        at = list(arguments).index("--most")
        most, arguments = int(arguments[at + 1]), [*arguments[:at], *arguments[at + 2 :]]
    store, *packages = arguments
    rows = json.loads(Path(store).read_text()) if Path(store).is_file() else []
    for text in packages:
        about, _, place = text.partition("=/") if "=/" in text else text.rpartition("=")
        name, _, version = about.partition("==")
        path, _, archs = (f"/{place}" if "=/" in text else place).partition("@")
        with tempfile.TemporaryDirectory() as folder:
            files, count = code_in(Path(path), Path(folder), most)
            for row in survey(name, version, files, count, archs.split(",") if archs else []):
                same = ("package", "version", "arch")
                argue(row, [other for other in rows if all(other[key] == row[key] for key in same)])
                rows = [other for other in rows if any(other[key] != row[key] for key in same)] + [row]
                share = row["undecided"] / max(row["shared_accesses"], 1)
                found = ", ".join(f"{n} {what}" for what, n in row["findings"].items())
                print(
                    f"{name} {version} {row['arch']}: {row['kernels']} kernels, {row['shared_accesses']} accesses of "
                    f"shared memory, {share:.1%} undecided, {row['seconds']} s; {found}",
                    flush=True,
                )
            Path(store).parent.mkdir(parents=True, exist_ok=True)
            Path(store).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
