"""Whole products by paths: A and B in by their headers, multiplied fragment by fragment, D out by its header.

And fragments straight from global memory, by `tcprobe load`.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import path_cases
from path_cases import BF16, E4M3, F16, F64, HALF, S8, TF32, Case

from tcprobe.ask.load import straight_load as straight
from tcprobe.ask.load_code import source as straight_source
from tcprobe.ask.path import PathOptions, path, request
from tcprobe.ask.path.cuda import name as struct
from tcprobe.ask.path.cuda import source
from tcprobe.isa.names import resolve
from tcprobe.run import multiplicands
from tcprobe.store.cell import load


class Product(NamedTuple):
    """D (m x n) = A (m x k) B (k x n), and the paths of the three."""

    instruction: str
    size: tuple[int, int, int]
    a: tuple
    b: tuple
    d: tuple

    def case(self, operand):
        m, n, k = self.size
        extent = {"a": (m, k), "b": (k, n), "d": (m, n)}[operand]
        return Case(f"{self.instruction}.{operand}", "{}x{}".format(*extent), *getattr(self, operand))

    def __str__(self):
        return f"{self.instruction}-{'x'.join(map(str, self.size))}"


PRODUCTS = (
    Product(
        F16,
        (32, 32, 64),
        ("row", "sw:3,4,3", "ldmatrix.x4"),
        ("col", "sw:3,4,3", "ldmatrix.x4"),
        ("row", "sw:2,5,2", "st.shared.b64"),
    ),
    Product(
        F16,
        (32, 32, 32),
        ("col", "pad:16", "ldmatrix.x4.trans"),
        ("row", "pad:16", "ldmatrix.x4.trans"),
        ("col", "pad:16", "st.shared.b32"),
    ),
    Product(
        BF16,
        (48, 24, 32),
        ("row", "SWIZZLE_64B", "ldmatrix.x4"),
        ("row", "pad:16", "ldmatrix.x2.trans"),
        ("row", "pad:32", "st.shared.b64"),
    ),
    Product(
        HALF,
        (32, 64, 32),
        ("row", "sw:2,4,3", "ldmatrix.x4"),
        ("col", "sw:2,4,3", "ldmatrix.x2"),
        ("row", "sw:3,4,3", "stmatrix.x4"),
    ),
    Product(
        TF32,
        (32, 32, 32),
        ("row", "sw:3,4,3", "ldmatrix.x4"),
        ("row", "pad:32", "ld.shared.b32"),
        ("row", "sw:2,5,2", "st.shared.b64"),
    ),
    Product(
        S8,
        (32, 32, 64),
        ("row", "sw:2,4,3", "ldmatrix.x4"),
        ("col", "sw:2,4,3", "ldmatrix.x4"),
        ("row", "sw:2,5,2", "st.shared.b64"),
    ),
    Product(
        S8,
        (16, 32, 64),
        ("col", "pad:4", "ld.shared.b8"),
        ("row", "pad:4", "ld.shared.b8"),
        ("col", "plain", "st.shared.b32"),
    ),
    Product(
        E4M3,
        (32, 32, 64),
        ("row", "sw:2,4,3", "ldmatrix.x4"),
        ("col", "sw:2,4,3", "ldmatrix.x4"),
        ("row", "sw:2,5,2", "st.shared.b64"),
    ),
    Product(
        F64,
        (32, 16, 16),
        ("row", "sw:2,4,3", "ld.shared.b64"),
        ("col", "sw:2,4,3", "ld.shared.b64"),
        ("row", "sw:2,4,3", "st.shared.b128"),
    ),
)

KERNEL = """
extern "C" __global__ void {kernel}(const unsigned char* in_a, const unsigned char* in_b, unsigned char* out) {{
  __shared__ __align__(1024) unsigned char raw[{bytes}];
  const unsigned lane = threadIdx.x, shared = static_cast<unsigned>(__cvta_generic_to_shared(raw));
  {a}::Word ra[{a}::REGISTERS];
  {b}::Word rb[{b}::REGISTERS];
  {d}::Word rd[{d}::REGISTERS] = {{}};
  {a}::fill(shared, in_a, lane, 32);
  {b}::fill(shared + {second}, in_b, lane, 32);
  asm volatile("cp.async.wait_all;" : : : "memory");
  __syncthreads();
  {a}::load(shared, lane, ra);
  {b}::load(shared + {second}, lane, rb);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < {ks}; ++k)
#pragma unroll
    for (int m = 0; m < {ms}; ++m)
#pragma unroll
      for (int n = 0; n < {ns}; ++n) {{
        const {a}::Word* a = ra + (k * {ms} + m) * {na};
        const {b}::Word* b = rb + (k * {ns} + n) * {nb};
        {d}::Word* d = rd + (m * {ns} + n) * {nd};
        asm volatile("{text}" : {outputs} : {inputs});
      }}
  {d}::store(shared, lane, rd);
  __syncthreads();
  {d}::drain(shared, out, lane, 32);
}}
"""


def kernel(product):
    return f"product_{PRODUCTS.index(product)}"


@cache
def program(product):
    """Three headers and the kernel."""
    plans = {
        o: path(request(load(product.case(o).fragment, "sm_90"), PathOptions(*product.case(o).options))) for o in "abd"
    }
    instruction = resolve(product.instruction).instruction
    counts = {o: instruction.fragment(o).registers for o in "abcd"}
    letter = {o: "l" if instruction.fragment(o).register_bits == 64 else "r" for o in "abcd"}
    number = iter(range(sum(counts.values())))
    braces = {o: "{" + ", ".join(f"%{next(number)}" for _ in range(counts[o])) + "}" for o in ("d", "a", "b")}
    outputs = ", ".join(f'"+{letter["d"]}"(d[{j}])' for j in range(counts["d"]))
    inputs = ", ".join(f'"{letter[o]}"({o}[{j}])' for o in "ab" for j in range(counts[o]))
    second = -(-plans["a"].request.shared.bytes(plans["a"].request.tile) // 1024) * 1024
    need = {o: p.request.shared.bytes(p.request.tile) for o, p in plans.items()}
    (m, n, k), shape = product.size, instruction.shape
    headers = [source(p) for p in plans.values()]
    return "\n".join(
        [
            *headers,
            KERNEL.format(
                kernel=kernel(product),
                **{o: struct(p) for o, p in plans.items()},
                second=second,
                bytes=max(second + need["b"], need["d"]),
                ks=k // shape.k,
                ms=m // shape.m,
                ns=n // shape.n,
                na=counts["a"],
                nb=counts["b"],
                nd=counts["d"],
                outputs=outputs,
                inputs=inputs,
                text=f"{instruction.name} {braces['d']}, {braces['a']}, {braces['b']}, {braces['d']};",
            ),
        ]
    )


def operands(product, seed):
    """Small whole numbers A and B, D by NumPy, and the bytes of A and B as they lie in memory."""
    rng, (m, n, k) = np.random.default_rng(seed), product.size
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    return a @ b, *(image(product.case(o), v) for o, v in (("a", a), ("b", b)))


def image(case, matrix):
    """Bytes of a matrix of whole numbers in global memory."""
    fragment = resolve(case.fragment).fragment
    bits = multiplicands.patterns(matrix, fragment).astype(
        {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[fragment.slot_bits]
    )
    return np.ascontiguousarray(bits if case.major == "row" else bits.T).view(np.uint8).ravel()


def numbers(product, raw):
    """The numbers of D that bytes in memory mean."""
    case, (m, n, _) = product.case("d"), product.size
    fragment = resolve(case.fragment).fragment
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[fragment.slot_bits]
    found = multiplicands.decode(raw.view(unsigned), fragment)
    return found.reshape(m, n) if case.major == "row" else found.reshape(n, m).T


# straight from global memory

STRAIGHT = tuple(
    (name, major, ld)
    for name in (
        F16 + ".a",
        BF16 + ".b",
        HALF + ".d",
        F16 + ".c",
        TF32 + ".a",
        S8 + ".a",
        E4M3 + ".b",
        F64 + ".a",
        F64 + ".d",
        "wmma.m16n16k16.a.row.f16",
        "mma.m16n8k64.row.col.s32.s4.s4.s32.a",
    )
    for major, ld in (("row", 64), ("row", 66), ("col", 96))
    if not ("s4" in name and major == "col")
)
STRAIGHT_KERNEL = """
extern "C" __global__ void {kernel}(const unsigned char* given, {space}::Word* made) {{
  {space}::Word registers[{space}::REGISTERS];
  {space}::load(given, threadIdx.x, registers);
#pragma unroll
  for (int j = 0; j < {space}::REGISTERS; ++j) made[threadIdx.x * {space}::REGISTERS + j] = registers[j];
}}
"""


def straight_kernel(number):
    return f"straight_{number}"


@cache
def straight_program(number):
    """The header of a straight load in a namespace of its own, and a kernel."""
    name, major, ld = STRAIGHT[number]
    text = straight_source(straight(load(name, "sm_90"), major, ld))
    space = text.partition("struct ")[2].partition(" ")[0]
    return text + STRAIGHT_KERNEL.format(kernel=straight_kernel(number), space=space)


def straight_data(number, seed):
    """Random memory, and the registers by the table alone."""
    name, major, ld = STRAIGHT[number]
    cell, rng = load(name, "sm_90"), np.random.default_rng(seed)
    fragment, bits = cell.fragment, cell.fragment.slot_bits
    lines, length = (fragment.rows, fragment.cols) if major == "row" else (fragment.cols, fragment.rows)
    given = rng.integers(1, 256, lines * ld * bits // 8, np.uint8)
    pieces = np.unpackbits(given, bitorder="little").reshape(lines, ld, bits)[:, :length]
    row, col = (np.array(cell.table.values[axis]).reshape(32, -1) for axis in ("row", "col"))
    held = pieces[row, col] if major == "row" else pieces[col, row]
    return given, np.packbits(held.reshape(-1), bitorder="little")


def all_sources():
    """Of all kernels."""
    return [
        *path_cases.sources(),
        *(program(p) for p in PRODUCTS),
        *(straight_program(number) for number in range(len(STRAIGHT))),
    ]
