"""What the tables of a multiply's operands predict of its structure tensor; the measured one must be equal.

A `StructureHash` says which slots of A meet which of B in which of D. Its `anchor` covers what that leaves open: which
slots of C are added, what each field of metadata and each scale governs, elements of B that metadata does not pick, and
the numbers of rows and columns if addresses give them (wgmma).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import OF_WARPGROUP
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.layout.structure import Triples, elements, predict
from tcprobe.layout.structure_hash import StructureHash
from tcprobe.layout.table import Table, Tables

NIBBLE = 0x4  # four bits of metadata; a sparse structure tensor is taken with all metadata like this
CHUNK = 512  # A slots that are hashed at a time


def predict_hash(instruction: Instruction, tables: Tables) -> StructureHash:
    """The structure tensor that the tables of the slots that are read predict, with its anchor."""
    return _hash(instruction, tables)._replace(anchor=anchor(tables))


def _hash(instruction: Instruction, tables: Tables) -> StructureHash:
    if instruction.described:
        return behind_descriptors(instruction, tables)
    return (sparse(instruction, tables) if instruction.metadata else predict(instruction, tables)).digest()


def anchor(tables: Tables) -> str:
    """SHA-256 of the elements of every slot, operand by operand, sorted by name."""
    sha256 = hashlib.sha256()
    for operand, table in sorted(tables.items()):
        sha256.update(f"{operand} {table.id}\n".encode())
    return sha256.hexdigest()


def sparse(instruction: Instruction, tables: Tables) -> Triples:
    """The structure tensor of the tables when every four bits of metadata are NIBBLE."""
    e, n = instruction.fragment("e"), instruction.shape.n
    rule = sparsity(e)
    m, stored, _ = elements(tables["a"])
    fields = {cell: slot for slot, cell in enumerate(tables["e"].selection(0).cells) if cell}
    half = [fields[row, s - s % e.span] % rule.fields for row, s in zip(m.tolist(), stored.tolist(), strict=True)]
    k = columns(rule, stored, np.array([rule.read(NIBBLE, h) for h in half]))
    b, d = (
        np.array([tables[operand].inverse[row, col][0] for row in rows.tolist() for col in range(n)])
        for operand, rows in (("b", k), ("d", m))
    )
    a = np.repeat(np.arange(len(m)), n)
    order = np.lexsort((d, a))
    return Triples(a[order], b[order], d[order])


def columns(sparsity: Sparsity, stored: Ints, picked_field: int | Ints) -> Ints:
    """`Sparsity.k` for many stored columns."""
    k: Ints = (
        stored // (sparsity.fields * sparsity.span) * sparsity.positions + picked_field
    ) * sparsity.span + stored % sparsity.span
    return k


def picked_k(instruction: Instruction, value: int = NIBBLE) -> Ints:
    """The k of A's stored columns if every four bits of metadata are `value`; all k without metadata."""
    if instruction.metadata is None:
        return np.arange(instruction.shape.k)
    rule = sparsity(instruction.metadata)
    return np.array([rule.k(s, rule.read(value, s % rule.fields)) for s in range(instruction.stored)])


def behind_descriptors(instruction: Instruction, tables: Tables) -> StructureHash:
    """The triples that tables of registers predict, with A behind `picked` metadata."""
    values = tuple(tables[operand].values[name] for operand in OF_WARPGROUP for name in ("row", "col"))
    return StructureHash(
        instruction.triples, _of_registers(values, instruction.shape.n, tuple(picked_k(instruction).tolist()))
    )


@lru_cache(maxsize=16)  # forms that differ in types alone have the same tables
def _of_registers(register_columns: tuple[Any, ...], n: int, stored_k: tuple[int, ...]) -> str:
    line, stored, m, col = map(np.array, register_columns)
    reached = np.empty((len(m) // n, n), np.int64)
    reached[m, col] = np.arange(len(m))
    return WholeProduct(np.array(stored_k)[stored], line, reached, col).digest().tobytes().hex()


@dataclass(frozen=True)
class WholeProduct:
    """A matrix product, in slots.

    By A slot: its `k`, and the row of D that it reaches (`line`). `reached`: the D slots of every row of D, by column.
    By D slot: its column `col`.
    """

    k: Ints
    line: Ints
    reached: Ints
    col: Ints

    @cached_property
    def least(self) -> Ints:
        """By A slot, the lowest D slot that it reaches."""
        lowest: Ints = self.reached.min(axis=1)[self.line]
        return lowest

    @cached_property
    def first(self) -> Ints:
        """By D slot, the lowest D slot of its row."""
        lowest = np.empty(self.reached.size, np.int64)
        lowest[self.reached] = self.reached.min(axis=1)[:, None]
        return lowest

    def digest(self) -> Bytes:
        """Hash of the sorted triples: A slot, element of B (row by row), D slot."""
        sha256, n = hashlib.sha256(), self.reached.shape[1]
        d = np.sort(self.reached, axis=1)
        of_row = np.stack([np.zeros_like(d), self.col[d], d], axis=2).astype("<u4")
        for part in chunks(len(self.k)):
            triples = of_row[self.line[part]]
            triples[:, :, 0] = np.arange(part.start, part.start + len(triples))[:, None]
            triples[:, :, 1] += (self.k[part] * n).astype("<u4")[:, None]
            sha256.update(triples.data)
        return np.frombuffer(sha256.digest(), np.uint8)


def chunks(count: int) -> Iterator[slice]:
    """Slices of CHUNK A slots."""
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def read_slots(table: Table, unread: tuple[tuple[int, ...], ...] | None) -> Table:
    """The table restricted to the slots that a multiply reads."""
    if not unread:
        return table
    skipped = {lane * table.elements + i for lane, numbers in enumerate(unread) for i in numbers}
    return table.with_values(
        {name: tuple(None if s in skipped else v for s, v in enumerate(c)) for name, c in table.values.items()}
    )
