"""Which lines of B the stored columns of a sparse A meet, by metadata in registers, where the tables say it lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tcprobe.emulate.fragments import of_cells, split
from tcprobe.errors import UsageError
from tcprobe.isa.instruction import sparsity
from tcprobe.isa.names import resolve
from tcprobe.layout.arrays import Ints
from tcprobe.store.cell import find
from tcprobe.store.choose import default

SECOND = 0xE  # the field of tf32 that means the second of two


@lru_cache(maxsize=64)
def meetings(form: str, selector: int, arch: str) -> Callable[[Any], Ints]:
    """From metadata, (groups, 32 threads, 1 register), to (groups, m, stored k) lines of B; UsageError for a selector
    that the form does not have.
    """
    instruction = resolve(form).instruction
    fragment = instruction.fragment("e")
    cell = find(fragment, arch, default()) or find(fragment, None, default())
    if cell is None:
        raise UsageError(f"{fragment.id} has no table.")
    table = cell.table.selection(selector)
    places, rule = of_cells(table.cells, table.outputs, table.elements), sparsity(fragment)
    stored = np.arange(instruction.stored)

    def met(words: Any) -> Ints:
        fields = places.gather(split(words, fragment.slot_bits)).astype(np.int64)
        index = (fields == SECOND).astype(np.int64) if rule.fields == 1 else fields
        chunk = stored // (rule.fields * rule.span)
        of_stored = index[:, :, stored // rule.span]
        lines: Ints = (chunk * rule.positions + of_stored) * rule.span + stored % rule.span
        return lines

    return met
