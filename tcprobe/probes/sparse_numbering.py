"""From what meets under which metadata to tables of a, b, c, d and e, numbered by a reference or by rule.

The rows and stored columns of A and the columns of D are a convention, as for dense multiplies. Once they are fixed,
the metadata's indices show which k each B slot is, and which element each field governs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.layout.arrays import Ints
from tcprobe.layout.structure import NIBBLE, Triples, columns, elements
from tcprobe.layout.table import StructureHash, Table, Tables, selected, slot_table
from tcprobe.probes.experiment import OWN_RULE, Conclusion, Context
from tcprobe.references import Claim, claim_of, references

SEEN = 1  # an index that occurs in either half of legal values


class Sparse(NamedTuple):
    """What was measured of a sparse multiply.

    `d`: the D slots that each A slot reaches, ascending. `b`: the B slot met there, by A slot and index; -1 if no legal
    value has the index. `field`: by selector, the field (lane * fields + i) that each A slot obeys. `c`: the D slot of
    each C slot.
    """

    d: Ints
    b: Ints
    field: Ints
    c: Ints


def number_tables(instruction: Instruction, sparse: Sparse, context: Context) -> Conclusion:
    """Tables that predict every measured answer; ProbeError if there are none."""
    tables, numbering = _by_reference(instruction, sparse, context.device) or _by_rule(instruction, sparse)
    return Conclusion(tables, numbering, structure(instruction, sparse))


def structure(instruction: Instruction, sparse: Sparse) -> StructureHash:
    """The structure tensor with all metadata 0x4."""
    rule = sparsity(_metadata(instruction))
    half = sparse.field[0] % rule.fields
    index = np.array([rule.read(NIBBLE, h) for h in range(rule.fields)])[half]
    slots = np.arange(len(half))
    a = np.repeat(slots, sparse.d.shape[1])
    return Triples(a, sparse.b[slots, index].reshape(-1), sparse.d.reshape(-1)).digest()


@dataclass(frozen=True)
class _Measured:
    """What was measured of a sparse multiply; it completes tables that predict it."""

    instruction: Instruction
    sparse: Sparse

    def complete(self, a_table: Table, d_table: Table) -> Tables | None:
        """All tables, given those of A and D; None if no tables with these numbers predict what was measured."""
        (m, stored, _), (row, col, _) = elements(a_table), elements(d_table)
        if (row[self.sparse.d] != m[:, None]).any():
            return None
        b = self._b_table(stored, col[self.sparse.d])
        e = self._metadata_table(m, stored)
        c = {name: tuple(column[t] for t in self.sparse.c.tolist()) for name, column in d_table.values.items()}
        if b is None or e is None:
            return None
        return {"a": a_table, "b": b, "c": d_table.with_values(c), "d": d_table, "e": e}

    def _b_table(self, stored: Ints, slot_columns: Ints) -> Table | None:
        """B's table, by the k that each index picks.

        None if a slot would hold two elements, or an element would have no slot.
        """
        b, rule = self.instruction.fragment("b"), sparsity(_metadata(self.instruction))
        row, col = np.full(b.slots, -1), np.full(b.slots, -1)
        for index in range(rule.positions):
            b_slots, seen = self.sparse.b[:, index], self.sparse.b[:, index, 0] >= 0
            k = np.broadcast_to(columns(rule, stored, index)[:, None], b_slots.shape)
            numbered_before = row[b_slots[seen]] >= 0
            if ((row[b_slots[seen]] != k[seen]) | (col[b_slots[seen]] != slot_columns[seen]))[numbered_before].any():
                return None
            row[b_slots[seen]], col[b_slots[seen]] = k[seen], slot_columns[seen]
            if (row[b_slots[seen]] != k[seen]).any() or (col[b_slots[seen]] != slot_columns[seen]).any():
                return None
        whole = row.min() >= 0 and row.max() < b.rows and len(set((row * b.cols + col).tolist())) == b.rows * b.cols
        return _table(b, row, col) if whole else None

    def _metadata_table(self, slot_rows: Ints, stored: Ints) -> Table | None:
        """By selector, the first element of the unit that each field governs; None if a field governs two."""
        e = _metadata(self.instruction)
        first, tables = stored - stored % e.span, []
        for field in self.sparse.field:
            row, col = np.full(e.slots, -1), np.full(e.slots, -1)
            row[field], col[field] = slot_rows, first
            units = len(set(field.tolist()))
            if (row[field] != slot_rows).any() or (col[field] != first).any() or units * e.span != e.rows * e.cols:
                return None
            tables.append(_table(e, row, col))
        return selected(tables)


def _by_reference(instruction: Instruction, sparse: Sparse, device: Arch) -> tuple[Tables, str] | None:
    """The tables as the first reference numbers them that states fitting tables of A, C and D; None if none does."""
    for reference in references():
        claims = {operand: claim_of(reference, instruction.fragment(operand), device) for operand in "acd"}
        meant = {operand: claim.meant for operand, claim in claims.items() if isinstance(claim, Claim)}
        tables = _Measured(instruction, sparse).complete(meant["a"], meant["d"]) if len(meant) == len(claims) else None
        if tables and tables["c"] == meant["c"]:
            return tables, reference.NAME
    return None


def _by_rule(instruction: Instruction, sparse: Sparse) -> tuple[Tables, str]:
    """Rows, columns and chunks in the order of their lowest slots; inside a chunk by field, then by lowest slot.

    ProbeError if the slots that meet are not those of a sparse product.
    """
    row, stored = _classes(sparse.d.min(axis=1)), _stored_by_rule(sparsity(_metadata(instruction)), sparse)
    b_of_d = np.full(sparse.d.max() + 1, sparse.b.max() + 1)
    np.minimum.at(b_of_d, sparse.d, sparse.b[:, SEEN])
    col = _classes(b_of_d)
    row_of_d = np.zeros(len(b_of_d), np.int64)
    row_of_d[sparse.d] = row[:, None]
    a, d = instruction.fragment("a"), instruction.fragment("d")
    tables = None
    if len(b_of_d) == d.slots and row.max() < a.rows and stored.max() < a.cols and col.max() < d.cols:
        tables = _Measured(instruction, sparse).complete(_table(a, row, stored), _table(d, row_of_d, col))
    if tables is None:
        raise ProbeError(f"{instruction.name}: not a sparse product: no rows, columns and k fit which slots meet.")
    return tables, OWN_RULE


def _stored_by_rule(sparsity: Sparsity, sparse: Sparse) -> Ints:
    """The stored column of each A slot."""
    field, slots = sparse.field[0], np.arange(len(sparse.d))
    line = _classes(
        sparse.b[:, SEEN].min(axis=1)
    )  # A slots that meet the same B slots: a chunk, or one element of its pairs
    lowest = _lowest(line, _lowest(field, line))  # lines that share a field are in one chunk
    chunk, second = _classes(lowest), (line != lowest).astype(np.int64)
    row, unit = _classes(sparse.d.min(axis=1)), field % sparsity.fields * len(slots) + _lowest(field, slots)
    stored: Ints = (chunk * sparsity.fields + _rank((row, chunk, second), unit)) * sparsity.span + second
    return stored


def _metadata(instruction: Instruction) -> Fragment:
    return instruction.fragment("e")


def _table(fragment: Fragment, row: Ints, col: Ints) -> Table:
    """A table from rows and columns by slot, -1 if unused."""
    values = {
        name: tuple(None if v < 0 else v for v in column.tolist()) for name, column in (("row", row), ("col", col))
    }
    return slot_table(fragment.threads, fragment.elements, values)


def _classes(keys: Ints) -> Ints:
    """Equal keys as equal numbers, from 0 in the order of first occurrence."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _lowest(keys: Ints, values: Ints) -> Ints:
    """At each place, the lowest value among places with the same key."""
    lowest = np.full(keys.max() + 1, values.max())
    np.minimum.at(lowest, keys, values)
    of_equal: Ints = lowest[keys]
    return of_equal


def _rank(group_keys: tuple[Ints, ...], order: Ints) -> Ints:
    """The position of each place within its group, by `order`."""
    sort = np.lexsort((order, *group_keys))
    keys = np.stack(group_keys)[:, sort]
    new = np.concatenate([[True], (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
    place = np.arange(len(order)) - np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    rank = np.empty(len(order), np.int64)
    rank[sort] = place
    return rank
