"""Headers, CuTe's types, paths and calls that commands print, as cases: run on the host, compared with the tables."""

import re
from itertools import product

import numpy as np
import path_cases
from emitted import Case

from tcprobe import emit
from tcprobe.ask import descriptor, tensormap
from tcprobe.ask.banks.accesses import TMA
from tcprobe.ask.load.straight import source as load_source
from tcprobe.ask.load.straight import straight_load
from tcprobe.ask.path import code
from tcprobe.ask.path.steps import BoxCopy
from tcprobe.emit.common import cell_identifier
from tcprobe.errors import UsageError
from tcprobe.isa.operand import Role
from tcprobe.isa.tensor_map import DATA_TYPES, FILLS, INTERLEAVES, PROMOTIONS, SWIZZLES

HEADER = """using L = {name};
  int own[L::elements][3];
  for (int i = 0; i < L::elements; ++i) {{
    const int at[3] = {{L::row(running, i), L::col(running, i), L::product(running, i)}};
    for (int j = 0; j < 3; ++j) own[i][j] = {read} ? at[j] : -1;
  }}
  memcpy(MINE(output, own), own, sizeof own);"""
CUTE = r"""
namespace cute {  // what of CuTe the emitted types use
template <int N> struct Int { };
template <class... T> struct Shape { };
template <class... T> struct Stride { };
template <int S, int D> int at(Int<S>, Int<D>, int n) { return n * D; }
template <int S, class... Ss, int D, class... Ds> int at(Shape<Int<S>, Ss...>, Stride<Int<D>, Ds...>, int n) {
  if constexpr (sizeof...(Ss) == 0) return n * D;
  else return n % S * D + at(Shape<Ss...>{}, Stride<Ds...>{}, n / S);
}
template <class S, class D> struct Layout;
template <class A, class B, class C, class D> struct Layout<Shape<A, B>, Stride<C, D>> {
  static int of(int thread, int value) { return at(A{}, C{}, thread) + at(B{}, D{}, value); }
};
}
"""
OFFSETS = """int own[{count}];
  for (int i = 0; i < {count}; ++i) own[i] = {name}::of(running, i);
  memcpy(MINE(output, own), own, sizeof own);"""
BOX = "if (!running) {{ map_ = {{{memory}, {ld}, {size}, {inner}, {rows}, {bits}, {pitch}}}; {call}; }}"


def headers(cells):
    """`emit --to cuda`: a struct a fragment, and one on each arch; those of one fragment stand in one header."""
    for cell in cells:
        together = [other for other in cells if cell_identifier(other) == cell_identifier(cell)]
        name = f"tcprobe::{cell.arch}::{cell_identifier(cell)}"
        try:
            text = emit.emit("cuda", together)
        except UsageError:
            continue
        read = "L::read(running)" if cell.fragment.role is Role.METADATA else "true"
        wanted = [(*at, 0)[:3] if at else (-1, -1, -1) for at in cell.table.cells]
        yield Case(
            f"{cell.fragment.id} as cuda",
            text,
            HEADER.format(name=name, read=read),
            cell.table.threads,
            b"",
            np.array(wanted, np.int32).tobytes(),
        )


def cute_types(cells):
    """`emit --to cute`: a type a fragment."""
    for cell in cells:
        try:
            text = emit.emit("cute", [cell])
        except UsageError:
            continue
        space = f"t{cell.table.id}_{cell.arch}"
        body = OFFSETS.format(count=cell.table.elements, name=f"{space}::{cell_identifier(cell)}")
        wanted = np.array([number(cell.fragment, at) for at in cell.table.cells], np.int32)
        code = re.sub("^#.*\n", "", text, flags=re.MULTILINE).replace("namespace tcprobe", f"namespace {space}")
        yield Case(f"{cell.fragment.id} as cute", code, body, cell.table.threads, b"", wanted.tobytes())


def number(fragment, at):
    """CuTe's number of an element."""
    row, col, which = (*at, 0)[:3]
    size = fragment.rows * fragment.cols * which
    return size + (col + fragment.cols * row if fragment.operand == "b" else row + fragment.rows * col)


def moved(plan, verb):
    """The statement that fills or drains, by all threads or by one through a tensor map."""
    asked, step, name = plan.request, plan.transfer, code.struct_of(plan.request)
    memory = "input" if verb == "fill" else "output"
    threads = asked.cell.table.threads if hasattr(asked, "cell") else 128
    if not isinstance(step, BoxCopy):
        return f"{name}::{verb}(0, {memory}, running, {threads});"
    inner, rows = step.box
    size = asked.tile.bits // 8
    swizzle = TMA[step.mode.name][0]
    call = f"{name}::{verb}(0, &map_, {'0, ' if verb == 'fill' else ''}0, 0)"
    return BOX.format(
        memory=memory,
        ld=asked.ld * size,
        size=size,
        inner=inner,
        rows=rows,
        bits=swizzle,
        pitch=16 << swizzle if swizzle else inner * size,
        call=call,
    )


def paths(cases):
    """`path --code cuda` into registers, and back."""
    for case in cases:
        try:
            plan = path_cases.plan(case)
            text = code.source(plan)
        except UsageError:
            continue
        if plan.request.tile.bits < 8:
            continue
        data, name, loads = path_cases.data(case, 3), code.name(plan), plan.request.loads
        registers = f"{name}::Word own[{name}::REGISTERS] = {{}};"
        if loads:
            parts = [
                moved(plan, "fill"),
                "meet(0);",
                f"{name}::load(0, running, own);",
                "memcpy(MINE(output, own), own, sizeof own);",
            ]
        else:
            parts = [
                "memcpy(own, MINE(input, own), sizeof own);",
                f"{name}::store(0, running, own);",
                "meet(0);",
                moved(plan, "drain"),
            ]
        given, wanted = (data.image, data.registers)[:: 1 if loads else -1]
        yield Case(
            str(case), text, " ".join([registers, *parts]), path_cases.threads(case), given.tobytes(), wanted.tobytes()
        )


def operand_fills(plans):
    """`path --code cuda` to operands behind descriptors: `fill`."""
    for plan in plans:
        asked, tile = plan.request, plan.request.tile
        size = tile.bits // 8
        image = np.random.default_rng(3).integers(1, 256, (tile.lines, asked.ld * size), np.uint8)
        memory = np.full(asked.shared.bytes(tile), 0xEE, np.uint8)
        line, byte = np.mgrid[: tile.lines, : tile.length * size]
        memory[asked.shared.offset(tile, line, byte)] = image[:, : tile.length * size]
        what = f"{code.struct_of(asked)}"
        yield Case(
            what, code.operand_source(plan), moved(plan, "fill"), 128, image.tobytes(), memory.tobytes(), "memory"
        )


def asked_paths(cells):
    """Paths of fragments: what lies together, where, and how it comes there."""
    shapes = product(
        ("row", "col"),
        ("plain", "pad:16", "SWIZZLE_128B", "sw:2,4,3"),
        (None, "ld.shared.b32"),
        ("plain", "cp.async", "tma"),
    )
    for cell, (major, shared, access, fill) in product(cells, shapes):
        f = cell.fragment
        yield path_cases.Case(f.id, f"{2 * f.rows}x{2 * f.cols}", major, shared, access, None, fill)


# load


def loads(cells_, majors=("row", "col"), gaps=(0, 2)):
    """`load --code`."""
    for cell, major, gap in product(cells_, majors, gaps):
        fragment, bits = cell.fragment, cell.fragment.slot_bits
        lines, length = (fragment.rows, fragment.cols) if major == "row" else (fragment.cols, fragment.rows)
        try:
            text = load_source(straight_load(cell, major, length + gap))
        except UsageError:
            continue
        image = np.random.default_rng(3).integers(1, 256, lines * (length + gap) * bits // 8, np.uint8)
        pieces = np.unpackbits(image, bitorder="little").reshape(lines, length + gap, bits)[:, :length]
        row, col = (np.array(cell.table.values[axis]).reshape(fragment.threads, -1) for axis in ("row", "col"))
        wanted = np.packbits((pieces[row, col] if major == "row" else pieces[col, row]).reshape(-1), bitorder="little")
        name = re.search(r"struct (\w+)", text)[1]
        what = f"{fragment.id} {major} {gap}"
        code = f"namespace {cell.arch} {{ {text} }}"
        yield Case(what, code, f"straight<{cell.arch}::{name}>();", fragment.threads, image.tobytes(), wanted.tobytes())


# calls and single lines

DRIVER = "\n".join(
    [
        "typedef unsigned long long cuuint64_t; typedef unsigned cuuint32_t;",
        "struct alignas(128) CUtensorMap { cuuint64_t opaque[16]; };  // as cuda.h of CUDA 13 has it",
        "static unsigned __cvta_generic_to_shared(unsigned address) { return address; }",
        *(
            f"enum {{ {', '.join(f'CU_TENSOR_MAP_{kind}_{name} = {number}' for name, number in names.items())} }};"
            for kind, names in {
                "DATA_TYPE": {name: number for name, (number, _) in DATA_TYPES.items()},
                "INTERLEAVE": INTERLEAVES,
                "SWIZZLE": SWIZZLES,
                "L2_PROMOTION": PROMOTIONS,
                "FLOAT_OOB_FILL": FILLS,
            }.items()
        ),
        """typedef int CUresult;
static int cuTensorMapEncodeTiled(CUtensorMap*, int type, unsigned rank, void* address, const cuuint64_t* dims,
                                  const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                                  int interleave, int swizzle, int promotion, int fill) {
  u64* out = (u64*)output;
  *out++ = type; *out++ = rank; *out++ = (u64)address;
  for (unsigned j = 0; j < rank; ++j) { *out++ = dims[j]; *out++ = box[j]; *out++ = steps[j]; }
  for (unsigned j = 0; j + 1 < rank; ++j) *out++ = strides[j];
  *out++ = interleave; *out++ = swizzle; *out++ = promotion; *out++ = fill;
  return 0;
}""",
    ]
)


def calls(options):
    """`tensormap`: the call, whose arguments are written down."""
    for asked in options:
        try:
            planned = tensormap.plan(asked)
        except UsageError:
            continue
        made = planned.map
        numbers = [
            made.type,
            made.rank,
            1 << 20,
            *(n for each in zip(made.dims, made.box, made.steps, strict=True) for n in each),
            *made.strides,
            made.interleave,
            made.swizzle,
            made.promotion,
            made.fill,
        ]
        body = f"void* address = (void*)(1 << 20); {tensormap.cuda(planned)}\n"
        yield Case(str(asked), "", body, 1, b"", np.array(numbers, np.uint64).tobytes())


def descriptors(tiles):
    """`descriptor`: the line that makes one."""
    for tile in tiles:
        body = f"unsigned smem = 5 << 12; {descriptor.cuda(tile)} memcpy(MINE(output, desc), &desc, sizeof desc);"
        wanted = tile.descriptor._replace(start=5 << 12).encode()
        yield Case(str(tile), "", body, 1, b"", np.array([wanted], np.uint64).tobytes())


# PTX

ZERO = {"f32": "0f00000000", "f64": "0d0000000000000000"}
ADDRESSES = [f".reg .b64 %p{o}; .reg .b32 %ld{o}; mov.b64 %p{o}, 0; mov.b32 %ld{o}, 16;" for o in "abcd"]


def module(text):
    """(PTX of instructions with registers that are zero, as a kernel; the latest target that they need)."""
    needed = re.findall(r": \.target (\S+), \.version (\S+) or later", text)
    target = max((target for target, _ in needed), key=lambda name: int(re.search(r"\d+", name)[0]))
    version = max(("7.8", *(version for _, version in needed)), key=float)
    head = [f".version {version}", f".target {target}", ".address_size 64", ".visible .entry f() {"]
    body = re.sub(r"(?m)^\.reg \.(\w+) (%\w+);.*$", zeroed, text)
    return "\n".join([*head, *ADDRESSES, body, "ret;", "}"]), target


def zeroed(declared):
    """A declaration of a register, and its value."""
    kind, name = declared.groups()
    value = f"setp.eq.u32 {name}, 0, 0;" if kind == "pred" else f"mov.{kind} {name}, {ZERO.get(kind, 0)};"
    return f".reg .{kind} {name}; {value}"
