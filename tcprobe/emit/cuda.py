"""A C++17 header without dependencies: row, col and their inverse as constexpr functions, for host and device.

A struct a fragment, under its name, for the archs whose tables were given: TCPROBE_ARCH chooses (__CUDA_ARCH__ in
device code), and for an arch without a table the struct does not exist. A static_assert goes over all slots: the hash
of all elements, and that the inverse leads back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe import __version__
from tcprobe.emit.common import formulas, identifier
from tcprobe.errors import UsageError
from tcprobe.fit.inverse import inverse
from tcprobe.isa import arch
from tcprobe.layout.table import Table
from tcprobe.store.cell import Known
from tcprobe.text import comment

WHAT = "C++17 header: constexpr row, col and their inverse for host and device, self-checking"
ARCHS = "all"
OFFSET, PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1  # FNV-1a, 64 bits

COMMON = """
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TCPROBE_HD __host__ __device__
#else
#define TCPROBE_HD
#endif

// which GPU the layouts are for, as __CUDA_ARCH__ counts; host code has to say it where it is not {newest}
#if !defined(TCPROBE_ARCH)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1010
#define TCPROBE_ARCH 1100  // sm_101 is called sm_110 since CUDA 13
#elif defined(__CUDA_ARCH__)
#define TCPROBE_ARCH __CUDA_ARCH__
#else
#define TCPROBE_ARCH {newest}
#endif
#endif
#ifndef TCPROBE_NEWEST
#define TCPROBE_NEWEST {newest}
#endif
#if TCPROBE_ARCH > TCPROBE_NEWEST && !defined(TCPROBE_ANY_ARCH)
#error "this tcprobe header knows no GPU as new: make it anew, or define TCPROBE_ANY_ARCH to use its newest layouts"
#endif

#ifndef TCPROBE_CHECK
#define TCPROBE_CHECK
namespace tcprobe {{
/// Whether a layout is the measured one: FNV-1a over the element of every slot of one lane after the other, and the
/// inverse leads back to each slot.
template <class L>
TCPROBE_HD constexpr bool proven(unsigned long long hash) {{
  unsigned long long h = {offset}ull;
  for (int lane = 0; lane < L::lanes; ++lane) {{
    for (int i = 0; i < L::elements; ++i) {{
      const int row = L::row(lane, i), col = L::col(lane, i), product = L::product(lane, i);
      h = (h ^ static_cast<unsigned long long>((row * 65536ll + col) * 8 + product)) * {prime}ull;
      bool back = false;
      for (int copy = 0; copy < L::copies; ++copy) {{
        back = back || (L::lane_of(row, col, copy, product) == lane && L::i_of(row, col, copy, product) == i);
      }}
      if (!back) return false;
    }}
  }}
  return h == hash;
}}
}}  // namespace tcprobe
#endif
"""


def emit(tables: Sequence[Known]) -> str:
    """All fragments of `tables`; several archs of one fragment are told apart by TCPROBE_ARCH."""
    by_fragment: dict[str, list[Known]] = {}
    for known in tables:
        by_fragment.setdefault(known.fragment.id, []).append(known)
    layouts = {known.table.id: known for known in tables}
    newest = max(arch.arch(known.arch).number for known in tables) * 10
    lines = [f"// made by tcprobe {__version__}; i counts a lane's elements from the low bits of its first register"]
    lines += ["#pragma once", *COMMON.format(newest=newest, offset=OFFSET, prime=PRIME).splitlines(), ""]
    for known in layouts.values():
        lines += _layout(known)
    lines += ["namespace tcprobe {", ""]
    for variants in by_fragment.values():
        lines += _fragment(variants)
    return "\n".join([*lines, "}  // namespace tcprobe"])


def _layout(known: Known) -> Iterator[str]:
    """The struct of a layout, once even if several headers are included."""
    table = known.table
    if None in table.cells:
        raise UsageError(f"{known.fragment.id} on {known.arch} has unused slots, which the header has no words for.")
    found = inverse(table)
    if found is None:
        raise UsageError(f"{known.fragment.id} on {known.arch}: the inverse has no closed form.")
    copies = max(map(len, table.inverse.values()))
    sizes = {"lane": table.threads, "i": table.elements, "copy": copies, **table.extent}
    bits = {name: (size - 1).bit_length() for name, size in sizes.items()}
    forward = {"product": "0"} | {name: formula.text(bits) for name, formula in formulas(known).items()}
    yield from (f"#ifndef TCPROBE_LAYOUT_{table.id}", f"#define TCPROBE_LAYOUT_{table.id}", "namespace tcprobe {")
    yield f"struct layout_{table.id} {{"
    for name, value in (("lanes", table.threads), ("elements", table.elements), ("copies", copies)):
        yield f"  static constexpr int {name} = {value};"
    for name in ("row", "col", "product"):
        yield f"  /// {name} of the element that slot (lane, i) holds; lane < {table.threads}, i < {table.elements}"
        yield from _function(name, ("lane", "i"), forward[name])
    for name in ("lane", "i"):
        yield f"  /// {name} of the holder of an element; of its copy-th, 0 <= copy < copies"
        arguments = ("row", "col", "copy", "product")
        yield from _function(f"{name}_of", arguments, found[name].text(bits), optional=("copy", "product"))
    yield "};"
    yield f'static_assert(proven<layout_{table.id}>({digest(table):#x}ull), "not the layout that was measured");'
    yield from ("}  // namespace tcprobe", "#endif", "")


def _function(name: str, arguments: Sequence[str], body: str, optional: Sequence[str] = ()) -> Iterator[str]:
    declared = ", ".join(f"int {a} = 0" if a in optional else f"int {a}" for a in arguments)
    yield f"  TCPROBE_HD static constexpr int {name}({declared}) {{"
    yield f"    {' '.join(f'(void){a};' for a in arguments)}"
    yield from (f"    return {body};", "  }")


def _fragment(variants: Sequence[Known]) -> Iterator[str]:
    """The struct of a fragment: its layout on the arch, and how its elements lie in registers."""
    fragment = variants[0].fragment
    yield f"/// {fragment.id}: {fragment.rows} x {fragment.cols} of {fragment.type}"
    by_evidence: dict[str, list[str]] = {}
    for known in variants:
        words = f"layout {known.table.id}, {known.evidence.replace(f'; not measured on {known.arch}', '')}"
        by_evidence.setdefault(words, []).append(known.arch)
    yield from (f"/// {', '.join(archs)}: {comment(words)}" for words, archs in by_evidence.items())
    name = identifier(fragment.id)
    groups: dict[str, list[int]] = {}
    for known in variants:
        groups.setdefault(known.table.id, []).append(arch.arch(known.arch).number * 10)
    newest = max(variants, key=lambda known: arch.arch(known.arch).number).table.id
    for number, (layout, archs) in enumerate(groups.items()):
        conditions = [f"TCPROBE_ARCH == {a}" for a in archs]
        conditions += ["TCPROBE_ARCH > TCPROBE_NEWEST"] if layout == newest else []
        yield f"#{'elif' if number else 'if'} {' || '.join(conditions)}"
        yield f"struct {name} : layout_{layout} {{"
        sizes = {"rows": fragment.rows, "cols": fragment.cols, "registers": fragment.registers,
                 "register_bits": fragment.register_bits, "slot_bits": fragment.slot_bits,
                 "products": fragment.products}  # fmt: skip
        yield from (f"  static constexpr int {key} = {value};" for key, value in sizes.items())
        yield "};"
    yield from ("#endif", "")


def digest(table: Table) -> int:
    """What `proven` computes of the measured table."""
    found = OFFSET
    for cell in table.cells:
        assert cell is not None
        row, col, product = (*cell, 0)[:3]
        found = (found ^ ((row * 65536 + col) * 8 + product)) * PRIME & MASK
    return found
