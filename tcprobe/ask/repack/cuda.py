"""Repacked weights as a CUDA header: the loads of a block, the conversion of a word, scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tcprobe import __version__
from tcprobe.ask.repack import Repacking, numbered
from tcprobe.code.cuda import holder, of_holder, once
from tcprobe.code.dequantize import FUNCTIONS, scaling
from tcprobe.code.names import made
from tcprobe.code.origin import origin
from tcprobe.text import comment

HEAD = "__device__ __forceinline__ static"
BYTES = 16  # of a load


def source(plan: Repacking) -> str:
    """The header; UsageError where places in memory have no closed form."""
    way, cell = plan.conversion, plan.cell
    order = f"[k / {plan.k}][{_axis(plan)} / {plan.lines}][{plan.places} places][{plan.words} words]"
    lines = [
        f"// made by tcprobe {__version__}: {cell.fragment.id} of {way.source}, repacked as {order}",
        f"// {comment(origin(cell))}; the order is proven to be one to one",
        f"// {way.instructions} instructions for {way.codes} elements: {comment(way.words)}",
        *([f"// -arch={' or '.join(plan.compiled_for)}"] if way.needs else []),
        "",
        *once(["struct " + name(plan) + " {", *(f"  {line}".rstrip() for line in _members(plan)), "};"]),
        "",
    ]
    return "\n".join(lines)


def name(plan: Repacking) -> str:
    """The struct's."""
    group = f"_group{plan.group}" if plan.group else ""
    return made(f"repacked_{plan.conversion.source}_{plan.cell.fragment.id}{group}")


def _axis(plan: Repacking) -> str:
    return "m" if plan.cell.fragment.operand == "a" else "n"


def _members(plan: Repacking) -> Iterator[str]:
    yield from _sizes(plan)
    for called in dict.fromkeys([*plan.conversion.functions, *_scaling(plan)]):
        yield from _function(called)
    yield from _load(plan)
    yield from _convert(plan)
    if plan.group:
        yield from _scales(plan)


def _sizes(plan: Repacking) -> Iterator[str]:
    sizes = {
        "STEPS": (plan.steps, "of k in a block"), "K": (plan.k, "of a block"),
        "LINES": (plan.lines, f"{_axis(plan)} of a block"), "BYTES": (plan.block_bytes, "of a block"),
        "WORDS": (plan.words, f"of a {holder(plan.cell.fragment.threads)}, of a block"),
        "REGISTERS": (plan.cell.fragment.registers, "of the fragment, a step"),
        "MADE": (plan.conversion.registers, "registers from a word"),
    }  # fmt: skip
    yield from (f"static constexpr int {key} = {value};  // {what}" for key, (value, what) in sizes.items())


def _scaling(plan: Repacking) -> list[str]:
    return plan.conversion.calls(scaling(plan.conversion.target)) if plan.group else []


def _function(called: str) -> Iterator[str]:
    parameters, text, what = FUNCTIONS[called]
    words = [parameter.rpartition(" ") for parameter in parameters.split(", ")]
    given = ", ".join(f'"{"h" if "short" in kind else "r"}"({variable})' for kind, _, variable in words)
    yield from [f"/// {what}"] if what else []
    yield f"{HEAD} unsigned {called}({parameters}) {{"
    yield "  unsigned d;"
    yield f'  asm("{text}" : "=r"(d) : {given});'
    yield "  return d;"
    yield "}"


def _load(plan: Repacking) -> Iterator[str]:
    fragment = plan.cell.fragment
    own = of_holder(numbered(plan.owner[None], f"the order of {fragment.id}"), fragment.threads)
    axis, thread = _axis(plan), holder(fragment.threads)
    yield f"/// `weights`: as repacked, aligned to {BYTES} bytes; `block`: (k / K) * (all {axis} / LINES) + {axis} / LINES"
    yield f"{HEAD} void load("
    yield f"    const void* weights, long long block, unsigned {thread}, unsigned (&words)[WORDS]) {{"
    yield f"  const char* at = static_cast<const char*>(weights) + block * BYTES + ({own}) * {plan.words * 4}u;"
    for number in range(plan.loads):
        words = ", ".join(f'"=r"(words[{4 * number + j}])' for j in range(4))
        yield '  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"'
        yield f'               : {words} : "l"(at + {BYTES * number}));'
    yield "}"


def _convert(plan: Repacking) -> Iterator[str]:
    way, each = plan.conversion, len(set(plan.filled))
    yield f"/// the registers of a word: those stored, {each} a step, from number MADE * word on"
    yield f"{HEAD} void convert(unsigned word, unsigned (&to)[MADE]) {{"
    yield from (f"  {line}" for line in way.lines)
    yield "}"
    yield f"{HEAD} void convert("
    yield "    const unsigned (&words)[WORDS], unsigned (&registers)[STEPS][REGISTERS]) {"
    yield "#pragma unroll"
    yield "  for (int w = 0; w < WORDS; ++w) {"
    yield "    unsigned to[MADE];"
    yield "    convert(words[w], to);"
    yield "#pragma unroll"
    yield "    for (int j = 0; j < MADE; ++j) {"
    for register, held in enumerate(plan.filled):
        yield f"      if ((MADE * w + j) % {each} == {held}) registers[(MADE * w + j) / {each}][{register}] = to[j];"
    yield "    }"
    yield "  }"
    yield "}"


def _scales(plan: Repacking) -> Iterator[str]:
    fragment, target, axis = plan.cell.fragment, plan.conversion.target, _axis(plan)
    distinct = list(dict.fromkeys(plan.pairs))
    lines = np.array([plan.line[:, slot] for pair in distinct for slot in pair])[:, plan.owner]
    at = of_holder(numbered(lines, f"the lines of {fragment.id}"), fragment.threads)
    yield f"static constexpr int GROUP = {plan.group}, GROUPS = {plan.groups};  // k of a group, groups of a block"
    yield f"static constexpr int SCALES = {len(distinct)};  // registers a group"
    yield f"/// `scales`: {target}, [k / GROUP][{axis}], `all` a row; `k_block`, `line_block`: k / K, {axis} / LINES"
    yield f"{HEAD} void load_scales("
    yield "    const void* scales, long long all, long long k_block, long long line_block,"
    yield f"    unsigned {holder(fragment.threads)}, unsigned (&held)[GROUPS][SCALES]) {{"
    yield "#pragma unroll"
    yield "  for (int g = 0; g < GROUPS; ++g) {"
    yield "    const unsigned short* row ="
    yield f"        static_cast<const unsigned short*>(scales) + ({_row(plan)}) * all + line_block * LINES;"
    yield f"    const auto at = [=](unsigned issue) {{ return static_cast<unsigned>(row[{at}]); }};"
    for number, (low, high) in enumerate(distinct):
        text = f"at({2 * number}) | at({2 * number + 1}) << 16" if low != high else f"at({2 * number}) * 0x10001u"
        yield f"    held[g][{number}] = {text};"
    yield from ("  }", "}")
    yield from _scaled(plan, distinct)


def _row(plan: Repacking) -> str:
    """Which row of scales group g of a block has."""
    blocks = (plan.group or 0) // plan.k
    return f"k_block / {blocks}" if blocks > 1 else f"k_block * {plan.groups} + g"


def _scaled(plan: Repacking, distinct: list[tuple[int, int]]) -> Iterator[str]:
    yield "/// a register times one of scales, rounded to nearest even"
    yield f"{HEAD} unsigned scaled(unsigned x, unsigned y) {{ return {scaling(plan.conversion.target)}; }}"
    yield "/// all registers that were converted, step after step"
    yield f"{HEAD} void scale("
    yield "    const unsigned (&held)[GROUPS][SCALES], unsigned (&registers)[STEPS][REGISTERS]) {"
    yield "#pragma unroll"
    yield "  for (int s = 0; s < STEPS; ++s) {"
    for register, held in enumerate(plan.filled):
        which = distinct.index(plan.pairs[held])
        yield f"    registers[s][{register}] = scaled(registers[s][{register}], held[s * GROUPS / STEPS][{which}]);"
    yield from ("  }", "}")
