"""Which lines of B the stored columns of a sparse A meet, by metadata in registers, where the tables say it lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, Integers
from tcprobe.emulate.fragments import of_cells, split
from tcprobe.emulate.products import multiply
from tcprobe.emulate.report import Report
from tcprobe.errors import UsageError
from tcprobe.isa.instruction import Sparsity, sparsity
from tcprobe.isa.names import resolve
from tcprobe.layout.arrays import Ints
from tcprobe.store.cell import find
from tcprobe.store.choose import default

SECOND = 0xE  # the field of tf32 that means the second of two
EQUAL = (0b0000, 0b0101, 0b1010, 0b1111)  # two fields that mean the same place


@lru_cache(maxsize=64)
def meetings(form: str, selector: int, arch: str) -> Callable[[Any, Report], Ints]:
    """From metadata, (groups, threads, 1 register), to (groups, m, stored k) lines of B; UsageError for a selector
    that the form does not have. The report notes indices that PTX gives no meaning.
    """
    instruction = resolve(form).instruction
    fragment = instruction.fragment("e")
    cell = find(fragment, arch, default()) or find(fragment, None, default())
    if cell is None:
        raise UsageError(f"{fragment.id} has no table.")
    table = cell.table.selection(selector)
    places, rule = of_cells(table.cells, table.outputs, table.elements), sparsity(fragment)
    ordered = "ordered_metadata" in form

    def met(words: Any, report: Report) -> Ints:
        held = places.gather(split(words, fragment.slot_bits)).astype(np.int64)
        fields = held[..., :: rule.span]  # a table has a field at the first of its elements
        if not meaningful(fields, rule, ordered):
            report.note(f"{instruction.id}: metadata has indices that PTX gives no meaning; they are taken as they are")
        return lines_of(fields, rule, instruction.stored)

    return met


def meaningful(fields: Ints, rule: Sparsity, ordered: bool) -> bool:
    """Whether all index fields, (..., fields of a row), are some that PTX ISA 9.1, section 9.7.14.6.1, allows."""
    if rule.fields == 1:
        return bool(np.isin(fields, rule.legal).all())
    pairs = fields[..., 0::2] | fields[..., 1::2] << rule.bits
    return bool(np.isin(pairs, rule.legal).all() if ordered else not np.isin(pairs, EQUAL).any())


def lines_of(fields: Ints, rule: Sparsity, stored: int) -> Ints:
    """The line of B that each of `stored` columns of A meets, (..., stored), of the index fields of a row."""
    column = np.arange(stored)
    index = (fields == SECOND).astype(np.int64) if rule.fields == 1 else fields
    chunk = column // (rule.fields * rule.span)
    lines: Ints = (chunk * rule.positions + index[..., column // rule.span]) * rule.span + column % rule.span
    return lines


def multiply_met(
    types: ElementTypes, rule: Arithmetic | Integers, abc: tuple[Any, Any, Any], lines: Ints, satfinite: bool
) -> Any:
    """D's bits: A (groups, m, stored k), B (groups, k, n), C (groups, m, n), the lines of B that A's columns meet."""
    a, b, c = abc
    met = b[np.arange(b.shape[0])[:, None, None], lines]  # (groups, m, stored k, n)
    return multiply(types, rule, a[:, :, None], met, c[:, :, None], satfinite)[:, :, 0]
