"""Which slots of a warpgroup's multiply meet: every A slot with elements of B in slots of D.

A launch stores a word for every D slot that an A slot reaches: the D slot, and the element of B met there. The words
have no order, and there are millions of them: they are decoded a few A slots at a time.
"""

from __future__ import annotations

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Array, Bytes, Ints, Words
from tcprobe.layout.structure import WholeProduct, chunks
from tcprobe.probes.wgmma_op import BAD, ODD, SLOT_SHIFT


def meetings(instruction: Instruction, raw: Bytes, n: int) -> Words:
    """The `n` words of each A slot; ProbeError if one has more or fewer."""
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, 1 + n)
    counts = words[:, 0]
    if (counts != n).any():
        slot = int(np.argmax(counts != n))
        raise ProbeError(
            f"{instruction.name}: A slot {slot % instruction.fragment('a').slots} reaches {counts[slot]} D slots, "
            f"not {n}."
        )
    return words[:, 1:]


def split(instruction: Instruction, words: Words) -> tuple[Array, Array]:
    """(D slot, element of B) of every word.

    ProbeError if a word is not an answer, or has a slot or element that does not exist.
    """
    if (words & (ODD | BAD)).any():
        raise ProbeError(f"{instruction.name}: D answers where A or B is zero, or where all ones gave nothing.")
    d, b = (words >> SLOT_SHIFT).astype(np.int32), (words & BAD - 1).astype(np.int32)
    if d.max() >= instruction.fragment("d").slots or b.max() >= instruction.shape.k * instruction.shape.n:
        raise ProbeError(f"{instruction.name}: D slot {d.max()} or element {b.max()} of B, which does not exist.")
    return d, b


def product(instruction: Instruction, raw: Bytes, cols_and_ks: tuple[Ints, Ints]) -> WholeProduct:
    """What the words show; ProbeError if it is not a matrix product. `cols_and_ks`: (column, k) of B's elements."""
    words, slots = meetings(instruction, raw, instruction.shape.n), instruction.fragment("d").slots
    reached, k = np.empty(words.shape, np.uint16), np.empty(len(words), np.int64)
    for part in chunks(len(words)):
        reached[part], k[part] = _by_column(instruction, words[part], cols_and_ks)
    _, first_slots, line = np.unique(reached[:, 0], return_index=True, return_inverse=True)
    lines = reached[first_slots].astype(np.int64)
    same = all((reached[part] == lines[line[part]]).all() for part in chunks(len(words)))
    if not same or lines.size != slots or not np.bincount(lines.reshape(-1), minlength=slots).all():
        raise _no_product(instruction)
    col = np.empty(slots, np.int64)
    col[lines] = np.arange(instruction.shape.n)
    return WholeProduct(k, line.reshape(-1), lines, col)


def _by_column(instruction: Instruction, words: Words, cols_and_ks: tuple[Ints, Ints]) -> tuple[Array, Array]:
    """(D slot that each A slot reaches in each column, k of each A slot), for some A slots."""
    (d, b), (cols, ks) = split(instruction, words), cols_and_ks
    reached, k = np.full(words.shape, -1, np.int32), ks[b]
    np.put_along_axis(reached, cols[b], d, axis=1)
    if (k != k[:, :1]).any() or reached.min() < 0:
        raise _no_product(instruction)
    return reached, k[:, 0]


def _no_product(instruction: Instruction) -> ProbeError:
    return ProbeError(f"{instruction.name}: not a matrix product: the slots that meet have no rows, columns and k.")
