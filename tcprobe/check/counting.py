"""Rules that count what requests of memory cost: a warning for each access that costs more than it has to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tcprobe.check.rule import Finding, undecided
from tcprobe.sass.addresses import Reach, reaches
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.requests import Request, UndecidedError, loop_of

ROWS = ", in blocks whose rows are whole warps (the file does not state their shape)"


class Counting(NamedTuple):
    """What a rule counts of requests: its name, the unit, mnemonics of accesses, the cost, and what is said of one.

    `words` takes the opcode, the numbers, and what holds of the lanes. `cycles`: those of an SM for one more of the
    unit, by arch and mnemonic; None where they are not measured.
    """

    rule: str
    unit: str
    mnemonics: frozenset[str]
    cost: Callable[[Reach], Request | None]
    words: Callable[[str, Mapping[str, int | float], str], str]
    cycles: Callable[[str, str], float | None] = lambda _arch, _mnemonic: None


def costly(kernel: Kernel, counting: Counting) -> Iterator[Finding]:
    """A warning for each access whose worst warp costs more than the least; a note where the cost is not known."""
    if not counting.mnemonics & kernel.mnemonics:
        return
    for reach in reaches(kernel):
        instruction = reach.instruction
        if instruction.mnemonic not in counting.mnemonics:
            continue
        try:
            request = counting.cost(reach)
        except UndecidedError as error:
            yield undecided(counting.rule, instruction, f"{error}, of {instruction.opcode}")
            continue
        if request is None or request.worst <= request.least:
            continue
        numbers: dict[str, int | float] = {
            counting.unit: request.worst,
            "least": request.least,
            "typical": request.typical,
            "lanes": request.lanes,
            "a_round": int(loop_of(kernel, instruction) is not None),
        }
        each = counting.cycles(kernel.arch, instruction.mnemonic)
        if each:
            numbers["cycles"] = round(each * (request.worst - request.least), 1)
        lanes = ("" if reach.sure else ", if all lanes take part that may") + (ROWS if request.assumed else "")
        text = counting.words(instruction.opcode, numbers, lanes)
        yield Finding(counting.rule, "warning", instruction.address, text, numbers)
