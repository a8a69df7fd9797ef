"""What an emulation found: rules that were broken, each at a line of the text, and what else is to be said.

>>> report = Report()
>>> report.add("race", 12, 3, "writes a byte that thread 0 wrote without order")
>>> report.add("race", 12, 4, "the same again")
>>> [finding.to_json() for finding in report.findings]
[{'rule': 'race', 'line': 12, 'thread': 3, 'text': 'writes a byte that thread 0 wrote without order'}]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tcprobe.values import Json

RULES = {
    "race": "two threads touch a byte, one of them writes, and nothing orders them",
    "uninitialised": "a byte is read that nobody wrote",
    "bounds": "an address is outside every buffer",
    "misaligned": "an address is no multiple of what the access needs",
    "proxy": "the async proxy reads what a thread wrote without a proxy fence between",
    "in-flight": "registers or memory are touched while work in flight reads or writes them",
    "barrier": "a barrier's number or count is none, or not that of the others who come",
    "deadlock": "threads wait for what never comes",
    "leak": "something is not given back",
}
MOST_FINDINGS = 1000


class Finding(NamedTuple):
    """A rule, the line of the PTX, the number of the thread in its block, words; the line of the source if known."""

    rule: str
    line: int
    thread: int
    text: str
    source: str = ""

    def to_json(self) -> Json:
        """Plain data."""
        return {"rule": self.rule, "line": self.line, "thread": self.thread, "text": self.text}

    @property
    def in_words(self) -> str:
        """One line."""
        source = f" ({self.source})" if self.source else ""
        return f"line {self.line}{source}: {self.rule}: thread {self.thread}: {self.text}"


@dataclass
class Report:
    """`instructions` of warps that ran; `finished` unless their number was spent; `notes` on what the bits rest on."""

    findings: list[Finding] = field(default_factory=list)
    finished: bool = False
    instructions: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, rule: str, line: int, thread: int, text: str, source: str = "") -> None:
        """A finding, once for each rule and line."""
        assert rule in RULES, rule
        if len(self.findings) < MOST_FINDINGS and not any((f.rule, f.line) == (rule, line) for f in self.findings):
            self.findings.append(Finding(rule, line, int(thread), text, source))

    def note(self, text: str) -> None:
        """Said once."""
        if text not in self.notes:
            self.notes.append(text)

    def to_json(self) -> Json:
        """Plain data."""
        return {
            "finished": self.finished,
            "instructions": self.instructions,
            "findings": [finding.to_json() for finding in self.findings],
            "notes": self.notes,
        }
