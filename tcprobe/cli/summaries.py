"""Counts before lists: what there is by family and shape, what instructions become by arch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from tcprobe.cli.printing import bold
from tcprobe.cli.wrapping import line

if TYPE_CHECKING:
    from tcprobe.ask.lowered import Lowered
    from tcprobe.isa.fragment import Fragment
    from tcprobe.isa.instruction import Instruction, SharedOperand

FEW = 4  # shapes that differ in N alone, above which the N are given as a range


def families(fragments: Sequence[Fragment], shared: Sequence[SharedOperand], forms: Sequence[Instruction]) -> None:
    """`list` without a pattern: by family how many fragments, the least arch, and the shapes."""
    names = dict.fromkeys((*(one.family for one in fragments), *(row.family for row in forms)))
    for name in names:
        rows = [one for one in fragments if one.family == name]
        behind = [one for one in shared if one.instruction.family == name]
        bare = [row for row in forms if row.family == name]
        counted = (
            f"{len(rows)} fragments" if rows else "",
            f"{len(behind)} in shared memory" if behind else "",
            f"{len(bare)} instructions without any" if bare else "",
        )
        targets = [*(one.target.name for one in rows), *(row.target.name for row in bare)]
        least = min(targets, key=lambda text: (int(re.sub(r"\D", "", text)), text))
        line(f"{name}: {', '.join(filter(None, counted))}, from {least} on", name, bold=True)
        if shapes := list(dict.fromkeys(one.shape for one in rows if one.shape.k)):
            line(f"    {', '.join(_shapes((shape.m, shape.n, shape.k) for shape in shapes))}")
    line("`tcprobe list FAMILY` lists a family, `tcprobe list 'm16n8k16*bf16*'` what a pattern means")


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


def lowerings(outcomes: Iterable[Lowered], total: int) -> None:
    """`lower` without an instruction: by arch how many of a `total` become their own instructions."""
    heads = ("native", "emulated", "refused", "not known")
    counts: dict[str, Counter[str]] = {}
    for one in outcomes:
        native = "native" if one.lowering.native(one.instruction) else "emulated"
        counts.setdefault(one.arch, Counter())["refused" if one.lowering.refused else native] += 1
    click.echo(bold("  ".join(("arch    ", *heads))))
    for name, found in counts.items():
        found["not known"] = total - found.total()
        click.echo("  ".join((name.ljust(8), *(str(found[head]).rjust(len(head)) for head in heads))))
    line("`tcprobe lower INSTRUCTION`, or a pattern, lists what each becomes; --arch sm_XX lists an arch")
