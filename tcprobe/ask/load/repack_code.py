"""Repacked weights as a CUDA header: the loads of a block, the conversion of a word, scales.

What repacks weights before a kernel runs, and back: a module of Python with NumPy or PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tcprobe import __version__
from tcprobe.ask.load.repack import Repacking, lane_formula, sums_code, sums_lines
from tcprobe.code.cuda import holder, of_holder, once, origin
from tcprobe.code.dequantize import FUNCTIONS, scaling
from tcprobe.code.names import identifier
from tcprobe.code.templates import fill
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Ints
from tcprobe.store.cell import Cell
from tcprobe.text import comment

HEAD = "__device__ __forceinline__ static"
BYTES = 16  # of a load


def source(weights: Repacking) -> str:
    """The header; UsageError where places in memory have no closed form."""
    way, cell = weights.conversion, weights.cell
    order = f"[k / {weights.k}][{_axis(weights)} / {weights.lines}][{weights.places} places][{weights.words} words]"
    lines = [
        f"// made by tcprobe {__version__}: {cell.fragment.id} of {way.source}, repacked as {order}",
        f"// {comment(origin(cell))}; the order is proven to be one to one",
        f"// {way.instructions} instructions for {way.codes} elements: {comment(way.words)}",
        *([f"// -arch={' or '.join(weights.compiled_for)}"] if way.needs else []),
        "",
        *once(["struct " + name(weights) + " {", *(f"  {line}".rstrip() for line in _members(weights)), "};"]),
        "",
    ]
    return "\n".join(lines)


def name(weights: Repacking) -> str:
    """The struct's."""
    group = f"_group{weights.group}" + "_zeros" * weights.zeros if weights.group else ""
    return identifier(f"repacked_{weights.conversion.source}_{weights.cell.fragment.id}{group}")


def _axis(weights: Repacking) -> str:
    return "m" if weights.cell.fragment.operand == "a" else "n"


def _members(weights: Repacking) -> Iterator[str]:
    sizes = {
        "STEPS": (weights.steps, "of k in a block"),
        "K": (weights.k, "of a block"),
        "LINES": (weights.lines, f"{_axis(weights)} of a block"),
        "BYTES": (weights.block_bytes, "of a block"),
        "WORDS": (weights.words, f"of a {holder(weights.cell.fragment.threads)}, of a block"),
        "REGISTERS": (weights.cell.fragment.registers, "of the fragment, a step"),
        "MADE": (weights.conversion.registers, "registers from a word"),
    }
    yield from (f"static constexpr int {key} = {value};  // {what}" for key, (value, what) in sizes.items())
    for called in dict.fromkeys([*weights.conversion.functions, *_scaling(weights), *_zeroing(weights)]):
        yield from _function(called)
    yield from _load(weights)
    if weights.group:
        yield f"static constexpr int GROUP = {weights.group}, GROUPS = {weights.groups};  // k of one; of a block"
        yield from _sums(weights, weights.sums) if weights.sums else _scales(weights)
    if weights.zeros:
        yield from _zeros(weights)
        yield from _convert_less_zeros(weights)
    else:
        yield from _convert(weights)


def _scaling(weights: Repacking) -> list[str]:
    return weights.conversion.calls(scaling(weights.conversion.target)) if weights.scale_instructions else []


def _zeroing(weights: Repacking) -> list[str]:
    return weights.conversion.calls("".join(weights.conversion.zeros)) if weights.zeros else []


def _function(called: str) -> Iterator[str]:
    parameters, text, what = FUNCTIONS[called]
    words = [parameter.rpartition(" ") for parameter in parameters.split(", ")]
    inputs = ", ".join(f'"{"h" if "short" in kind else "r"}"({variable})' for kind, _, variable in words)
    yield from [f"/// {what}"] if what else []
    yield f"{HEAD} unsigned {called}({parameters}) {{"
    yield "  unsigned d;"
    yield f'  asm("{text}" : "=r"(d) : {inputs});'
    yield "  return d;"
    yield "}"


def _load(weights: Repacking) -> Iterator[str]:
    fragment = weights.cell.fragment
    own = of_holder(lane_formula(weights.owner[None], f"the order of {fragment.id}"), fragment.threads)
    axis, thread = _axis(weights), holder(fragment.threads)
    yield f"/// `weights`: as repacked, aligned to {BYTES} bytes; `block`: its number, (k / K) * (all {axis} / LINES)"
    yield f"/// + {axis} / LINES"
    yield f"{HEAD} void load("
    yield f"    const void* weights, long long block, unsigned {thread}, unsigned (&words)[WORDS]) {{"
    yield f"  const char* at = static_cast<const char*>(weights) + block * BYTES + ({own}) * {weights.words * 4}u;"
    yield from _wide(weights, "ld.global.nc", "l", "at")
    yield "}"
    yield "/// the same of a block in shared memory, whose address there is a multiple of 16"
    yield f"{HEAD} void load_shared(unsigned shared, unsigned {thread}, unsigned (&words)[WORDS]) {{"
    yield f"  const unsigned at = shared + ({own}) * {weights.words * 4}u;"
    yield from _wide(weights, "ld.shared", "r", "at")
    yield "}"


def _wide(weights: Repacking, instruction: str, constraint: str, address: str) -> Iterator[str]:
    """The 16-byte loads of a block."""
    for number in range(weights.loads):
        words = ", ".join(f'"=r"(words[{4 * number + j}])' for j in range(4))
        yield f'  asm volatile("{instruction}.v4.b32 {{%0, %1, %2, %3}}, [%4];"'
        yield f'               : {words} : "{constraint}"({address} + {BYTES * number}));'


def _convert(weights: Repacking) -> Iterator[str]:
    way, each = weights.conversion, len(set(weights.filled))
    yield f"/// the registers of a word: those stored, {each} a step, from number MADE * word on"
    yield f"{HEAD} void convert(unsigned word, unsigned (&to)[MADE]) {{"
    yield from (f"  {line}" for line in way.lines)
    yield "}"
    yield f"{HEAD} void convert("
    yield "    const unsigned (&words)[WORDS], unsigned (&registers)[STEPS][REGISTERS]) {"
    yield from _all_words(weights, "convert(words[w], to)")


def _all_words(weights: Repacking, call: str) -> Iterator[str]:
    """The rest of a function that converts all words of a block."""
    each = len(set(weights.filled))
    yield "#pragma unroll"
    yield "  for (int w = 0; w < WORDS; ++w) {"
    yield "    unsigned to[MADE];"
    yield f"    {call};"
    yield "#pragma unroll"
    yield "    for (int j = 0; j < MADE; ++j) {"
    for register, stored_register in enumerate(weights.filled):
        condition = f"(MADE * w + j) % {each} == {stored_register}"
        yield f"      if ({condition}) registers[(MADE * w + j) / {each}][{register}] = to[j];"
    yield "    }"
    yield "  }"
    yield "}"


def _scales(weights: Repacking) -> Iterator[str]:
    axis = _axis(weights)
    what = f"{weights.conversion.target}, [k / GROUP][{axis}]"
    yield f"static constexpr int SCALES = {len(weights.distinct)};  // registers per group"
    yield f"/// `scales`: {what}, `all` a row; `k_block`, `line_block`: k / K, {axis} / LINES"
    yield from _rows(weights, "load_scales", "scales", "short", "unsigned (&held)[GROUPS][SCALES]")
    for number, (low, high) in enumerate(weights.distinct):
        yield f"    held[g][{number}] = {_halves(number, low == high)};"
    yield from ("  }", "}")
    yield "/// a register times one of scales, rounded to nearest even"
    yield f"{HEAD} unsigned scaled(unsigned x, unsigned y) {{ return {scaling(weights.conversion.target)}; }}"
    yield "/// all registers that were converted, step after step"
    yield f"{HEAD} void scale("
    yield "    const unsigned (&held)[GROUPS][SCALES], unsigned (&registers)[STEPS][REGISTERS]) {"
    yield "#pragma unroll"
    yield "  for (int s = 0; s < STEPS; ++s) {"
    for register, stored_register in enumerate(weights.filled):
        which = weights.distinct.index(weights.pairs[stored_register])
        yield f"    registers[s][{register}] = scaled(registers[s][{register}], held[s * GROUPS / STEPS][{which}]);"
    yield from ("  }", "}")


def _zeros(weights: Repacking) -> Iterator[str]:
    axis, constants = _axis(weights), weights.conversion.zeros
    added = f", {weights.conversion.flip} added" if weights.conversion.flip else ""
    yield f"static constexpr int ZEROS = {len(constants)};  // registers a register of scales"
    yield f"/// `zeros`: zero points as bytes{added} (`pack_zeros`), [k / GROUP][{axis}]; the others as of load_scales"
    yield from _rows(weights, "load_zeros", "zeros", "char", "unsigned (&zeros_of)[GROUPS][SCALES][ZEROS]")
    for number, (low, high) in enumerate(weights.distinct):
        yield f"    {{ const unsigned zero = {_halves(number, low == high)};"
        for constant, text in enumerate(constants):
            yield f"      zeros_of[g][{number}][{constant}] = {text};"
        yield "    }"
    yield from ("  }", "}")


def _rows(weights: Repacking, called: str, source_: str, width: str, to: str) -> Iterator[str]:
    """The head of a function that loads what groups have for lines, of an unsigned `width`: `at(j)` is of slot j."""
    fragment = weights.cell.fragment
    lines = np.array([weights.line[:, slot] for pair in weights.distinct for slot in pair])[:, weights.owner]
    index_formula = of_holder(lane_formula(lines, f"the lines of {fragment.id}"), fragment.threads)
    yield f"{HEAD} void {called}("
    yield f"    const void* {source_}, long long all, long long k_block, long long line_block,"
    yield f"    unsigned {holder(fragment.threads)}, {to}) {{"
    yield "#pragma unroll"
    yield "  for (int g = 0; g < GROUPS; ++g) {"
    yield f"    const unsigned {width}* row ="
    yield f"        static_cast<const unsigned {width}*>({source_}) + ({_row(weights)}) * all + line_block * LINES;"
    yield f"    const auto at = [=](unsigned issue) {{ return static_cast<unsigned>(row[{index_formula}]); }};"


def _halves(number: int, alike: bool) -> str:
    """What belongs to the low and the high half of a register, in its halves."""
    return f"at({2 * number}) * 0x10001u" if alike else f"at({2 * number}) | at({2 * number + 1}) << 16"


def _convert_less_zeros(weights: Repacking) -> Iterator[str]:
    way, each = weights.conversion, len(set(weights.filled))
    which = [weights.distinct.index(pair) for pair in weights.pairs]
    selection = (
        "0"
        if len(set(which)) == 1
        else "".join(f"r == {r} ? {j} : " for r, j in enumerate(which[:-1])) + str(which[-1])
    )
    yield "/// which register of scales a stored register of a step has"
    yield f"{HEAD} constexpr int scale_of(int r) {{ return {selection}; }}"
    yield f"/// the registers of word `number` of a block: those stored, {each} a step, less their zero points"
    yield f"{HEAD} void convert("
    yield "    unsigned word, int number, const unsigned (&zeros_of)[GROUPS][SCALES][ZEROS], unsigned (&to)[MADE]) {"
    yield "  const int first = MADE * number;"
    for line in way.zeroed:
        yield "  " + re.sub(
            r"\{([0-9]):([0-9])\}",
            rf"zeros_of[(first + \1) / {each} * GROUPS / STEPS][scale_of((first + \1) % {each})][\2]",
            line,
        )
    yield "}"
    yield f"{HEAD} void convert("
    yield "    const unsigned (&words)[WORDS], const unsigned (&zeros_of)[GROUPS][SCALES][ZEROS],"
    yield "    unsigned (&registers)[STEPS][REGISTERS]) {"
    yield from _all_words(weights, "convert(words[w], w, zeros_of, to)")


def _sums(weights: Repacking, d: Cell) -> Iterator[str]:
    line_numbers, which = sums_lines(weights.cell.fragment, d)
    where = lane_formula(line_numbers, f"the lines of {d.fragment.id}")
    slot = re.sub(r"\blane\b", "slot", lane_formula(which[None], f"the lines of {d.fragment.id}"))
    yield from sums_code(d, _row(weights), _axis(weights), (where, slot), len(line_numbers))


def _row(weights: Repacking) -> str:
    """Which row of scales group g of a block has."""
    blocks = (weights.group or 0) // weights.k
    return f"k_block / {blocks}" if blocks > 1 else f"k_block * {weights.groups} + g"


FOLDER = Path(__file__).parent
NUMPY = {
    "imported": "import numpy as np",
    "module": "np",
    "array": "array",
    "word": "uint32",
    "given": "np.asarray(weights)",
    "fraction": 'given.dtype.kind not in "iu"',
    "wide": ".astype(np.int64)",
    "returned": "words.astype(np.uint32)",
    "bytes": "(given + {flip}).astype(np.uint8)",
    "from_bytes": "np.asarray(packed).astype(np.int64) - {flip}",
    "taken": "np.asarray(words).astype(np.int64) & 0xFFFFFFFF",
}
TORCH = {
    "imported": "import torch",
    "module": "torch",
    "array": "tensor",
    "word": "int32, on the CPU",
    "given": "torch.as_tensor(weights).cpu()",
    "fraction": "given.is_floating_point()",
    "wide": ".to(torch.int64)",
    "returned": "((words ^ 1 << 31) - (1 << 31)).to(torch.int32)",
    "bytes": "(given + {flip}).to(torch.uint8)",
    "from_bytes": "torch.as_tensor(packed).cpu().to(torch.int64) - {flip}",
    "taken": "torch.as_tensor(words).cpu().to(torch.int64) & 0xFFFFFFFF",
}
NAN = """    if bool(((codes & 0x7F) == 0x7F).any()):
        raise ValueError("there is a NaN among the weights: codes 0x7f and 0xff")
"""


def packer_source(weights: Repacking, packer: str) -> str:
    """The module for "numpy" or "torch"; UsageError where places in memory have no closed form."""
    way, fragment = weights.conversion, weights.cell.fragment
    kind, axis = dtype(way.source), "m" if fragment.operand == "a" else "n"
    counted = not kind.is_float
    least = -(1 << kind.bits - 1) if counted and kind.is_signed and way.source[0] == "s" else 0
    turned = ".T" if fragment.operand == "a" else ""
    sign, viewed = 1 << kind.bits - 1, "" if counted else ": view them as uint8"
    spelled = NUMPY if packer == "numpy" else TORCH
    return fill(
        FOLDER / "packer.txt",
        **spelled,
        zeros=_zero_arrays(weights, spelled, axis),
        version=__version__,
        type=way.source,
        fragment=fragment.id,
        origin=comment(origin(weights.cell)),
        places=weights.places,
        steps=weights.steps,
        slots=weights.slots,
        words=weights.words,
        depth=_array(weights.depth.T, weights),
        line=_array(weights.line.T, weights),
        k=weights.k,
        lines=weights.lines,
        codes=way.codes,
        bits=kind.bits,
        flip=way.flip,
        at=str([list(bits) for bits in way.places]),
        axis=axis,
        shape="m, k" if turned else "k, n",
        turned=turned,
        turned_back=turned,
        mask=(1 << kind.bits) - 1,
        viewed=viewed,
        holds="numbers" if counted else f"the bits of {way.source}",
        least=least,
        most=least + (1 << kind.bits) - 1,
        refused=NAN if kind.has_nan and way.source != way.target else "",
        signed=f"((codes ^ {sign}) - {sign})" if least else "codes",
    )


def _zero_arrays(weights: Repacking, spelled: dict[str, str], axis: str) -> str:
    """What packs zero points, "" where there are none."""
    if not weights.zeros:
        return ""
    (least, most), flip = weights.zero_range, weights.conversion.flip
    return fill(
        FOLDER / "packer_zeros.txt",
        **{key: spelled[key] for key in ("fraction", "wide")},
        **{key: spelled[key].format(flip=flip) for key in ("bytes", "from_bytes")},
        given=spelled["given"].replace("weights", "zeros"),
        least=least,
        most=most,
        type=weights.conversion.source,
        axis=axis,
        added=f", {flip} added" if flip else "",
    )


def _array(values: Ints, weights: Repacking) -> str:
    """A formula of (slots, places) in the module's names."""
    text = lane_formula(values, f"the order of {weights.cell.fragment.id}").replace(" / ", " // ")
    text = re.sub(r"\blane\b", "_lane", re.sub(r"\bissue\b", "_slot", text))
    return f"({text})"
