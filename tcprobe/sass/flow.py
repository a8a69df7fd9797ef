"""Facts that hold at the instructions of a kernel, followed along its control flow to a fixed point.

A fact is any value that can be compared; `step` says what an instruction makes of it, `join` what remains of two where
ways meet. A join that only ever loses or only ever gains, in a set that is finite, ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from tcprobe.sass.kernel import Block, Instruction, Kernel

Fact = TypeVar("Fact")
Step = Callable[[Fact, Instruction], Fact]
MOST_ROUNDS = 1000  # visits of one block; a join that does not settle is an error of the rule


class Graph(Protocol):
    """A kernel, or its copy with loops taken apart (`rounds`)."""

    @property
    def name(self) -> str: ...
    @property
    def instructions(self) -> Sequence[Instruction]: ...
    @property
    def blocks(self) -> tuple[Block, ...]: ...


def forward(kernel: Graph, start: Fact, step: Step[Fact], join: Callable[[Fact, Fact], Fact]) -> dict[int, Fact]:
    """By number of a block, the fact at its begin, if `start` holds where the kernel begins."""
    if not kernel.blocks:
        return {}
    facts, pending, rounds = {0: start}, {0}, dict[int, int]()
    while pending:
        number = min(pending)
        pending.discard(number)
        rounds[number] = rounds.get(number, 0) + 1
        assert rounds[number] <= MOST_ROUNDS, f"{kernel.name}: facts at {kernel.blocks[number].first} do not settle"
        fact, block = facts[number], kernel.blocks[number]
        for index in range(block.first, block.end):
            fact = step(fact, kernel.instructions[index])
        for after in block.after:
            joined = join(facts[after], fact) if after in facts else fact
            if after not in facts or joined != facts[after]:
                facts[after] = joined
                pending.add(after)
    return facts


def at_each(kernel: Graph, facts: dict[int, Fact], step: Step[Fact]) -> Iterator[tuple[Instruction, Fact]]:
    """Every instruction that may be reached, in order of addresses, with the fact that holds before it."""
    for number, block in enumerate(kernel.blocks):
        if number in facts:
            fact = facts[number]
            for index in range(block.first, block.end):
                instruction = kernel.instructions[index]
                yield instruction, fact
                fact = step(fact, instruction)


def backward(kernel: Kernel, end: Fact, step: Step[Fact], join: Callable[[Fact, Fact], Fact]) -> dict[int, Fact]:
    """By number of a block, the fact at its end, if `end` holds where the kernel ends; `step` goes from behind."""
    facts = {number: end for number, block in enumerate(kernel.blocks) if not block.after}
    pending, rounds = set(facts), dict[int, int]()
    while pending:
        number = max(pending)
        pending.discard(number)
        rounds[number] = rounds.get(number, 0) + 1
        assert rounds[number] <= MOST_ROUNDS, f"{kernel.name}: facts at {kernel.blocks[number].first} do not settle"
        fact, block = facts[number], kernel.blocks[number]
        for index in reversed(range(block.first, block.end)):
            fact = step(fact, kernel.instructions[index])
        for other in kernel.before[number]:
            joined = join(facts[other], fact) if other in facts else fact
            if other not in facts or joined != facts[other]:
                facts[other] = joined
                pending.add(other)
    return facts
