"""Files in, findings out: of each function in them what the rules find."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tcprobe.check.rule import Finding, Rule
from tcprobe.errors import DataError
from tcprobe.sass.code_files import CodeFiles, Compiled, code_files
from tcprobe.sass.disassemble import AT_ONCE, programs
from tcprobe.sass.elf import FunctionCode
from tcprobe.sass.kernel import Kernel, not_followed
from tcprobe.sass.source_lines import FunctionLines, SourceLine, source_lines
from tcprobe.sass.toolchain import Toolchain
from tcprobe.text import escaped, one_line
from tcprobe.values import Json

NOT_FOLLOWED = "unfollowed"  # the rule of notes about what no rule could look at


class Placed(NamedTuple):
    """A finding and the line of the source, where the file has it."""

    finding: Finding
    line: SourceLine | None

    def to_json(self) -> Json:
        """Plain data."""
        found = self.finding
        return {
            "rule": found.rule,
            "severity": found.severity,
            "address": found.address,
            "line": {"file": self.line.file, "line": self.line.line} if self.line else None,
            "text": found.text,
            "numbers": dict(found.numbers),
        }


@dataclass(frozen=True)
class KernelCheck:
    """What the rules find in a function, in the order of its code; `undecided` counts what they cannot say."""

    file: str
    kernel: str
    arch: str
    findings: tuple[Placed, ...]
    undecided: int

    def to_json(self) -> Json:
        """Plain data."""
        return {
            "file": self.file,
            "kernel": self.kernel,
            "arch": self.arch,
            "undecided": self.undecided,
            "findings": [placed.to_json() for placed in self.findings],
        }


class _Job(NamedTuple):
    number: int
    path: str
    compiled: Compiled
    function: FunctionCode


@contextmanager
def _without_collections() -> Iterator[None]:
    """No search for cycles, which takes a fifth of the time of a check: it makes many objects, and none in cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _key(job: _Job) -> bytes:
    """The same for functions of which all rules say the same."""
    function = dataclasses.replace(job.function, name="", code=b"")
    told = repr((job.compiled.cubin.arch, job.compiled.ptx, function)).encode()
    return hashlib.sha256(told + job.function.code).digest()


class Checker:
    """Checks files; what cannot be read of them is told to `complaints`, what is worth knowing to `notes`.

    Functions of all files are disassembled together, about AT_ONCE bytes of code of an arch at a time. `named`: a
    pattern of their names.
    """

    def __init__(
        self,
        tools: Toolchain,
        rules: Sequence[Rule],
        archs: Sequence[str] = (),
        named: str | None = None,
        try_others: bool = False,
    ) -> None:
        self._tools, self._rules, self._named = tools, tuple(rules), named
        self._files = CodeFiles(tools, archs, try_others)
        self._seen: dict[bytes, tuple[Finding, ...] | DataError] = {}
        self.complaints, self.notes = self._files.complaints, self._files.notes

    def check(self, paths: Sequence[Path]) -> list[KernelCheck]:
        """The functions of files and folders, in their order."""
        waiting: dict[str, list[_Job]] = {}
        sizes: Counter[str] = Counter()
        found: dict[int, KernelCheck] = {}
        with _without_collections():
            for job in self._jobs(paths):
                arch = job.compiled.cubin.arch
                waiting.setdefault(arch, []).append(job)
                sizes[arch] += len(job.function.code)
                if sizes.get(arch, 0) >= AT_ONCE:
                    found |= self._check(waiting.pop(arch))
                    del sizes[arch]
            for jobs in waiting.values():
                found |= self._check(jobs)
        return [found[number] for number in sorted(found)]

    def _jobs(self, paths: Sequence[Path]) -> Iterator[_Job]:
        number = 0
        for path in (file for place in paths for file in (code_files(place) if place.is_dir() else [place])):
            try:
                for compiled in self._files.read(path):
                    for function in compiled.cubin.functions:
                        if not self._named or fnmatchcase(escaped(function.name), self._named):
                            yield _Job(number, str(path), compiled, function)
                            number += 1
            except DataError as error:
                self.complaints.append(str(error))

    def _check(self, jobs: Sequence[_Job]) -> dict[int, KernelCheck]:
        """The answers by number of functions of one arch; what is the same but for its name is asked once."""
        keys = [_key(job) for job in jobs]
        new = {key: job for key, job in zip(keys, jobs, strict=True) if key not in self._seen}
        kernels = programs(self._tools, jobs[0].compiled.cubin.arch, [job.function for job in new.values()])
        for (key, job), kernel in zip(new.items(), kernels, strict=True):
            if isinstance(kernel, DataError):
                self._seen[key] = kernel
            else:
                kernel.file, kernel.ptx = job.path, job.compiled.ptx
                self._seen[key] = tuple(sorted(self._findings(kernel), key=lambda finding: finding.address))
        lines: dict[int, dict[str, FunctionLines]] = {}
        found = {}
        for key, job in zip(keys, jobs, strict=True):
            name, findings = escaped(job.function.name), self._seen[key]
            if isinstance(findings, DataError):
                self.complaints.append(f"{job.path}, {name}: {findings}")
                continue
            if findings and job.compiled.cubin.lines and id(job.compiled) not in lines:
                lines[id(job.compiled)] = source_lines(job.compiled.raw)
            of = lines.get(id(job.compiled), {}).get(job.function.name)
            placed = tuple(Placed(finding, of.at(finding.address) if of else None) for finding in findings)
            undecided = sum(finding.undecided for finding in findings)
            found[job.number] = KernelCheck(job.path, name, job.compiled.cubin.arch, placed, undecided)
        return found

    def _findings(self, kernel: Kernel) -> Iterator[Finding]:
        for rule in self._rules:
            yield from rule.check(kernel)
        for address, words in not_followed(kernel):
            yield Finding(NOT_FOLLOWED, "note", address, f"not followed: {one_line(words)}", undecided=True)
        if kernel.unread:
            words = f"{kernel.unread} words are not code that nvdisasm prints"
            yield Finding(NOT_FOLLOWED, "note", 0, f"not followed: {words}", undecided=True)
