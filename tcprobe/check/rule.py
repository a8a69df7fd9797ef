"""What a rule is: a module of `tcprobe.check.rules`, found by being there.

    NAME       as in --rule: "wgmma-operands"
    SEVERITY   of what it finds: "error" for what makes results wrong, "warning" for what makes a kernel slow, or is
               wrong by PTX's text alone and right on hardware as far as is known
    SAYS       what it finds, in a sentence
    FIX        what to do about it
    EVIDENCE   why it is true: sources and measurements, a tuple of sentences
    FAILS      PTX in which it finds something, and PASSES in which it does not
    check      check(kernel) -> findings

`check` gets a `Kernel` (`program`) and yields `Finding`s; what it cannot decide is a finding of severity "note" with
the reason, made by `undecided`. It leaves kernels at once that have none of the opcodes that it is about:
`kernel.mnemonics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Literal, NamedTuple, Protocol, cast

from tcprobe import plugins
from tcprobe.sass.kernel import Instruction, Kernel

PACKAGE = "tcprobe.check.rules"
NEEDS = ("NAME", "SEVERITY", "SAYS", "FIX", "EVIDENCE", "FAILS", "PASSES", "check")
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the worst first


class Finding(NamedTuple):
    """What a rule finds at an instruction, by its address in the function; `text`: what is wrong and what to do.

    Two findings with the same rule and text are the same one to a baseline: `text` names no addresses.
    """

    rule: str
    severity: Severity
    address: int
    text: str
    numbers: Mapping[str, int | float] = {}
    undecided: bool = False


class Rule(Protocol):
    """The names that a module of rules has."""

    NAME: str
    SEVERITY: Severity
    SAYS: str
    FIX: str
    EVIDENCE: tuple[str, ...]
    FAILS: str
    PASSES: str

    def check(self, kernel: Kernel) -> Iterator[Finding]:
        """What is wrong in a kernel, in order of addresses."""


def undecided(rule: str, instruction: Instruction, reason: str) -> Finding:
    """A note: what the rule cannot say about an instruction, and why."""
    return Finding(rule, "note", instruction.address, f"undecided: {reason}", undecided=True)


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by name, errors first, as `--rules` lists them."""
    found = [cast(Rule, _checked(module)) for module in plugins.discover(PACKAGE, NEEDS).values()]
    return {rule.NAME: rule for rule in sorted(found, key=lambda r: (SEVERITIES.index(r.SEVERITY), r.NAME))}


def _checked(module: ModuleType) -> ModuleType:
    name, file = module.NAME, module.__name__.rpartition(".")[2]
    assert module.SEVERITY in SEVERITIES, f"{module.__name__}: SEVERITY is one of {', '.join(SEVERITIES)}"
    assert name == file.replace("_", "-"), f"{module.__name__}: NAME is as the file"
    return module
