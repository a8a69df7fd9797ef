"""Counts before lists: what there is by family and shape, what instructions become by arch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tcprobe.question.wrapping import line

if TYPE_CHECKING:
    from tcprobe.isa.fragment import Fragment
    from tcprobe.isa.instruction import Instruction, SharedOperand

FEW = 4  # shapes that differ in N alone, above which the N are given as a range


def families(
    fragments: Sequence[Fragment], shared_operands: Sequence[SharedOperand], forms: Sequence[Instruction]
) -> None:
    """`list` without a pattern: by family how many fragments, the least arch, and the shapes."""
    names = dict.fromkeys((*(fragment.family for fragment in fragments), *(row.family for row in forms)))
    for name in names:
        rows = [fragment for fragment in fragments if fragment.family == name]
        behind = [operand for operand in shared_operands if operand.instruction.family == name]
        bare = [row for row in forms if row.family == name]
        counted = (
            f"{len(rows)} fragments" if rows else "",
            f"{len(behind)} in shared memory" if behind else "",
            f"{len(bare)} instructions without any" if bare else "",
        )
        targets = [*(fragment.target.name for fragment in rows), *(row.target.name for row in bare)]
        least = min(targets, key=lambda text: (int(re.sub(r"\D", "", text)), text))
        line(f"{name}: {', '.join(filter(None, counted))}, {least} and later", name, bold=True)
        if shapes := list(dict.fromkeys(fragment.shape for fragment in rows if fragment.shape.k)):
            line(f"    {', '.join(_shapes((shape.m, shape.n, shape.k) for shape in shapes))}")
    line("`tcprobe list FAMILY` lists a family, `tcprobe list 'm16n8k16*bf16*'` what a pattern matches")


def _shapes(shapes: Iterable[tuple[int, int, int]]) -> list[str]:
    """m16n8k16 and the like; m64nNk16 (N 8 to 256) where many differ in N alone."""
    widths: dict[tuple[int, int], list[int]] = {}
    for m, n, k in shapes:
        widths.setdefault((m, k), []).append(n)
    return [
        text
        for (m, k), ns in widths.items()
        for text in ([f"m{m}nNk{k} (N {min(ns)} to {max(ns)})"] if len(ns) > FEW else [f"m{m}n{n}k{k}" for n in ns])
    ]
