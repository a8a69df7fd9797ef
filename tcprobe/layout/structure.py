"""From slots that meet to rows, columns and k: checks a structure tensor against tables; numbers it if there are none.

The hardware has no numbers of rows, columns and k; any simultaneous renumbering fits equally. So tables are *confirmed*
by predicting the structure tensor, triple by triple (`agreement`). Only if no known tables predict it does `number`
choose numbers by a stated rule.

>>> from tcprobe import api
>>> multiply, cells = api.multiply("mma.m8n8k4.row.col.f64.f64.f64.f64")
>>> found = predict(multiply, {name: cells[name].table for name in MULTIPLIED})
>>> len(found.a), [int(slots[9]) for slots in (found.a, found.b, found.d)]
(256, [1, 5, 1])

What the tables of a multiply's operands predict of its structure tensor; the measured one must be equal.

A `StructureHash` says which slots of A meet which of B in which of D. Its `anchor` covers what that leaves open: which
slots of C are added, what each field of metadata and each scale governs, elements of B that metadata does not pick, and
the numbers of rows and columns if addresses give them (wgmma).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.instruction import Instruction, Sparsity, sparsity
from tcprobe.isa.operand import MULTIPLIED, OF_WARPGROUP
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.layout.table import StructureHash, Table, Tables, slot_table

_ELEMENTS: dict[str, Ints] = {}  # by layout id: many fragments share few layouts


@dataclass(frozen=True)
class Triples:
    """The structure tensor: D slot d[j] gains A slot a[j] times B slot b[j]; sorted by a, then d."""

    a: Ints
    b: Ints
    d: Ints

    def digest(self) -> StructureHash:
        """The count and the hash of the triples."""
        raw = np.stack([self.a, self.b, self.d], axis=1).astype("<u4").tobytes()
        return StructureHash(len(self.a), hashlib.sha256(raw).hexdigest())


@dataclass(frozen=True)
class Agreement:
    """Tables predict `needed` triples; `matched` of them were measured; `first`: measured triples that disagree, in
    words.
    """

    matched: int
    needed: int
    first: tuple[str, ...]

    @property
    def total(self) -> bool:
        """Whether the structure tensor is exactly the predicted one."""
        return self.matched == self.needed and not self.first


def agreement(instruction: Instruction, triples: Triples, tables: Tables) -> Agreement:
    """Compare a structure tensor with the one that `tables` (a, b, d) predict, where every (product, m, n, k) occurs
    once.
    """
    shape, products = instruction.shape, instruction.products
    needed = shape.m * shape.n * shape.k * products
    a, b, d = (elements(tables[operand]) for operand in MULTIPLIED)
    m, k, pa = a[:, triples.a]
    kb, n, pb = b[:, triples.b]
    md, nd, pd = d[:, triples.d]
    inside = (m >= 0) & (m < shape.m) & (n >= 0) & (n < shape.n) & (k >= 0) & (k < shape.k) & (pa < products)
    fits = inside & (m == md) & (k == kb) & (n == nd) & (pa == pb) & (pa == pd)
    cells = ((pa * shape.m + m) * shape.n + n) * shape.k + k
    matched = int(np.count_nonzero(np.bincount(cells[fits], minlength=1)))
    first = [_misfit(triples, tables, int(j)) for j in np.flatnonzero(~fits)[:3]]
    if not first and matched != len(triples.a):
        first = ["some product of elements is formed more than once"]
    return Agreement(matched, needed, tuple(first))


def predict(instruction: Instruction, tables: Tables) -> Triples:
    """The structure tensor of tables in which every element has one holder."""
    holders = {operand: holder(tables[operand], _size(instruction, operand)) for operand in MULTIPLIED}
    p, m, n, k = np.indices((instruction.products, *instruction.shape)).reshape(4, -1)
    a, b, d = holders["a"][p, m, k], holders["b"][p, k, n], holders["d"][p, m, n]
    order = np.lexsort((d, a))
    return Triples(a[order], b[order], d[order])


def number(instruction: Instruction, triples: Triples) -> dict[str, Table]:
    """Tables of a, b and d by rule: products, rows, columns and k in the order of their lowest D or A slot.

    ProbeError if the classes of slots are not those of a matrix product.
    """
    of_d = _group(triples.d, triples.a), _group(triples.d, triples.b)
    of_a = _group(triples.a, triples.b)
    row_of_a = _number_classes(instruction, "row", of_d[0])
    col_of_b = _number_classes(instruction, "column", of_d[1])
    k_of_b = _number_classes(instruction, "k", of_a)
    row_of_d = {d: row_of_a[next(iter(a))] for d, a in of_d[0].items()}
    col_of_d = {d: col_of_b[next(iter(b))] for d, b in of_d[1].items()}
    k_of_a = {a: k_of_b[next(iter(b))] for a, b in of_a.items()}
    product_of_row, product_of_col = _products(row_of_d, col_of_d)
    row, col = _numbers_within(product_of_row), _numbers_within(product_of_col)
    k = _numbers_within({k_of_a[a]: product_of_row[row_of_a[a]] for a in sorted(k_of_a)})
    cells = {
        "a": {s: (row[r], k[k_of_a[s]], product_of_row[r]) for s, r in row_of_a.items()},
        "b": {s: (k[k_of_b[s]], col[c], product_of_col[c]) for s, c in col_of_b.items()},
        "d": {s: (row[r], col[col_of_d[s]], product_of_row[r]) for s, r in row_of_d.items()},
    }
    tables = {operand: _tabulate(instruction, operand, cells[operand]) for operand in MULTIPLIED}
    agreed = agreement(instruction, triples, tables)
    if not agreed.total:
        raise ProbeError(
            f"{instruction.name}: not a matrix product: {agreed.matched} of {agreed.needed} triples; {agreed.first[0]}."
        )
    return tables


def elements(table: Table) -> Ints:
    """(row, col, product) of every slot, (3, slots); -1 if unused."""
    if table.id not in _ELEMENTS:
        zero = (0,) * table.points
        columns = [table.values["row"], table.values["col"], table.values.get("product", zero)]
        _ELEMENTS[table.id] = np.array([[-1 if v is None else v for v in c] for c in columns], np.int64)
    return _ELEMENTS[table.id]


def holder(table: Table, shape: Sequence[int]) -> Ints:
    """The slot that holds each element of (products, rows, cols); -1 if there is none."""
    row, col, product = elements(table)
    slots = np.full(shape, -1, np.int64)
    used = np.flatnonzero(row >= 0)
    slots[product[used], row[used], col[used]] = used
    return slots


def _size(instruction: Instruction, operand: str) -> tuple[int, int, int]:
    fragment = instruction.fragment(operand)
    return instruction.products, fragment.rows, fragment.cols


def _misfit(triples: Triples, tables: Tables, j: int) -> str:
    """One measured triple, and the elements of its slots according to the tables."""
    parts = []
    for operand, slots in (("a", triples.a), ("b", triples.b), ("d", triples.d)):
        table, slot = tables[operand], int(slots[j])
        lane, i = divmod(slot, table.elements)
        parts.append(f"{operand.upper()} lane {lane} i {i} = {operand.upper()}{list(table.cells[slot] or ())}")
    return f"measured {parts[2]} accumulates {parts[0]} x {parts[1]}"


def _group(keys: Ints, members: Ints) -> dict[int, frozenset[int]]:
    by_key: dict[int, set[int]] = {}
    for key, member in zip(keys.tolist(), members.tolist(), strict=True):
        by_key.setdefault(key, set()).add(member)
    return {key: frozenset(by_key[key]) for key in sorted(by_key)}


def _number_classes(instruction: Instruction, what: str, members_of: dict[int, frozenset[int]]) -> dict[int, int]:
    """Numbers for the distinct groups, in order; ProbeError if a member belongs to several groups."""
    classes = {group: number for number, group in enumerate(dict.fromkeys(members_of.values()))}
    class_of: dict[int, int] = {}
    for group, number_ in classes.items():
        for member in group:
            if class_of.setdefault(member, number_) != number_:
                raise ProbeError(
                    f"{instruction.name}: not a matrix product: slot {member} belongs to two {what} classes."
                )
    return class_of


def _products(row_of_d: dict[int, int], col_of_d: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Rows that meet the same columns are in one product; products are in the order of their lowest D slot."""
    columns_of: dict[int, set[int]] = {}
    for d in sorted(row_of_d):
        columns_of.setdefault(row_of_d[d], set()).add(col_of_d[d])
    parts = {cols: number for number, cols in enumerate(dict.fromkeys(frozenset(cols) for cols in columns_of.values()))}
    product_of_row = {row: parts[frozenset(cols)] for row, cols in sorted(columns_of.items())}
    product_of_col = {col: part for cols, part in parts.items() for col in cols}
    return product_of_row, dict(sorted(product_of_col.items()))


def _numbers_within(product_of: dict[int, int]) -> dict[int, int]:
    """Classes renumbered from 0 inside each product, in the same order."""
    counts: dict[int, int] = {}
    numbers: dict[int, int] = {}
    for class_, product in product_of.items():
        numbers[class_] = counts.get(product, 0)
        counts[product] = numbers[class_] + 1
    return numbers


def _tabulate(instruction: Instruction, operand: str, by_slot: dict[int, tuple[int, int, int]]) -> Table:
    fragment = instruction.fragment(operand)
    slots = range(fragment.threads * fragment.elements)
    names = ("row", "col") + (("product",) if instruction.products > 1 else ())
    values = {name: tuple(by_slot[s][j] if s in by_slot else None for s in slots) for j, name in enumerate(names)}
    return slot_table(fragment.threads, fragment.elements, values)


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
