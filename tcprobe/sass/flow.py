"""Facts that hold at the instructions of a kernel, followed along its control flow to a fixed point.

`step` says what an instruction makes of a fact; facts and `join` are as of `graph.fixpoint`. `counts`: whether it makes
something else of any fact; most leave all as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from tcprobe.graph import fixpoint
from tcprobe.sass.decode import Form
from tcprobe.sass.kernel import Block, Instruction, Kernel

Fact = TypeVar("Fact")
Step = Callable[[Fact, Instruction], Fact]
Counts = Callable[[Form], bool]


class Graph(Protocol):
    """A kernel, or its copy with loops taken apart (`rounds`)."""

    @property
    def name(self) -> str: ...
    @property
    def instructions(self) -> Sequence[Instruction]: ...
    @property
    def blocks(self) -> tuple[Block, ...]: ...


def forward(
    kernel: Graph, start: Fact, step: Step[Fact], join: Callable[[Fact, Fact], Fact], counts: Counts
) -> dict[int, Fact]:
    """By number of a block, the fact at its begin, if `start` holds where the kernel begins."""
    counting = [[i for i in kernel.instructions[block.first : block.end] if counts(i.form)] for block in kernel.blocks]

    def through(number: int, fact: Fact) -> Fact:
        for instruction in counting[number]:
            fact = step(fact, instruction)
        return fact

    return fixpoint([block.after for block in kernel.blocks], {0: start} if kernel.blocks else {}, through, join)


def at_each(
    kernel: Graph, facts: dict[int, Fact], step: Step[Fact], counts: Counts
) -> Iterator[tuple[Instruction, Fact]]:
    """Every instruction that may be reached, in order of addresses, with the fact that holds before it."""
    for number, block in enumerate(kernel.blocks):
        if number in facts:
            fact = facts[number]
            for instruction in kernel.instructions[block.first : block.end]:
                yield instruction, fact
                if counts(instruction.form):
                    fact = step(fact, instruction)


def backward(kernel: Kernel, end: Fact, step: Step[Fact], join: Callable[[Fact, Fact], Fact]) -> dict[int, Fact]:
    """By number of a block, the fact at its end, if `end` holds where the kernel ends; `step` goes from behind."""

    def through(number: int, fact: Fact) -> Fact:
        for index in reversed(range(kernel.blocks[number].first, kernel.blocks[number].end)):
            fact = step(fact, kernel.instructions[index])
        return fact

    ends = {number: end for number, block in enumerate(kernel.blocks) if not block.after}
    return fixpoint(kernel.before, ends, through, join, last_first=True)
