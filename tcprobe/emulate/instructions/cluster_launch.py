"""clusterlaunchcontrol: a cluster that runs asks for the work of one that does not yet; here each is launched.

Written from PTX ISA 9.1, sections 9.7.13.17 and 9.7.13.18. A request may always fail, so it does: the answer, 16 bytes
beside an mbarrier, says that nothing was cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tcprobe.emulate.instructions.accesses import address_of
from tcprobe.emulate.instructions.bulk import CHUNK, issue_copy, one_of
from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.memory import RANK
from tcprobe.emulate.operands import by_modifier
from tcprobe.emulate.ptx import Statement
from tcprobe.layout.arrays import Bytes

KNOWN = ("async", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster::all", "b128")


def _try(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers[1:]
    if any(word not in KNOWN for word in words):
        raise statement.refused()
    to, at = (address_of(machine, operand, "shared::cluster") for operand in statement.operands)
    ranks = range(machine.shape.ranks) if "multicast::cluster::all" in words else ()

    def run(where: Where) -> None:
        for thread in map(int, machine.threads[where]):
            place, barrier = one_of(to, thread), one_of(at, thread)
            inside = (1 << RANK) - 1
            ends = [(place & inside | rank << RANK, barrier & inside | rank << RANK) for rank in ranks]
            for one, other in ends if len(ends) > 1 else [(place, barrier)]:
                issue_copy(machine, statement, thread, one, other, None, CHUNK, CHUNK, nothing_cancelled)

    return run


def nothing_cancelled() -> Bytes:
    """The answer."""
    return np.zeros((1, CHUNK), np.uint8)


def _query(statement: Statement, machine: Machine) -> Step:
    if "is_canceled" not in statement.modifiers:
        return _first(statement, machine)
    target, _ = statement.operands
    write = machine.writer(target, np.bool_)
    return lambda where: write(where, np.False_)


def _first(statement: Statement, machine: Machine) -> Step:
    """Where the cancelled cluster begins: of none, which nobody may ask."""

    def run(where: Where) -> None:
        machine.find("uninitialised", int(machine.threads[where][0]), "it asks which cluster was cancelled; none was")

    return run


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "clusterlaunchcontrol": by_modifier({"try_cancel": _try, "query_cancel": _query})
}
