"""What is said of repacked weights: the order, what it costs, and what it shares with Marlin's."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.ask.repack import WORD, Repacking
from tcprobe.code.cuda import holder


def described(plan: Repacking) -> list[str]:
    """Lines: the block, then what is done with it, counts, and evidence."""
    return [_head(plan), *_costs(plan), *_scales(plan), *_like(plan), *_proof(plan)]


def words_of(plan: Repacking) -> list[tuple[int, str, str]]:
    """Of each word the registers that it fills, as step.register, and the bits of their codes, lowest code first."""
    way, each = plan.conversion, len(set(plan.filled))
    places = " ".join(_span(bits) for bits in way.places)
    found = []
    for word in range(plan.words):
        numbers = range(word * way.registers, (word + 1) * way.registers)
        names = [f"{number // each}.{register}" for number in numbers
                 for register, held in enumerate(plan.filled) if held == number % each]  # fmt: skip
        found.append((word, " ".join(names), places if not word else "likewise"))
    return found


def _span(bits: tuple[int, ...]) -> str:
    """Bits of a code: 0-3, or 7-13,15 where the highest is apart."""
    runs: list[list[int]] = []
    for bit in bits:
        if runs and bit == runs[-1][-1] + 1:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _head(plan: Repacking) -> str:
    way, fragment = plan.conversion, plan.cell.fragment
    axis = "m" if fragment.operand == "a" else "n"
    loads = "one 16-byte load" if plan.loads == 1 else f"{plan.loads} 16-byte loads"
    steps = "k step" if plan.steps == 1 else "k steps"
    return (f"{fragment.id}: weights of {way.source}, {plan.steps} {steps} in {loads} of a {holder(fragment.threads)}; "
            f"stored as [k / {plan.k}][{axis} / {plan.lines}][{plan.places}][{plan.words}] words")  # fmt: skip


def _costs(plan: Repacking) -> Iterator[str]:
    way = plan.conversion
    count = plan.k * plan.lines
    yield f"loads: {plan.loads} for {count} weights, {plan.block_bytes} bytes in a row: {plan.sectors} sectors, all full"
    each = way.instructions / way.codes
    if way.source == way.target:
        yield f"convert: nothing, {way.words}"
    else:
        yield f"convert: {way.instructions} instructions for {way.codes} elements, {each:g} an element; {way.words}"
    if way.flip:
        yield f"stored codes are {way.source}'s with bits {way.flip:#x} turned over, that is, {way.flip} more"
    if way.needs:
        yield f"needs -arch={' or '.join(plan.compiled_for)}"
    if plan.conversion.source == "e4m3" and plan.conversion.source != way.target:
        yield "a NaN is refused when weights are repacked"


def _scales(plan: Repacking) -> Iterator[str]:
    if not plan.group:
        return
    target, axis = plan.conversion.target, "m" if plan.cell.fragment.operand == "a" else "n"
    lines = len({slot for pair in plan.pairs for slot in pair})
    yield (f"scales: {target}, [k / {plan.group}][{axis}] as they are; a block needs {plan.groups * lines} of a lane; "
           f"{plan.scale_instructions:g} instructions an element, each product rounded to nearest even")  # fmt: skip


def _like(plan: Repacking) -> Iterator[str]:
    held = f"a lane's registers of {plan.steps} multiplies" if plan.steps > 1 else "a lane's registers"
    shared = [f"a 16-byte load has {held}{', along k' * (plan.steps > 1)}"]
    if "interleaved" in plan.conversion.words:
        shared.append("nibbles lie interleaved for the exponent trick")
    if plan.group:
        shared.append("each group of k has its scale")
    yield (f"as in Marlin's layout, {'; '.join(shared)}. Otherwise than there, a load goes along k and not n, scales keep "
           "their order, and there are no zero points")  # fmt: skip
    if plan.ldmatrix:
        yield (f"from shared memory {plan.ldmatrix.removesuffix('.d')} (PTX 9.4) gives the same by no instruction of "
               f"conversion: `tcprobe convert {plan.ldmatrix} {plan.cell.fragment.id}`")  # fmt: skip


def _proof(plan: Repacking) -> Iterator[str]:
    fragment = plan.cell.fragment
    yield (f"proven: the {plan.k} x {plan.lines} weights of a block go to its {plan.places} x {plan.words * WORD} bits one "
           "to one")  # fmt: skip
    yield f"{fragment.id} on {plan.cell.arch}: {plan.cell.evidence}"
