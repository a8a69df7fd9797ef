"""Files in, findings out: of each function in them what the rules find.

Functions are independent of each other: with several cores, batches of them are looked at by other processes.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, NamedTuple

from tcprobe.check.rule import Finding, Rule, Severity, rules
from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.sass.code_files import CodeFiles, Compiled, code_files
from tcprobe.sass.disassemble import AT_ONCE, programs
from tcprobe.sass.elf import FunctionCode
from tcprobe.sass.kernel import Kernel, not_followed
from tcprobe.sass.source_lines import FunctionLines, SourceLine, source_lines
from tcprobe.sass.toolchain import Toolchain
from tcprobe.text import escaped, one_line
from tcprobe.values import Json

NOT_FOLLOWED = "unfollowed"  # the rule of notes about what no rule could look at
MOST_WAITING = 64 << 20  # bytes of functions that are found and not answered yet
Findings = tuple[Finding, ...] | DataError


class DiagnosticAnswer(Answer):
    """What a rule finds at an instruction."""

    rule: str
    severity: Severity
    address: Annotated[int, Meta(ge=0, description="Offset in the kernel, as nvdisasm prints it.")]
    line: SourceLine | None
    text: str
    numbers: dict[str, float]


class CheckAnswer(Answer):
    """What the rules find in a function of a file, one object per line, also of one where they find nothing."""

    file: str
    kernel: str
    arch: str
    undecided: Annotated[
        int,
        Meta(
            ge=0,
            description="How many things the rules cannot say; the notes among the findings have the reasons.",
        ),
    ]
    findings: list[DiagnosticAnswer]


class Placed(NamedTuple):
    """A finding and the line of the source, where the file has it."""

    finding: Finding
    line: SourceLine | None

    @property
    def answer(self) -> DiagnosticAnswer:
        """What `--json` prints of it."""
        return DiagnosticAnswer.of(self.finding, line=self.line)

    def to_json(self) -> Json:
        return plain(self.answer)


@dataclass(frozen=True)
class KernelCheck:
    """What the rules find in a function, in the order of its code; `undecided` counts what they cannot say."""

    file: str
    kernel: str
    arch: str
    findings: tuple[Placed, ...]
    undecided: int

    def to_json(self) -> Json:
        return plain(CheckAnswer.of(self, findings=[placed.answer for placed in self.findings]))


@dataclass
class Batch:
    """Functions of one arch that are disassembled together, each with its file and the PTX that it was made of."""

    arch: str
    functions: list[FunctionCode] = field(default_factory=list)
    origins: list[tuple[str, str | None]] = field(default_factory=list)
    size: int = 0  # bytes of code

    def add(self, job: _Job) -> None:
        """One more."""
        self.functions.append(job.function)
        self.origins.append((job.path, job.compiled.ptx))
        self.size += len(job.function.code)


def findings(tools: Toolchain, named: Sequence[str], batch: Batch) -> list[Findings]:
    """What the rules of these names find in each function of a batch."""
    asked = [rules()[name] for name in named]
    kernels = programs(tools, batch.arch, batch.functions)
    return [_findings(asked, kernel, *origin) for kernel, origin in zip(kernels, batch.origins, strict=True)]


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


@_without_collections()
def _findings(asked: Sequence[Rule], kernel: Kernel | DataError, file: str, text: str | None) -> Findings:
    if isinstance(kernel, DataError):
        return kernel
    kernel.file, kernel.ptx = file, text
    found = [finding for rule in asked for finding in rule.check(kernel)]
    for address, words in not_followed(kernel):
        found.append(Finding(NOT_FOLLOWED, "note", address, f"not followed: {one_line(words)}", undecided=True))
    if kernel.unread:
        words = f"{kernel.unread} words are not code that nvdisasm prints"
        found.append(Finding(NOT_FOLLOWED, "note", 0, f"not followed: {words}", undecided=True))
    return tuple(sorted(found, key=lambda finding: finding.address))


class _Job(NamedTuple):
    path: str
    compiled: Compiled
    function: FunctionCode

    @property
    def key(self) -> bytes:
        """The same for functions of which all rules say the same."""
        function = dataclasses.replace(self.function, name="", code=b"")
        told = repr((self.compiled.cubin.arch, self.compiled.ptx, function)).encode()
        return hashlib.sha256(told + self.function.code).digest()


class _Answers:
    """What is found of functions by their keys, those that are alike asked once, about AT_ONCE bytes at a time.

    `look` takes a batch and says where its answers will be; at most `at_work` are being looked at.
    """

    def __init__(self, look: Callable[[Batch], Future[list[Findings]]], at_work: int) -> None:
        self._look, self._at_work = look, at_work
        self._places: dict[bytes, tuple[int, int]] = {}  # number of a batch, and place in it
        self._open: dict[str, tuple[int, Batch]] = {}  # by arch
        self._asked: dict[int, Future[list[Findings]]] = {}
        self._numbers = count()
        self._running: deque[Future[list[Findings]]] = deque()

    def ask(self, key: bytes, job: _Job) -> None:
        """Have a function looked at, if none like it was."""
        if key in self._places:
            return
        arch = job.compiled.cubin.arch
        if arch not in self._open:
            self._open[arch] = next(self._numbers), Batch(arch)
        number, batch = self._open[arch]
        self._places[key] = number, len(batch.functions)
        batch.add(job)
        if batch.size >= AT_ONCE:
            self._start(arch)

    def start(self) -> None:
        """Have all looked at that wait."""
        for arch in list(self._open):
            self._start(arch)

    def _start(self, arch: str) -> None:
        number, batch = self._open.pop(arch)
        while len(self._running) >= self._at_work:  # what is found is small, what it is found in is not
            self._running.popleft().result()
        self._asked[number] = future = self._look(batch)
        self._running.append(future)

    def is_there(self, key: bytes) -> bool:
        """Whether what is found of a function is known."""
        future = self._asked.get(self._places[key][0])
        return future is not None and future.done()

    def of(self, key: bytes) -> Findings:
        """What is found of a function that is being looked at."""
        number, place = self._places[key]
        return self._asked[number].result()[place]


class Checker:
    """Checks files by the rules of the names `asked`; what cannot be read is told to `complaints`, as `files` does.

    `named`: a pattern of functions' names. With several `cores` other processes look at large files: the program that
    asks must be one that can be imported (`if __name__ == "__main__"`).
    """

    def __init__(
        self, tools: Toolchain, asked: Sequence[str], files: CodeFiles, named: str | None = None, cores: int = 1
    ) -> None:
        self._tools, self._asked, self._files, self._named, self._cores = tools, tuple(asked), files, named, cores
        self.complaints, self.notes = files.complaints, files.notes
        self._last: tuple[Compiled, Mapping[str, FunctionLines]] | None = None

    def check(self, paths: Sequence[Path]) -> Iterator[KernelCheck]:
        """The functions of files and folders, in their order, each as soon as those before it are done."""
        with self._looking() as look:
            answers, waiting, size = _Answers(look, 2 * self._cores), deque[tuple[bytes, _Job]](), 0
            for job in self._jobs(paths):
                key = job.key
                waiting.append((key, job))
                size += len(job.function.code)
                answers.ask(key, job)
                if size > MOST_WAITING:
                    answers.start()
                while waiting and (size > MOST_WAITING or answers.is_there(waiting[0][0])):
                    key, done = waiting.popleft()
                    size -= len(done.function.code)
                    yield from self._checked(done, answers.of(key))
            answers.start()
            for key, job in waiting:
                yield from self._checked(job, answers.of(key))

    @contextmanager
    def _looking(self) -> Iterator[Callable[[Batch], Future[list[Findings]]]]:
        """Looks at batches, here or elsewhere; a process is started when there is something for it."""
        if self._cores == 1:
            yield self._here
            return
        pool = ProcessPoolExecutor(self._cores, get_context("spawn"), _not_interrupted)
        try:
            yield lambda batch: pool.submit(findings, self._tools, self._asked, batch)
        except BrokenProcessPool:
            raise EnvironmentUnfitError("a process that looks at code ended; is there enough memory?") from None
        finally:
            pool.shutdown(cancel_futures=True)

    def _here(self, batch: Batch) -> Future[list[Findings]]:
        future = Future[list[Findings]]()
        future.set_result(findings(self._tools, self._asked, batch))
        return future

    def _jobs(self, paths: Sequence[Path]) -> Iterator[_Job]:
        for path in (file for place in paths for file in (code_files(place) if place.is_dir() else [place])):
            try:
                for compiled in self._files.read(path):
                    for function in compiled.cubin.functions:
                        if not self._named or fnmatchcase(escaped(function.name), self._named):
                            yield _Job(str(path), compiled, function)
            except DataError as error:
                self.complaints.append(str(error))

    def _checked(self, job: _Job, found: Findings) -> Iterator[KernelCheck]:
        """A function with what is found of it, at lines of its source; a complaint where its code cannot be read."""
        name = escaped(job.function.name)
        if isinstance(found, DataError):
            self.complaints.append(f"{job.path}, {name}: {found}")
            return
        lines = self._lines(job.compiled) if found and job.compiled.cubin.lines else {}
        of = lines.get(job.function.name)
        placed = tuple(Placed(finding, of.at(finding.address) if of else None) for finding in found)
        undecided = sum(finding.undecided for finding in found)
        yield KernelCheck(job.path, name, job.compiled.cubin.arch, placed, undecided)

    def _lines(self, compiled: Compiled) -> Mapping[str, FunctionLines]:
        """Those of a cubin, kept until another one's are asked for: functions come cubin by cubin."""
        if self._last is None or self._last[0] is not compiled:
            self._last = compiled, source_lines(compiled.raw)
        return self._last[1]


def _not_interrupted() -> None:
    """Who started this process ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
