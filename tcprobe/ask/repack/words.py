"""Repacked weights in words: the order, what it costs, and what it shares with Marlin's."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.ask.banks.patterns import range_text
from tcprobe.ask.confidence import line
from tcprobe.ask.repack import Repacking
from tcprobe.ask.table_confidence import least
from tcprobe.code.cuda import holder
from tcprobe.code.dequantize import WORD
from tcprobe.text import columns, escaped


def in_words(weights: Repacking) -> Iterator[str]:
    """Lines: as `described`, with the order of the codes after the block."""
    head, *others = summary_lines(weights)
    yield head
    yield from columns([("word", "registers, step.register", "bits, of the lowest code first"), *words_of(weights)], 3)
    yield from map(escaped, others)


def summary_lines(weights: Repacking) -> list[str]:
    """Lines: the block, then what is done with it, counts, and evidence."""
    return [_head(weights), *_costs(weights), *_scales(weights), *_like(weights), *_proof(weights)]


def words_of(weights: Repacking) -> list[tuple[str, str, str]]:
    """Of each word the registers that it fills, as step.register, and the bits of their codes, lowest code first."""
    way, each = weights.conversion, len(set(weights.filled))
    places = " ".join(range_text(bits) for bits in way.places)
    rows = []
    for word in range(weights.words):
        numbers = range(word * way.registers, (word + 1) * way.registers)
        names = [
            f"{number // each}.{register}"
            for number in numbers
            for register, stored_register in enumerate(weights.filled)
            if stored_register == number % each
        ]
        rows.append((str(word), " ".join(names), places if not word else "likewise"))
    return rows


def _head(weights: Repacking) -> str:
    way, fragment = weights.conversion, weights.cell.fragment
    axis = "m" if fragment.operand == "a" else "n"
    loads = "one 16-byte load" if weights.loads == 1 else f"{weights.loads} 16-byte loads"
    steps = "k step" if weights.steps == 1 else "k steps"
    thread, order = holder(fragment.threads), f"[k / {weights.k}][{axis} / {weights.lines}]"
    return (
        f"{fragment.id}: weights of {way.source}, {weights.steps} {steps} in {loads} of a {thread}; "
        f"stored as {order}[{weights.places}][{weights.words}] words"
    )


def _costs(weights: Repacking) -> Iterator[str]:
    way = weights.conversion
    count, size = weights.k * weights.lines, weights.block_bytes
    yield f"loads: {weights.loads} for {count} weights, {size} bytes in a row, {weights.sectors} sectors, all full"
    each = way.instructions / way.codes
    if way.source == way.target:
        yield f"convert: nothing, {way.words}"
    else:
        yield f"convert: {way.instructions} instructions for {way.codes} elements, {each:g} per element; {way.words}"
    if way.flip:
        yield f"stored codes are {way.source}'s with bits {way.flip:#x} inverted, which adds {way.flip}"
    if way.needs:
        yield f"needs -arch={' or '.join(weights.compiled_for)}"
    if weights.conversion.source == "e4m3" and weights.conversion.source != way.target:
        yield "a NaN is refused when weights are repacked"


def _scales(weights: Repacking) -> Iterator[str]:
    if not weights.group:
        return
    target, axis = weights.conversion.target, "m" if weights.cell.fragment.operand == "a" else "n"
    if weights.sums:
        yield (
            f"scales: f32, [k / {weights.group}][{axis}] as they are, of the sums: after a group D times its scales "
            "is added up in f32, a conversion and an fma for each element of D"
        )
        return
    if weights.zeros:
        yield from _zeros(weights, axis)
    needed = weights.groups * len({slot for pair in weights.pairs for slot in pair})
    yield (
        f"scales: {target}, [k / {weights.group}][{axis}] as they are, {needed} per lane for a block; "
        f"{weights.scale_instructions:g} instructions per element, each product rounded to nearest even"
    )


def _zeros(weights: Repacking, axis: str) -> Iterator[str]:
    (least, most), way = weights.zero_range, weights.conversion
    added = f", {way.flip} added" if way.flip else ""
    yield (
        f"zero points: {least} to {most}, as bytes{added}, [k / {weights.group}][{axis}]; they take the offset's "
        f"place, so that (code - zero point) is exact and costs no instruction per element; {len(way.zeros)} "
        f"register{'s' * (len(way.zeros) > 1)} for each of scales"
    )


def _like(weights: Repacking) -> Iterator[str]:
    registers = f"a lane's registers of {weights.steps} multiplies" if weights.steps > 1 else "a lane's registers"
    shared = [f"a 16-byte load has {registers}{', along k' * (weights.steps > 1)}"]
    if "interleaved" in weights.conversion.words:
        shared.append("nibbles are interleaved for the exponent trick")
    if weights.group:
        shared.append("each group of k has its scale")
    if weights.zeros:
        shared.append("each has its zero point")
    yield (
        f"as in Marlin's layout, {'; '.join(shared)}. Unlike there, a load goes along k and not n, and scales "
        f"{'and zero points ' * weights.zeros}keep their order"
    )
    if weights.ldmatrix:
        yield (
            f"from shared memory {weights.ldmatrix.removesuffix('.d')} (PTX 9.4) gives the same without any "
            f"conversion: `tcprobe convert {weights.ldmatrix} {weights.cell.fragment.id}`"
        )


def _proof(weights: Repacking) -> Iterator[str]:
    fragment = weights.cell.fragment
    size = f"{weights.places} x {weights.words * WORD}"
    yield f"proven: the {weights.k} x {weights.lines} weights of a block go to its {size} bits one to one"
    yield f"{fragment.id} on {weights.cell.arch}: {weights.cell.evidence}"
    yield line(least([weights.cell]))
