"""A path as a CUDA header: a struct of device functions that fill or drain shared memory, load or store registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tcprobe import __version__
from tcprobe.ask.path.boxes import BoxCopy
from tcprobe.ask.path.formula import formula
from tcprobe.ask.path.progress import advance, shared_address
from tcprobe.ask.path.request import TileRequest
from tcprobe.ask.path.steps import LaneCopy, PathStep, RegisterCopy
from tcprobe.code.cuda import holder, once, origin_of_tables
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.layout.banks import IDLE
from tcprobe.text import comment

if TYPE_CHECKING:
    from tcprobe.ask.path import PathPlan

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
