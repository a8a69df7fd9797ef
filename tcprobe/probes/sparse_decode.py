"""Decodes the probe of a sparse multiply: which slots meet under which index, and which field each A slot obeys.

Two words a lane have the answers of four D slots; they are unpacked a few images at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.layout.arrays import Bools, Bytes, Ints, Words
from tcprobe.probes.slots import bit_length
from tcprobe.probes.sparse_images import PAIRS, b_images, index_table, metadata_images
from tcprobe.probes.sparse_numbering import Sparse

Small = NDArray[np.int16]  # slots of B, at most 1024
CACHED = 1 << 18  # bytes of images that are decoded at a time


def decode(instruction: Instruction, outputs: Sequence[Bytes]) -> Sparse:
    """What the outputs of the `launches` show.

    ProbeError if an answer is not one that a product of zeros and ones can give, if an A slot does not obey exactly one
    field of the metadata, or if selectors differ in anything but the lanes that are read.
    """
    by_selector = [decode_selector(instruction, raw, selector) for selector, raw in enumerate(outputs[:-1])]
    d, b, _ = by_selector[0]
    for selector, (other_d, other_b, _) in enumerate(by_selector):
        if not np.array_equal(d, other_d) or (b != other_b)[(b >= 0) & (other_b >= 0)].any():
            raise ProbeError(f"{instruction.name}: selector {selector} changes which slots of A, B and D meet.")
        b = np.maximum(b, other_b)
    return Sparse(d, b, np.stack([field for _, _, field in by_selector]), _decode_c(instruction, outputs[-1]))


def decode_selector(instruction: Instruction, raw: Bytes, selector: int) -> tuple[Ints, Ints, Ints]:
    """(D slots by A slot, B slots by A slot and index, field by A slot) under one selector; ProbeError as `decode`."""
    rule, name = sparsity(instruction.fragment("e")), f"{instruction.name}, selector {selector}"
    d, b_slots = _meetings(instruction, _words(raw), name)
    by_index, field = indices_and_fields(rule, b_slots, instruction.threads, name)
    return d, by_index.astype(np.int64), field


def indices_and_fields(sparsity: Sparsity, b_slots: Small | Ints, threads: int, name: str) -> tuple[Small | Ints, Ints]:
    """(B slots by A slot and index, field by A slot); `b_slots` are the B slots met, by image of metadata and A slot.

    ProbeError if an A slot does not obey exactly one field.
    """
    half = _half_obeyed(sparsity, b_slots, name)
    by_index = _by_index(sparsity, b_slots, half)
    images = metadata_images(sparsity, threads)
    place = _place(
        sparsity, b_slots, by_index[np.arange(len(half)), _second(sparsity)[half]], bit_length(images.shape[1])
    )
    _check(index_table(sparsity)[images[:, place], half[None]], b_slots, by_index, name)
    return by_index, place * sparsity.fields + half


def _words(raw: Bytes) -> Words:
    """The answers, two words a lane: (blocks, words)."""
    return np.ascontiguousarray(raw).view(np.uint32).reshape(-1, 2 * WARP)


def _check_sign(instruction: Instruction, words: Words) -> None:
    if np.bitwise_or.reduce(words, axis=None) >> 31:
        raise ProbeError(f"{instruction.name}: D is neither zero nor one where a single product can be.")


def _meetings(instruction: Instruction, words: Words, name: str) -> tuple[Ints, Small]:
    """(D slots that each A slot reaches, (slots, n); B slots met there, (images, slots, n)).

    Few images are decoded at a time, to stay in the cache. A word has the answers of two D slots. D slots that an A
    slot does not reach must be zero throughout, and all must be zero where B is.
    """
    a, n, images = instruction.fragment("a"), instruction.shape.n, b_images(instruction)
    words = words.reshape(-1, 1 + a.slots, 2 * WARP)
    answer = (1 << images - 1) - 1  # all codes but the last, where B is zero
    ones = np.uint32(1 | 1 << images)
    hit = words[0] & ones
    answer_bits, reached = ~(hit * np.uint32(answer)) | ones, _reached_slots(hit, images)
    if hit[0].any() or (reached.sum(axis=1)[1:] != n).any():
        raise ProbeError(f"{name}: not a sparse product: an A slot does not reach {n} D slots.")
    d = np.nonzero(reached[1:])[1].reshape(a.slots, n)
    word, shift = d // 4 * 2 + d % 2, (images * (d % 4 // 2) + 1).astype(np.uint32)
    b_slots = np.empty((len(words), *d.shape), np.int16)
    place = (1 + np.arange(a.slots)[:, None]) * words.shape[2] + word
    for part in _parts(words):
        answers = words[part]
        other = answers ^ hit
        other &= answer_bits
        if other.max():
            raise _wrong_answers(instruction, answers, hit, name)
        b_slots[part] = answers.reshape(len(answers), -1)[:, place] >> shift & np.uint32(answer >> 1)
    if b_slots.max() >= instruction.fragment("b").slots:
        raise ProbeError(f"{name}: the answers encode B slot {b_slots.max()}, which does not exist.")
    return d, b_slots


def _parts(answer_images: NDArray[np.generic]) -> Iterator[slice]:
    """Slices of consecutive images, of up to CACHED bytes each."""
    count = max(1, CACHED // answer_images[0].nbytes)
    yield from (slice(start, start + count) for start in range(0, len(answer_images), count))


def _reached_slots(hit: Words, image_count: int) -> Bools:
    """By A image, which D slots answer to a B of ones. Element i of a lane is in word i % 2, from 2 on higher up."""
    by_lane = hit.reshape(len(hit), WARP, 1, 2) >> np.array([0, image_count], np.uint32)[:, None] & np.uint32(1)
    return by_lane.reshape(len(hit), -1).astype(bool)


def _wrong_answers(instruction: Instruction, answer_words: Words, hit: Words, name: str) -> ProbeError:
    """The error in the answers to some metadata images."""
    _check_sign(instruction, answer_words)
    if ((answer_words & np.uint32(1 | 1 << b_images(instruction))) != hit).any():
        return ProbeError(f"{name}: not a sparse product: an A slot does not reach the same D slots throughout.")
    return ProbeError(f"{name}: D answers where A or B is zero, or where all ones gave nothing.")


def _half_obeyed(sparsity: Sparsity, b_slots: Small | Ints, name: str) -> Ints:
    """The half of four bits that each A slot obeys: of legal values, those with equal indices give equal answers.

    ProbeError unless there is exactly one.
    """
    fits = np.stack([_follows(sparsity, b_slots, half) for half in range(sparsity.fields)])
    if (fits.sum(axis=0) != 1).any():
        slot = int(np.flatnonzero(fits.sum(axis=0) != 1)[0])
        raise ProbeError(f"{name}: A slot {slot} obeys {int(fits[:, slot].sum())} halves of four bits of metadata.")
    half_of_slot: Ints = fits.argmax(axis=0)
    return half_of_slot


def _follows(sparsity: Sparsity, b_slots: Small | Ints, half: int) -> Bools:
    """By A slot: whether equal indices in `half` meet the same B slots, and different ones no common one."""
    indices = [sparsity.read(value, half) for value in sparsity.legal]
    fits = np.ones(b_slots.shape[1], bool)
    for i, index in enumerate(indices):
        for j, other_index in enumerate(indices[:i]):
            equal = b_slots[i] == b_slots[j]
            fits &= equal.all(axis=1) if index == other_index else ~equal.any(axis=1)
    return fits


def _by_index(sparsity: Sparsity, b_slots: Small | Ints, half: Ints) -> Small | Ints:
    """The B slots that each A slot meets by index, (slots, positions, n); -1 if no legal value has the index."""
    by_index = np.full((b_slots.shape[1], sparsity.positions, b_slots.shape[2]), -1, b_slots.dtype)
    for image, value in enumerate(sparsity.legal):
        for h in range(sparsity.fields):
            by_index[half == h, sparsity.read(value, h)] = b_slots[image, half == h]
    return by_index


def _second(sparsity: Sparsity) -> Ints:
    """By half, the index in the second value of the first of PAIRS; it marks the ones of a place's number."""
    _, other = PAIRS[sparsity.fields][0]
    return np.array([sparsity.read(other, h) for h in range(sparsity.fields)])


def _place(sparsity: Sparsity, b_slots: Small | Ints, expected_slots: Small | Ints, count: int) -> Ints:
    """The place of the four bits that each A slot obeys; bit i is set if it meets `expected_slots` in image pair i."""
    first = len(sparsity.legal)
    bits = [(b_slots[first + 2 * bit] == expected_slots).all(axis=1) for bit in range(count)]
    return sum((b.astype(np.int64) << i for i, b in enumerate(bits)), np.zeros(len(expected_slots), np.int64))


def _check(indices: Ints, b_slots: Small | Ints, by_index: Small | Ints, name: str) -> None:
    """ProbeError unless every A slot met, in every image, what its index there says."""
    slots = np.arange(len(by_index))
    wrong = np.concatenate([(by_index[slots, indices[p]] != b_slots[p]).any(axis=2) for p in _parts(b_slots)])
    if wrong.any():
        image, slot = (int(n) for n in np.argwhere(wrong)[0])
        raise ProbeError(
            f"{name}: A slot {slot} does not obey one field of the metadata alone: first in "
            f"image {image}; {np.count_nonzero(wrong)} of {len(b_slots) * len(slots)} answers."
        )


def _decode_c(instruction: Instruction, raw: Bytes) -> Ints:
    """The D slot that each C slot reaches, for any B; ProbeError unless every D slot is reached once."""
    words, images = _words(raw), b_images(instruction)
    _check_sign(instruction, words)
    hit = words & np.uint32(1 | 1 << images)
    reached = _reached_slots(hit, images)[1:]
    lone = (reached.sum(axis=0) == 1).all() and (reached.sum(axis=1) == 1).all()
    if not lone or hit[0].any() or (words != hit * np.uint32((1 << images) - 1)).any():
        raise ProbeError(f"{instruction.name}: C does not reach D slot by slot.")
    of_c: Ints = reached.argmax(axis=1).astype(np.int64)
    return of_c
