"""Whether the tensor-core instructions of a multiply amount to the whole product, by the tables of its operands.

The words that an instruction takes hold a block of A and a block of B, each product of a warp its own; together the
instructions must form every A[m][k] x B[k][n] once, start from C and end in D, all in the right places. So a word that
a changed or misread code takes from elsewhere is found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table
from tcprobe.sass.tensor import Form, Step, Traced, Word, form

Element = tuple[int, int]
Block = tuple[int, int, int]  # first m, n and k
Tables = Mapping[str, Table]


def whole(instruction: Instruction, traced: Traced, tables: Tables) -> bool:
    """Whether every product is formed once, C is added once, and D is where the table has it."""
    formed = np.zeros(instruction.shape, np.int64)
    starts: Counter[tuple[int, int]] = Counter()
    done: list[list[Block]] = []
    for number, step in enumerate(traced.steps):
        found = blocks(instruction, traced, number, tables)
        if found is None:
            return False
        done.append(found)
        before = _continued(traced, number)
        if before is None:
            starts.update((m, n) for m, n, _ in found)
        elif before == number or [b[:2] for b in done[before]] != [b[:2] for b in found]:
            return False
        shape = _turned(form(step.opcode), step)
        for m, n, k in found:
            formed[m : m + shape.m, n : n + shape.n, k : k + shape.k] += 1
    return bool((formed == 1).all()) and set(starts.values()) == {1}


def homes(traced: Traced, number: int) -> list[int] | None:
    """The words of D in which the results of a step end, through the steps that add to them."""
    count = form(traced.steps[number].opcode).d
    words = [Word("d", number * 256 + j) for j in range(count)]
    for later, step in enumerate(traced.steps):
        if later > number and step.c == tuple(words):
            words = [Word("d", later * 256 + j) for j in range(count)]
    places = {word: place for place, word in enumerate(traced.stored or ())}
    return [places[word] for word in words] if all(word in places for word in words) else None


def cells(fragment: Fragment, table: Table, words: Sequence[int]) -> list[list[Element]]:
    """Per lane the elements of some of its 32-bit words, low bits first; a word of f64 is half of one."""
    per_word = 32 / fragment.slot_bits
    parts = range(max(1, int(per_word)))
    slots = list(dict.fromkeys(int(word * per_word) + j for word in words for j in parts))
    lanes = range(0, table.points, table.elements)
    return [[(cell[0], cell[1]) for i in slots if (cell := table.cells[first + i])] for first in lanes]


def taken(traced: Traced, number: int) -> dict[str, list[int]] | None:
    """The words of each operand that a step takes; "d" where they end, "c" where it adds C, if that is known.

    None where A and B are not each of one operand, or the results get lost.
    """
    step = traced.steps[number]
    sides = {frozenset(w.operand for w in words): words for words in (step.a, step.b)}
    if set(sides) != {frozenset("a"), frozenset("b")}:
        return None
    found = {operand: [w.number for w in sides[frozenset(operand)]] for operand in "ab"}
    if traced.stored is not None:
        end = homes(traced, number)
        if end is None:
            return None
        found["d"] = end
    added = [w for w in dict.fromkeys(step.c) if w is not None and w.operand == "c"]
    return found | ({"c": [w.number for w in added]} if added and len(added) == len(set(step.c)) else {})


def blocks(instruction: Instruction, traced: Traced, number: int, tables: Tables) -> list[Block] | None:
    """Which block each product of a step is; None where its words hold no whole blocks that fit each other."""
    held = taken(traced, number)
    if held is None:
        return None
    step = traced.steps[number]
    shape = form(step.opcode)
    sizes = _turned(shape, step)
    found = []
    for product in range(shape.products):
        origins = {o: _origin(instruction, tables, o, (w, sizes, shape, product)) for o, w in held.items()}
        a, b = origins["a"], origins["b"]
        if a is None or b is None or a[1] != b[0] or any(origins[o] != (a[0], b[1]) for o in held if o in "cd"):
            return None
        found.append((a[0], b[1], a[1]))
    return found


def _origin(
    instruction: Instruction, tables: Tables, operand: str, taken: tuple[list[int], Form, Form, int]
) -> Element | None:
    """The first row and column of the block that words of an operand hold in one product's lanes; None if no block."""
    words, sizes, shape, product = taken
    fragment = instruction.fragment(operand)
    lanes = cells(fragment, tables[operand], words)
    found = {cell for lane in range(WARP) if shape.product(lane) == product for cell in lanes[lane]}
    if not found:
        return None
    first = (min(row for row, _ in found), min(col for _, col in found))
    rows, cols = {"a": (sizes.m, sizes.k), "b": (sizes.k, sizes.n)}.get(operand, (sizes.m, sizes.n))
    block = {(first[0] + row, first[1] + col) for row in range(rows) for col in range(cols)}
    return first if found == block else None


def _turned(shape: Form, step: Step) -> Form:
    """The shape in the multiply's own m and n: where A comes from b, the product is the transposed one."""
    if step.a[0].operand != "b":
        return shape
    return Form(shape.n, shape.m, shape.k, shape.a, shape.b, shape.c, shape.d, shape.products)


def _continued(traced: Traced, number: int) -> int | None:
    """The step whose whole result this one adds to, itself if there is none; None where it adds C, also converted."""
    added = traced.steps[number].c
    first = added[0] if added else None
    if first is None or first.operand != "d":
        return None
    before = first.number // 256
    count = form(traced.steps[number].opcode).d
    return before if added == tuple(Word("d", before * 256 + j) for j in range(count)) else number
