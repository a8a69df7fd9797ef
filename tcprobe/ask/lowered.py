"""What multiplies become on each arch: assembled here, or, for an arch that ptxas does not know, what is saved."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcprobe.errors import UsageError
from tcprobe.isa import arch
from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.sass import lowering, toolchain
from tcprobe.sass.lowering import Lowering
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.choose import Layers, default
from tcprobe.store.results import Results
from tcprobe.text import escaped


@dataclass(frozen=True)
class Lowered:
    """What one multiply becomes on an arch, by which compiler.

    `source` is "published" or the folder where that is saved, None where it was assembled just now.
    """

    instruction: Instruction
    arch: str
    lowering: Lowering
    compiler: str
    source: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "instruction": self.instruction.name, "arch": self.arch, "native": self.lowering.native(self.instruction),
            "compiler": self.compiler, "source": self.source, **self.lowering.to_json(),
        }  # fmt: skip

    def __str__(self) -> str:
        reason = f" ({self.lowering.refused})" if self.lowering.refused else ""
        saved = f" ({self.source}, by {self.compiler})" if self.source else ""
        words = lowering.words(self.lowering, self.instruction)
        return f"{self.arch:<8}{self.instruction.id}: {words}{reason}{saved}"


def lowered(
    rows: Sequence[Instruction], name: str | None, cuda: Path | None = None, save: Path | None = None
) -> Iterator[Lowered]:
    """What multiplies become on arch `name`, or on all that ptxas knows; with `save` written into that folder too.

    What is saved answers for an arch that ptxas does not know; UsageError where nothing is, and where `cuda` or `save`
    ask for what this ptxas makes.
    """
    tools = toolchain.find(cuda)
    for row in tools.archs if name in (None, "all") else (arch.arch(name or ""),):
        if row in tools.archs:
            yield from _assembled(tools, row, rows, save)
        elif cuda or save:
            raise _unknown(tools, row)
        else:
            yield from _saved(tools, row, rows, default())


def _assembled(tools: Toolchain, row: Arch, rows: Sequence[Instruction], save: Path | None) -> Iterator[Lowered]:
    found = lowering.lower(tools, row, rows)
    if save:
        saved = {id_: low.to_json() for id_, low in found.items()}
        for complaint in Results(save).write_lowering(row.name, tools.name, saved):
            print(escaped(f"written anew, not trusted: {complaint}"), file=sys.stderr)
    return (Lowered(instruction, row.name, found[instruction.id], tools.name) for instruction in rows)


def _saved(tools: Toolchain, row: Arch, rows: Sequence[Instruction], layers: Layers) -> Iterator[Lowered]:
    found = layers.lowering(row.name)
    if found is None:
        raise _unknown(tools, row)
    body, source = found
    missing = [i.id for i in rows if i.id not in body["instructions"]]
    if missing:
        raise UsageError(f"{_unknown(tools, row)} The lowering of {row.name} in {source} has no {missing[0]}.")
    for instruction in rows:
        low = Lowering(**body["instructions"][instruction.id])
        yield Lowered(instruction, row.name, low, body["compiler"], source)


def _unknown(tools: Toolchain, row: Arch) -> UsageError:
    known = ", ".join(known.name for known in tools.archs)
    return UsageError(f"{tools.ptxas} ({tools.ptxas_version}) does not know {row.name}; it knows {known}.")
