"""A path as code: a CUDA header, and CuTe's text, of paths into registers and to operands behind descriptors.

CuTe has layouts of both memories, a TiledCopy between them, and the copy atom of the registers. Coordinates are CuTe's:
(M, K) of A, (N, K) of B, (M, N) of C and D. What CuTe cannot say is refused: a swizzle that acts inside an element,
lines that are not whole elements apart, lanes of a warp that do not fill whole lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcprobe import __version__
from tcprobe.ask.banks.accesses import Tile
from tcprobe.ask.descriptor import CPP, CUTE_TYPES
from tcprobe.ask.descriptor import cute as canonical
from tcprobe.ask.path.formula import formula, of_pair
from tcprobe.ask.path.plan import TileRequest, advance, shared_address
from tcprobe.ask.path.steps import BoxCopy, LaneCopy, PathStep, RegisterCopy
from tcprobe.code.cuda import holder, once, origin_of_tables
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.layout.banks import IDLE
from tcprobe.layout.swizzle import Swizzle
from tcprobe.text import comment

if TYPE_CHECKING:
    from tcprobe.ask.path.operand import OperandPlan
    from tcprobe.ask.path.plan import PathPlan


DATA_TYPES = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "tf32": "FLOAT32",
    "f64": "FLOAT64",
    "s32": "INT32",
}
FUNCTION, NUMBER = "__device__ static inline void", "static constexpr int"
UNTYPED = {8: "UINT8", 16: "UINT16", 32: "UINT32", 64: "UINT64"}


def source(plan: PathPlan) -> str:
    """The header; UsageError where addresses have no closed form."""
    moves, registers = transfer_code(plan.request, plan.transfer), _registers(plan, plan.registers)
    parts = [moves, registers] if plan.request.loads else [registers, moves]
    body = [f"  {line}".rstrip() if line[:1] != "#" else line for part in (_sizes(plan), *parts) for line in part]
    return "\n".join([*_head(plan), *once([f"struct {name(plan)} {{", *body[:-1], "};"]), ""])


def name(plan: PathPlan) -> str:
    """The struct of a plan."""
    return struct_of(plan.request)


def struct_of(request: TileRequest) -> str:
    """The struct's name: of what has the tile, the tile, its place and what reaches it."""
    tile, (end, reach) = request.tile, request.ends
    gap = f"_ld{request.ld}" if request.ld != tile.length else ""
    boxes = f"_boxes{request.shared.block}" if request.shared.block not in (0, tile.line_bytes) else ""
    words = f"path_{end}_{tile.rows}x{tile.cols}_{tile.contiguous}{gap}_{request.shared}{boxes}_{request.fill}"
    return identifier(f"{words}_{reach}")


def _head(plan: PathPlan) -> Iterator[str]:
    request, tile = plan.request, plan.request.tile
    way = " -> ".join(f"{s.kind}: {' + '.join(s.ptx)}" for s in plan.steps)
    yield f"// made by tcprobe {__version__}: {tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous"
    yield f"// {comment(way)}"
    boxes = f", {request.shared.words(tile)}" if request.shared.block else ""
    yield f"// shared memory: {request.shared}{boxes}; proven on every slot on {request.cell.arch}; needs {plan.needs}"
    yield from (f"// {comment(origin_of_tables(words))}" for words in plan.evidence)


def _sizes(plan: PathPlan) -> Iterator[str]:
    """What a caller has to know."""
    request = plan.request
    fragment = request.cell.fragment
    registers = plan.fragments * fragment.registers
    word = "unsigned long long" if fragment.register_bits == 64 else "unsigned"
    yield f"using Word = {word};"
    yield f"{NUMBER} BYTES = {request.shared.bytes(request.tile)};  // of shared memory"
    yield f"{NUMBER} ALIGNMENT = {plan.alignment};  // of the tile's start there"
    yield f"{NUMBER} FRAGMENTS = {plan.fragments};  // of {fragment.registers} registers, {_order(plan)}"
    yield f"{NUMBER} REGISTERS = {registers};  // of a lane"
    yield f"{NUMBER} THREADS = {32 * request.warps};  // that share them"
    yield f"static constexpr long long LD = {request.ld_bytes};  // bytes from line to line in global memory"
    yield ""


def _order(plan: PathPlan) -> str:
    outer, inner = ("cols", "rows") if plan.request.slots.outer == "col" else ("rows", "cols")
    return f"one after the other; {inner} before {outer}"


def require_formula(text: str | None, request: TileRequest) -> str:
    """The formula; UsageError where the addresses have none."""
    if text is None:
        raise UsageError(f"{struct_of(request)}: its addresses have no closed form, so there is no code.", "no code")
    return text


def transfer_code(request: TileRequest, step: PathStep) -> Iterator[str]:
    """`fill` or `drain`."""
    if isinstance(step, BoxCopy):
        return _boxes(request, step)
    assert isinstance(step, LaneCopy)
    return _lanes(request, step)


def _lanes(request: TileRequest, lane_copy: LaneCopy) -> Iterator[str]:
    """`fill` or `drain` by lanes."""
    issues = len(lane_copy.shared)
    fills = request.loads
    line, byte = (require_formula(formula(values), request) for values in (lane_copy.line, lane_copy.byte))
    last = int((lane_copy.line != -1).sum())
    const = "const " if fills else ""
    yield f"/// {lane_copy.kind}, {issues} issues divided among warps: thread < threads, a multiple of 32."
    yield "/// `shared`: the tile's address in the shared window; `global`: its first element;"
    yield f"/// `ld`: bytes from line to line; both are multiples of {lane_copy.width}."
    if request.fill_kind == "cp.async":
        yield "/// Asynchronous: cp.async.wait_all (or commit_group and wait_group) and a barrier must follow."
    yield (
        f"{FUNCTION} {'fill' if fills else 'drain'}(unsigned shared, {const}void* global, "
        "unsigned thread, unsigned threads, long long ld = LD) {"
    )
    yield "  const unsigned lane = thread % 32;"
    yield "#pragma unroll"  # where `threads` is known
    yield f"  for (unsigned issue = thread / 32; issue < {issues}; issue += threads / 32) {{"
    if last < 32 * issues:
        yield f"    if (issue * 32 + lane >= {last}) break;"
    yield from (f"    {text}" for text in _address_lines("in_shared", request, lane_copy))
    yield f"    {const}char* in_global = static_cast<{const}char*>(global) + ({line}) * ld + ({byte});"
    yield from (f"    {text}" for text in _copy_lines(lane_copy, fills, request.fill_kind))
    yield from ("  }", "}", "")


def _address_lines(variable: str, request: TileRequest, shared_copy: LaneCopy | RegisterCopy) -> Iterator[str]:
    """The statements that compute a shared address."""
    address = shared_address(request, shared_copy)
    linear = require_formula(address and address.linear, request)
    if address and address.swizzle:
        yield f"const unsigned linear = {linear};"
        linear = f"linear ^ (linear {address.swizzle})"
    yield f"const unsigned {variable} = shared + ({linear});"


def _copy_lines(lane_copy: LaneCopy, fills: bool, kind: str) -> Iterator[str]:
    """The statements that move a lane's piece."""
    if kind == "cp.async":
        text = f"{lane_copy.ptx[0]} [%0], [%1], {lane_copy.width};"
        yield f'asm volatile("{text}" : : "r"(in_shared), "l"(in_global) : "memory");'
        return
    count = max(1, lane_copy.width // 4)
    yield f"unsigned v[{count}];"
    places = ('"l"(in_global)', '"r"(in_shared)') if fills else ('"r"(in_shared)', '"l"(in_global)')
    variables = _Variables(tuple(f"v[{j}]" for j in range(count)))
    yield _read(lane_copy.ptx[0], variables, places[0])
    yield _write(lane_copy.ptx[1], variables, places[1])


class _Variables(NamedTuple):
    """Variables of C, and the letter of inline PTX that says their size: r 32 bits, l 64."""

    names: tuple[str, ...]
    letter: str = "r"

    def __str__(self) -> str:
        return ", ".join(f'"{self.letter}"({name})' for name in self.names)


def _read(ptx: str, variables: _Variables, place: str) -> str:
    """A load into variables."""
    count = len(variables.names)
    outputs = variables._replace(letter=f"={variables.letter}")
    return f'asm volatile("{ptx} {_braces(0, count, ptx)}, [%{count}];" : {outputs} : {place} : "memory");'


def _write(ptx: str, variables: _Variables, place: str) -> str:
    """A store of variables."""
    return f'asm volatile("{ptx} [%0], {_braces(1, len(variables.names), ptx)};" : : {place}, {variables} : "memory");'


def _braces(start: int, count: int, ptx: str) -> str:
    numbers = ", ".join(f"%{start + j}" for j in range(count))
    return f"{{{numbers}}}" if count > 1 or "matrix" in ptx else numbers


def _registers(plan: PathPlan, copy: RegisterCopy) -> Iterator[str]:
    """`load` or `store`: one issue, the whole tile, and a step of k."""
    request, fragment = plan.request, plan.request.cell.fragment
    verb, issues = ("load" if request.loads else "store"), len(copy.shared)
    const = "" if request.loads else "const "
    size = fragment.register_bits // 8
    whole, parts = (max(1, copy.fragments.shape[1] * copy.piece // size), max(1, size // copy.piece))
    slots = (
        f"one issue, {copy.instruction}: registers r[0] on"
        if parts == 1
        else (f"one issue, {copy.instruction}: part issue % {parts} of register r[0]")
    )
    yield f"/// {copy.kind}, {slots}."
    yield f"{FUNCTION} {verb}_issue(unsigned shared, unsigned lane, unsigned issue, {const}Word* r) {{"
    yield from (f"  {line}" for line in _address_lines("address", plan.request, copy))
    yield from (f"  {line}" for line in _issue_lines(plan, whole, parts))
    yield from ("}", "")
    thread = holder(WARP * copy.warps)
    yield f"/// All of them: fragment f at registers[{fragment.registers} * f], {_threads(copy)}."
    yield f"{FUNCTION} {verb}(unsigned shared, unsigned {thread}, {const}Word (&registers)[REGISTERS]) {{"
    yield "#pragma unroll"
    yield f"  for (unsigned {_number(copy)} = 0; {_number(copy)} < {issues // copy.warps}; ++{_number(copy)})"
    yield f"    {_call(copy, f'{verb}_issue', _number(copy), f'registers + {_scale(_number(copy), whole, parts)}')};"
    yield from ("}", "")
    yield from _k_step(plan, whole, parts)


def _threads(copy: RegisterCopy) -> str:
    if copy.warps == 1:
        return "lane = 0 to 31 of a whole warp"
    return f"thread = 0 to {WARP * copy.warps - 1} of {copy.warps} whole warps"


def _number(copy: RegisterCopy) -> str:
    """What counts the issues of a warp."""
    return "issue" if copy.warps == 1 else "j"


def _call(copy: RegisterCopy, name: str, number: str, to: str) -> str:
    """The call of issue `number` of a warp; several warps have `each` issues of every fragment, one after the other."""
    if copy.warps == 1:
        return f"{name}(shared, lane, {number}, {to})"
    each = len(copy.shared) // len(copy.origins)
    counter = f"({number})" if " " in number else number
    issue = f"{counter} * {copy.warps} + thread / 32"
    if each > 1:
        issue = f"({counter} / {each} * {copy.warps} + thread / 32) * {each} + {counter} % {each}"
    return f"{name}(shared, thread % 32, {issue}, {to})"


def _scale(variable: str, times: int, parts: int) -> str:
    return variable + (f" * {times}" if times > 1 else "") + (f" / {parts}" if parts > 1 else "")


def _k_step(plan: PathPlan, whole: int, parts: int) -> Iterator[str]:
    """`load_k`, where issues belong to one step of k."""
    ahead = advance(plan)
    if not ahead or not ahead.issues:
        return
    yield f"{NUMBER} STEPS = {ahead.steps};  // of k; the next tile is {ahead.global_} bytes further in global memory"
    if ahead.op and ahead.steps > 1:
        yield f"// addresses of step k: those of step 0 {ahead.op} {', '.join(map(str, ahead.shared))}"
    step, thread = plan.registers, holder(WARP * plan.registers.warps)
    count = ahead.issues // step.warps
    yield f"{NUMBER} STEP_ISSUES = {count}, STEP_REGISTERS = {count * whole // parts};"
    yield "/// The fragments of step k, of issue j alone: registers r[0] on."
    yield f"{FUNCTION} load_k_issue(unsigned shared, unsigned {thread}, unsigned k, unsigned j, Word* r) {{"
    apart = _apart(step, ahead.steps) if parts == 1 else 0
    if apart:  # the compiler makes an immediate of it
        yield f"  load_issue(shared + j * {apart}, lane, k * {count}, r);"
    else:
        yield f"  {_call(step, 'load_issue', f'k * {count} + j', 'r')};"
    yield from ("}", "")
    yield "/// All of them."
    yield f"{FUNCTION} load_k(unsigned shared, unsigned {thread}, unsigned k, Word (&registers)[STEP_REGISTERS]) {{"
    yield "#pragma unroll"
    yield f"  for (unsigned j = 0; j < {count}; ++j)"
    yield f"    load_k_issue(shared, {thread}, k, j, registers + {_scale('j', whole, parts)});"
    yield from ("}", "")


def _apart(copy: RegisterCopy, steps: int) -> int:
    """Bytes of shared memory from each issue of a k step to the next, where these are as many for all lanes; else 0."""
    by_step = copy.shared.reshape(steps, len(copy.shared) // steps, -1)
    if copy.warps > 1 or by_step.shape[1] < 2 or (by_step == IDLE).any():
        return 0
    moves = by_step[:, 1:] - by_step[:, :-1]
    return int(moves.flat[0]) if (moves == moves.flat[0]).all() and moves.flat[0] > 0 else 0


def _issue_lines(plan: PathPlan, whole: int, parts: int) -> Iterator[str]:
    """The statements of one issue."""
    letter = "l" if plan.request.cell.fragment.register_bits == 64 else "r"
    ptx, bits, part = plan.registers.ptx[0], 8 * plan.registers.piece, _Variables(("v",), letter)
    if parts == 1:
        make = _read if plan.request.loads else _write
        yield make(ptx, _Variables(tuple(f"r[{j}]" for j in range(whole)), letter), '"r"(address)')
    elif plan.request.loads:
        yield "unsigned v;"
        yield _read(ptx, part, '"r"(address)')
        yield f"r[0] = issue % {parts} ? r[0] | v << issue % {parts} * {bits} : v;"
    else:
        yield f"const unsigned v = r[0] >> issue % {parts} * {bits};"
        yield _write(ptx, part, '"r"(address)')


def _boxes(request: TileRequest, box_copy: BoxCopy) -> Iterator[str]:
    """`fill` or `drain` by boxes, and the arguments of the tensor map."""
    tile = request.tile
    inner, rows = box_copy.box
    across, fills = tile.length // inner, request.loads
    kind = DATA_TYPES.get(tile.type, UNTYPED[tile.bits])
    yield "// The tensor map, x along the lines of memory, y across them; SIZE of the whole matrix, inner first:"
    yield f"// cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_{kind}, 2, address, SIZE, &LD, BOX, (1, 1),"
    yield (
        f"//     CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_{box_copy.mode.name}, "
        "CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)"
    )
    yield "// `address` is a multiple of 16, `map` a __grid_constant__ argument or aligned to 64."
    yield f"static constexpr unsigned BOX[2] = {{{inner}, {rows}}};"
    yield ""
    count = len(box_copy.corners)
    yield f"/// {box_copy.kind}, {count} boxes; one thread calls it. (x, y): the tile's first element in the map."
    if fills:
        yield f"/// `barrier`: the shared address of an mbarrier that expects {tile.lines * tile.line_bytes} bytes."
        yield f"{FUNCTION} fill(unsigned shared, const void* map, unsigned barrier, int x, int y) {{"
    else:
        yield "/// Before it fence.proxy.async by all that wrote, and a barrier; after it cp.async.bulk.wait_group."
        yield f"{FUNCTION} drain(unsigned shared, const void* map, int x, int y) {{"
    beside, below = (box_copy.shared[n] if n < count else 0 for n in (1 if across > 1 else count, across))
    yield f"  for (int box = 0; box < {count}; ++box) {{"
    yield f"    const int i = box % {across}, j = box / {across};"
    yield f"    const int across = x + i * {inner}, down = y + j * {rows};"
    yield f"    const unsigned to = shared + i * {beside} + j * {below};"
    if fills:
        yield f'    asm volatile("{box_copy.ptx[0]} [%0], [%1, {{%2, %3}}], [%4];"'
        yield '                 : : "r"(to), "l"(map), "r"(across), "r"(down), "r"(barrier) : "memory");'
    else:
        yield f'    asm volatile("{box_copy.ptx[0]} [%0, {{%1, %2}}], [%3];"'
        yield '                 : : "l"(map), "r"(across), "r"(down), "r"(to) : "memory");'
    yield "  }"
    yield '  asm volatile("cp.async.bulk.commit_group;" : : : "memory");' if not fills else "}"
    yield from ("",) if fills else ("}", "")


CuteMode = int | tuple[int, ...]
_MATRIX = re.compile(r"(ld|st)matrix\.x([124])(\.trans)?")


def head(proven: str, evidence: Iterable[str], atom: str) -> list[str]:
    """The first lines of a header of CuTe's terms: what it is proven on, what it rests on, what it includes."""
    lines = [f"// made by tcprobe {__version__}, proven {proven}"]
    lines += [f"// {comment(origin_of_tables(words))}" for words in evidence]
    return [*lines, "#pragma once", "#include <cute/tensor.hpp>", f"#include <cute/atom/{atom}.hpp>", ""]


def cute_source(plan: PathPlan) -> str:
    """The text; UsageError where CuTe has no words for it."""
    request, tile, step = plan.request, plan.request.tile, plan.transfer
    if request.widens:
        raise UsageError(f"CuTe: it has no copy atom of {request.access.name}.", "code in CUDA")
    if tile.type not in CUTE_TYPES:
        raise UsageError(f"CuTe: no type here for {tile.type}; it has {', '.join(CUTE_TYPES)}.")
    lines = head(f"on every slot on {request.cell.arch}", plan.evidence, "copy_atom")
    lines += [f"using Element = {CUTE_TYPES[tile.type]};"]
    turned = request.cell.fragment.depth == "row"  # B is (N, K)
    lines += [f"using Global = {layout(tile, turned, request.ld)};", f"using Shared = {_shared(plan, turned)};"]
    lines += list(_cute_boxes(step) if isinstance(step, BoxCopy) else lanes(request, turned, step))
    return "\n".join([*lines, *_cute_registers(plan), ""])


def layout(tile: Tile, turned: bool, pitch: int, block: int = 0) -> str:
    """The tile in elements, `pitch` of them from line to line; rows and columns exchanged where `turned`.

    `block`: the elements of each of several blocks that a line is cut into.
    """
    line: tuple[CuteMode, CuteMode] = (tile.lines, pitch)
    place: tuple[CuteMode, CuteMode] = (tile.length, 1)
    if block:
        place = ((block, tile.length // block), (1, tile.lines * block))
    modes = [line, place] if (tile.contiguous == "row") != turned else [place, line]
    shape, stride = (tuple(mode[n] for mode in modes) for n in (0, 1))
    return f"cute::Layout<{_ints('Shape', shape)}, {_ints('Stride', stride)}>"


def _ints(kind: str, extents: tuple[CuteMode, ...]) -> str:
    texts = (f"cute::Int<{n}>" if isinstance(n, int) else _ints(kind, n) for n in extents)
    return f"cute::{kind}<{', '.join(texts)}>"


def _shared(plan: PathPlan, turned: bool) -> str:
    request, bits = plan.request, plan.request.tile.bits
    apart = request.shared.pitch(request.tile)
    pitch, rest = divmod(8 * apart, bits)
    if rest:
        raise UsageError(f"CuTe: lines {apart} bytes apart are not whole elements of {bits} bits.")
    cut = request.shared.blocks(request.tile) > 1
    plain = layout(request.tile, turned, pitch, 8 * request.shared.block // bits if cut else 0)
    if not request.shared.swizzle[0]:
        return plain
    swizzle = Swizzle(*request.shared.swizzle).in_elements(bits)
    if swizzle is None:
        raise UsageError(f"CuTe: {request.shared} acts inside elements of {bits} bits.")
    b, m, s = swizzle.to_json()
    return f"decltype(cute::composition(cute::Swizzle<{b}, {m}, {s}>{{}}, {plain}{{}}))"


def _cute_boxes(box_copy: BoxCopy) -> Iterator[str]:
    direction = "LOAD" if box_copy.kind == "global->shared" else "STORE"
    yield f"// host: auto copy = cute::make_tma_copy(cute::SM90_TMA_{direction}{{}}, tensor, Shared{{}});"
    yield f"// boxes of {box_copy.box[0]} x {box_copy.box[1]} elements, {box_copy.swizzle}"


def lanes(request: TileRequest, turned: bool, step: PathStep) -> Iterator[str]:
    """A TiledCopy of one warp; UsageError where CuTe has none."""
    assert isinstance(step, LaneCopy)
    tile = request.tile
    across = tile.line_bytes // step.width
    if WARP % across and across % WARP:
        raise UsageError(f"CuTe: a line of {across} pieces and the {WARP} lanes of a warp do not divide each other.")
    count, per_line = step.width * 8 // tile.bits, min(across, WARP)
    if not count:
        raise UsageError(f"CuTe: {step.width} bytes are less than an element.")
    inner_first = (tile.contiguous == "row") == turned
    threads, value = (WARP // per_line, per_line), (1, count)
    strides = (per_line, 1)
    if inner_first:
        threads, value, strides = threads[::-1], value[::-1], strides[::-1]
    yield "// a warp; more of them along the lines of threads"
    yield "using Copy = decltype(cute::make_tiled_copy("
    yield f"    cute::Copy_Atom<{_operation(request.fill_kind, step)}, Element>{{}},"
    yield f"    cute::Layout<{_ints('Shape', threads)}, {_ints('Stride', strides)}>{{}},"
    yield f"    cute::Layout<{_ints('Shape', value)}>{{}}));"


def _operation(kind: str, lane_copy: LaneCopy) -> str:
    word = f"cute::uint{8 * lane_copy.width}_t"
    cache = "GLOBAL" if lane_copy.width == 16 else "ALWAYS"
    return f"cute::SM80_CP_ASYNC_CACHE{cache}<{word}>" if kind == "cp.async" else f"cute::UniversalCopy<{word}>"


def _cute_registers(plan: PathPlan) -> Iterator[str]:
    """The atom, for make_tiled_copy_A, _B or _C of the TiledMma."""
    operand = plan.request.cell.fragment.operand
    side = {"a": "A", "b": "B"}.get(operand, "C")
    yield f"using Registers = cute::Copy_Atom<{_atom(plan.registers.instruction)}, Element>;"
    yield f"// cute::make_tiled_copy_{side}(Registers{{}}, tiled_mma)"


def _atom(instruction: str) -> str:
    match = _MATRIX.fullmatch(instruction)
    if not match:
        bits = instruction.rpartition("b")[2]
        return f"cute::UniversalCopy<cute::uint{bits}_t>"
    first, move = ("SM75", "LDSM") if match[1] == "ld" else ("SM90", "STSM")
    kind = f"U16x{2 * int(match[2])}_{move}_T" if match[3] else f"U32x{match[2]}_{move}_N"
    return f"cute::{first}_{kind}"


def operand_source(plan: OperandPlan) -> str:
    """The header; UsageError where addresses have no closed form."""
    body = [
        f"  {line}".rstrip()
        for line in (*_operand_sizes(plan), *transfer_code(plan.request, plan.transfer), *_descriptor(plan))
    ]
    return "\n".join([*_operand_head(plan), *once([f"struct {struct_of(plan.request)} {{", *body, "};"]), ""])


def _operand_head(plan: OperandPlan) -> Iterator[str]:
    request, tile = plan.request, plan.request.tile
    yield f"// made by tcprobe {__version__}: {tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous"
    yield f"// {comment(' -> '.join(f'{s.kind}: {s.ptx[0]}' for s in plan.steps))}"
    yield (
        f"// shared memory: {request.shared}, blocks of {request.shared.block} bytes of each line; "
        f"proven byte by byte; needs {request.operand.instruction.target.name}"
    )
    yield from (f"// {comment(origin_of_tables(words))}" for words in plan.evidence)


def _operand_sizes(plan: OperandPlan) -> Iterator[str]:
    request, ahead = plan.request, plan.advance
    yield f"{NUMBER} BYTES = {request.shared.bytes(request.tile)};  // of shared memory"
    yield f"{NUMBER} ALIGNMENT = {plan.alignment};  // of the tile's start there"
    yield f"static constexpr long long LD = {request.ld_bytes};  // bytes from line to line in global memory"
    yield f"{NUMBER} STEPS = {ahead.steps};  // of k; the next tile is {ahead.global_} bytes further in global memory"
    yield f"{NUMBER} BLOCKS = {plan.blocks};  // of {request.smem_tile.block} lines each, one multiply's"
    descriptor = request.smem_tile.descriptor
    yield (
        f"static constexpr unsigned long long DESCRIPTOR = {descriptor.encode():#018x};  "
        f"// LBO {descriptor.lbo}, SBO {descriptor.sbo}, swizzle {descriptor.swizzle or 'none'}, start 0"
    )
    yield f"{NUMBER} TRANSPOSED = {int(request.smem_tile.major == 'mn')};  // the multiply's imm-trans of 16-bit types"
    yield ""


def _descriptor(plan: OperandPlan) -> Iterator[str]:
    """The descriptor of one multiply's operand."""
    starts = np.array(plan.reads.starts).reshape(-1, plan.blocks)
    text = require_formula(of_pair(starts, "k", "block"), plan.request)
    unused = "" if plan.blocks > 1 else "  // there is one block"
    yield f"/// Step k and block of lines `block` of the tile at `shared`, an address in the shared window.{unused}"
    if plan.request.fill_kind != "tma":
        yield "/// Before it every thread that filled: fence.proxy.async, when its copies are there, then a barrier."
    yield ("__device__ static inline unsigned long long descriptor(unsigned shared, unsigned k, unsigned block = 0) {")
    yield f"  return DESCRIPTOR | ((shared + {text}) & 0x3ffff) >> 4;"
    yield "}"


def operand_cute(plan: OperandPlan) -> str:
    """CuTe's layouts, the copy, and what makes the descriptor; UsageError where CuTe has no words for it."""
    request, tile, step = plan.request, plan.request.tile, plan.transfer
    if tile.type not in CPP:
        raise UsageError(f"CuTe: no wgmma of {tile.type}; it has {', '.join(CPP)}.")
    lines = head(f"byte by byte on {request.rules.for_arch}", plan.evidence, "mma_atom")
    lines += ["using namespace cute;", f"using Element = {CPP[tile.type]};"]
    lines += [f"using Global = {layout(tile, request.axis == 'row', request.ld)};"]
    lines += [f"using Shared = decltype({canonical(request.smem_tile)['layout']});"]
    if isinstance(step, BoxCopy):
        lines += ["// host: auto copy = make_tma_copy(SM90_TMA_LOAD{}, tensor, Shared{});"]
    else:
        lines += list(lanes(request, request.axis == "row", step))
    return "\n".join([*lines, "// the TiledMma's partition_fragment makes the descriptors of Shared", ""])
