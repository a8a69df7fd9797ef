"""What an emulation found: rules that were broken, each at a line of the text, and what else is to be said.

>>> report = Report()
>>> report.add("race", 12, 3, "writes a byte that thread 0 wrote without order")
>>> report.add("race", 12, 4, "the same again")
>>> [finding.to_json() for finding in report.findings]  # doctest: +NORMALIZE_WHITESPACE
[{'rule': 'race', 'severity': 'error', 'line': 12, 'file': None, 'source_line': None, 'thread': 3,
  'text': 'writes a byte that thread 0 wrote without order'}]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from tcprobe.emulate.ptx import Source
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.values import Json


class Rule(NamedTuple):
    """What it finds; "error", "warning" where only PTX's text says so, "note" where it need not be one."""

    words: str
    severity: str = "error"


RULES = {
    "race": Rule("two threads touch a byte, one of them writes, and nothing orders them"),
    "same-value": Rule("two threads write a byte, both the same value, and nothing orders them", "note"),
    "uninitialised": Rule("a byte is read that nobody wrote"),
    "bounds": Rule("an address is outside every buffer"),
    "misaligned": Rule("an address is no multiple of what the access needs"),
    "proxy": Rule("the async proxy reads what a thread wrote without a proxy fence between"),
    "cp-async-proxy": Rule("the async proxy reads what cp.async brought without a proxy fence between", "warning"),
    "in-flight": Rule("registers or memory are touched while work in flight reads or writes them"),
    "barrier": Rule("a barrier's number or count is none, or not that of the others who come"),
    "deadlock": Rule("threads wait for what never comes"),
    "assert": Rule("an assertion of the kernel does not hold"),
    "ended": Rule("shared memory of another block is touched that may have ended by then"),
    "leak": Rule("something is not given back"),
}
SEVERITIES = ("error", "warning", "note")
MOST_FINDINGS = 1000
MOST_OUTPUT = 10_000  # lines


SaidSeverity = Annotated[
    str, Meta(description="An error makes the exit code 1.", extra_json_schema={"enum": list(SEVERITIES)})
]


class EmulatedFinding(Answer):
    """What was found, and where."""

    rule: Annotated[str, Meta(extra_json_schema={"enum": list(RULES)})]
    severity: SaidSeverity
    line: Annotated[int, Meta(ge=0, description="Of the PTX text.")]
    file: Annotated[str | None, Meta(description="Of the source, by .loc and .file; null where they do not say.")]
    source_line: Annotated[int | None, Meta(ge=1, description="Its line there; of an inlined function its own.")]
    thread: Annotated[int, Meta(ge=0, description="Its number in its block.")]
    text: str


class ReportAnswer(Answer):
    """What a kernel did on the CPU."""

    finished: Annotated[bool, Meta(description="False where `--most` instructions were spent, or at `--break`.")]
    instructions: Annotated[int, Meta(ge=0, description="Of warps.")]
    findings: list[EmulatedFinding]
    notes: Annotated[list[str], Meta(description="What the bits rest on.")]
    output: Annotated[list[str], Meta(description="Lines that the kernel printed.")]


class Finding(NamedTuple):
    """A rule, the line of the PTX, the number of the thread in its block, words; its line of the source if known."""

    rule: str
    line: int
    thread: int
    text: str
    source: Source | None = None

    @property
    def severity(self) -> str:
        """Of the rule: "error", which makes the exit code 1, "warning" or "note"."""
        return RULES[self.rule].severity

    @property
    def file(self) -> str | None:
        """The source's, if known."""
        return self.source.file if self.source else None

    @property
    def source_line(self) -> int | None:
        """Its line there."""
        return self.source.line if self.source else None

    @property
    def answer(self) -> EmulatedFinding:
        """What `--json` prints of it."""
        return EmulatedFinding.of(self)

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def in_words(self) -> str:
        """One line."""
        source = f" ({self.source.words})" if self.source else ""
        return f"{self.severity}: line {self.line}{source}: {self.rule}: thread {self.thread}: {self.text}"


@dataclass
class Report:
    """`instructions` of warps that ran; `finished` unless their number was spent; `notes` on what the bits rest on."""

    findings: list[Finding] = field(default_factory=list)
    finished: bool = False
    instructions: int = 0
    notes: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)  # lines that the kernel printed, the last one perhaps not ended

    def add(self, rule: str, line: int, thread: int, text: str, source: Source | None = None) -> None:
        """A finding, once for each rule and line."""
        assert rule in RULES, rule
        if len(self.findings) < MOST_FINDINGS and not any((f.rule, f.line) == (rule, line) for f in self.findings):
            self.findings.append(Finding(rule, line, int(thread), text, source))

    @property
    def errors(self) -> list[Finding]:
        """The findings that make results wrong."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def wrong(self) -> bool:
        """Whether there is an error, or the kernel did not come to its end."""
        return not self.finished or bool(self.errors)

    @property
    def counts(self) -> str:
        """As "1 error, 0 warnings, 2 notes"."""
        every = [finding.severity for finding in self.findings]
        return ", ".join(f"{(n := every.count(one))} {one}{'' if n == 1 else 's'}" for one in SEVERITIES)

    def note(self, text: str) -> None:
        """Said once."""
        if text not in self.notes:
            self.notes.append(text)

    def printed(self, text: str) -> None:
        """What a thread prints; no more than MOST_OUTPUT lines."""
        first, *others = text.split("\n")
        self.output[-1:] = [(self.output[-1] if self.output else "") + first, *others]
        if len(self.output) > MOST_OUTPUT:
            del self.output[MOST_OUTPUT:]
            self.note(f"of what the kernel prints, {MOST_OUTPUT} lines are kept")

    @property
    def answer(self) -> ReportAnswer:
        """What `--json` prints of it."""
        findings = [finding.answer for finding in self.findings]
        return ReportAnswer.of(self, findings=findings, output=[line for line in self.output if line])

    def to_json(self) -> Json:
        return plain(self.answer)
