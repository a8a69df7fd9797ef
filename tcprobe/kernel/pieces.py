"""Pieces of CUDA that kernels share: where from D's registers go, and which tile a block makes."""

from __future__ import annotations

from string import Template

from tcprobe.ask.convert.code import CASTS, OLDER, Cast
from tcprobe.code.cuda import holder, of_holder
from tcprobe.code.multiply import word
from tcprobe.code.origin import origin
from tcprobe.emit.common import formulas
from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch
from tcprobe.isa.dtypes import dtype
from tcprobe.store.cell import Cell
from tcprobe.text import comment

RASTER = Template("""\
// Which tile a block makes: blocks that run side by side share rows of A and columns of B in the L2 cache, so tiles are
// taken in bands of 8 rows of tiles, a band column by column; blocks of a cluster lie below each other.
__device__ inline void place(unsigned& row, unsigned& col) {
  constexpr unsigned CLUSTER = $cluster, BAND = 8 / CLUSTER;
  const unsigned block = blockIdx.y / CLUSTER * gridDim.x + blockIdx.x, first = block / (BAND * gridDim.x) * BAND;
  const unsigned below = gridDim.y / CLUSTER - first, rows = below < BAND ? below : BAND;
  row = (first + block % (BAND * gridDim.x) % rows) * CLUSTER + blockIdx.y % CLUSTER;
  col = block % (BAND * gridDim.x) / rows;
}
""")


def conversion(source: str, target: str, device: Arch) -> Cast:
    """How two elements become a word."""
    pair = (source, target)
    return CASTS[pair] if device.number >= CASTS[pair].target else OLDER[pair]


def pairs(cell: Cell) -> None:
    """UsageError unless elements 2 i and 2 i + 1 of every lane are neighbours in a row."""
    cells = cell.table.cells
    for first, second in zip(cells[::2], cells[1::2], strict=True):
        if first is None or second is None or tuple(second[:2]) != (first[0], first[1] + 1):
            raise UsageError(f"{cell.fragment.id} on {cell.arch}: its elements are not pairs in a row.")


def store(cell: Cell, out: str, device: Arch) -> str:
    """`store`(d, ld, rows, cols, from): registers of one fragment of D straight to global memory, inside bounds."""
    pairs(cell)
    fragment, kind = cell.fragment, word(cell.fragment)[0]
    bits = {"lane": (cell.table.threads - 1).bit_length(), "i": (cell.table.elements - 1).bit_length()}
    coordinates = {name: of_holder(formula.text(bits), fragment.threads) for name, formula in formulas(cell).items()}
    size, who = dtype(out).bits // 8, holder(fragment.threads)
    return "\n".join(
        (
            f"// D's registers -> global memory, {comment(origin(cell))} (tcprobe show {fragment.id})",
            "// ld: bytes from row to row; rows, cols: what there is of the matrix from here on",
            "__device__ inline void store(char* d, long long ld, int rows, int cols, "
            f"const {kind} (&from)[{fragment.elements}], unsigned {who}) {{",
            "#pragma unroll",
            f"  for (unsigned i = 0; i < {fragment.elements}; i += 2) {{",
            f"    const int row = {coordinates['row']}, col = {coordinates['col']};",
            "    if (row >= rows || col >= cols) continue;",
            f"    char* to = d + row * ld + col * {size};",
            *(f"    {line}" for line in _pair(fragment.type, out, device)),
            "  }",
            "}",
            "",
        )
    )


def _pair(source: str, out: str, device: Arch) -> tuple[str, ...]:
    """Both elements where both are inside, else the first."""
    if source == out:
        kind = {"f32": "float", "s32": "int"}[out]
        return (
            f"struct alignas(8) Pair {{ {kind} low, high; }};",
            "if (col + 1 < cols) *reinterpret_cast<Pair*>(to) = {from[i], from[i + 1]};",
            f"else *reinterpret_cast<{kind}*>(to) = from[i];",
        )
    return (
        "unsigned d;",
        "const float low = from[i], high = from[i + 1];",
        conversion(source, out, device).pair,
        "if (col + 1 < cols) *reinterpret_cast<unsigned*>(to) = d;",
        "else *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(d);",
    )
