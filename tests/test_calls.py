"""`emit INSTRUCTION --to cuda` has functions: compiled for every arch that has them, run on the host, disassembled."""

import re
import shutil
import subprocess

import emitted
import numpy as np
import nvrtc
import pytest
from machine_code import TOOLS, needs_tools

from tcprobe import emit
from tcprobe.code import call
from tcprobe.code.names import identifier
from tcprobe.emit.common import cell_identifier
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import Role
from tcprobe.isa.target import version
from tcprobe.probes.ptx import Kernel
from tcprobe.sass import lowering
from tcprobe.sass.cubin import assemble
from tcprobe.store.cell import operands
from tcprobe.store.results import published

RESULTS = published()
NVRTC_PTX = "8.8"  # of NVRTC 12.9
ROWS = [row for row in inventory.instructions().values() if call.callable_(row)]
consumers = pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC here")
gcc = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")


def tables(row, name):
    """The cells of all operands on an arch, none where nothing is known of them."""
    try:
        return list(operands(row, name, RESULTS).values())
    except UsageError:
        return []


def one_of_each(kind, turn=0):
    """An instruction of each kind, another one each turn."""
    kinds = {}
    for row in ROWS:
        kinds.setdefault(kind(row), []).append(row)
    return [rows[turn * 7 % len(rows)] for rows in kinds.values()]


def on(request, name, turn):
    """The instructions that are tried on an arch."""
    row = arch(name)
    chosen = ROWS if request.config.getoption("--all") else one_of_each(lambda i: (i.family, i.target.on(row)), turn)
    return {
        i: cells
        for i in chosen
        if i.target.on(row) and version(i.target.on(row)[1]) <= version(NVRTC_PTX) and (cells := tables(i, name))
    }


def header(found):
    """All fragments of some instructions, each once."""
    return emit.emit("cuda", list({cell.fragment.id: cell for cells in found.values() for cell in cells}.values()))


def function_name(row):
    return f"k_{identifier(row.id)}"


def kernel(row, name):
    """A kernel that takes all operands from memory, and puts out what comes back."""
    struct, held = f"tcprobe::{name}::{identifier(row.id)}", [f for f in row.fragments if not f.selectors]
    lines = [f"typename M::{f.operand.upper()}::word {f.operand}[M::{f.operand.upper()}::registers];" for f in held]
    lines += [
        f"for (auto& v : {f.operand}) v = *reinterpret_cast<const volatile typename M::{f.operand.upper()}::word"
        f"*>(in + 32 * i++ + threadIdx.x);"
        for f in held
    ]
    out = next((f for f in held if f.role is Role.RESULT and f.operand == "d"), None)
    if row.described:
        metadata = ", in[7]" if row.metadata else ""
        lines += [
            "M::fence_operand(d); M::fence();",
            f"M::mma(d, a, x{metadata});",
            f"M::mma(d, x, x + 2{metadata}, i);",
            "M::commit_group(); M::wait_group();",
            "M::fence_operand(d);",
        ]
    elif row.multiplies:
        extra = ["in[7]" for f in row.spelled if f.selectors]
        lines += [f"M::mma({', '.join(['d', 'a', 'b', 'c', *extra])});"]
    else:
        named_ = [f"{f.operand}[0]" if f.role is Role.ADDRESS else f.operand for f in row.spelled]
        lines += [f"M::{row.family}({', '.join(named_)});"]
    lines += [f"for (auto x : {out.operand}) reinterpret_cast<volatile decltype(x)*>(to)[32 * i++] = x;"] if out else []
    body = "\n  ".join(lines)
    return (
        f'extern "C" __global__ void {function_name(row)}(const unsigned* in, unsigned* to, unsigned long long x) '
        f"{{\n  using M = {struct}; int i = 0;\n  {body}\n}}"
    )


def entries(ptx):
    """The kernels of a module by name."""
    return {m[1]: m[0] for m in re.finditer(r"^\.visible \.entry (\w+)\(.*?^\}", ptx, re.MULTILINE | re.DOTALL)}


KNOWN = [row.name for row in ARCHS if row.number not in (88, 107, 110)]  # NVRTC 12.9 knows none of them


@pytest.mark.full
@consumers
@needs_tools
@pytest.mark.parametrize("name", KNOWN)
def test_compiled_for_every_arch_each_becomes_the_opcodes_that_lower_says(request, name):
    if not request.config.getoption("--all") and name not in ("sm_75", "sm_90", "sm_120"):
        pytest.skip("with --all")
    row, found = arch(name), on(request, name, KNOWN.index(name))
    assert found
    by_target, codes = {}, {}
    for instruction in found:
        by_target.setdefault(instruction.target.own(row), []).append(instruction)
    for target, instructions in by_target.items():
        text = header({i: found[i] for i in instructions}) + "\n".join(kernel(i, name) for i in instructions)
        ptx = entries(nvrtc.ptx(nvrtc.library(), text, f"-arch={target}", "-std=c++17"))
        texts = {i: ptx[function_name(i)] for i in instructions}
        kernels = [Kernel(function_name(i), None, t, i.target.at_least(NVRTC_PTX)) for i, t in texts.items()]
        made, refused = assemble(TOOLS, kernels, row, apart=True)
        assert refused == {}
        codes |= made
    said = lowering.lower(TOOLS, row, list(found))
    for instruction in found:
        made = lowering.count(codes[function_name(instruction)].opcodes, instruction)
        calls = 2 if instruction.described else 1
        wanted = {opcode: calls * count for opcode, count in said[instruction.id].opcodes.items()}
        assert made.opcodes == wanted, instruction.id
    print(f"{name}: {len(found)} instructions, {sorted({i.family for i in found})}")


def test_every_family_is_called():
    assert {row.family for row in ROWS} == emitted.FAMILIES


@consumers
@pytest.mark.parametrize(
    ("id_", "compiled"),
    [
        ("mma.m16n8k16.row.col.f32.f16.f16.f32", "sm_75"),
        ("wgmma.mma_async.m64n8k16.f32.f16.f16", "sm_90"),
        ("ldmatrix.m8n8.x4.shared.b16", "sm_70"),
        ("stmatrix.m8n8.x4.shared.b16", "sm_89"),
        ("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "sm_120"),
    ],
)
def test_a_target_without_it_is_an_error_that_names_the_target(id_, compiled):
    row = inventory.instructions()[id_]
    name = next(a.name for a in ARCHS if row.target.on(a) and tables(row, a.name))
    text = "#define TCPROBE_ANY_ARCH\n" + header({row: tables(row, name)}) + kernel(row, name)
    done, log = nvrtc.compile_cuda(nvrtc.library(), text, f"-arch={compiled}", "-std=c++17")
    assert not done
    assert f"needs -arch={row.target.name}" in log


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
def test_nvcc_takes_the_same_and_ptxas_does_not_serialise_wgmma(tmp_path):
    ids = (
        "wgmma.mma_async.m64n128k16.f32.bf16.bf16",
        "wgmma.mma_async.m64n64k32.s32.s8.s8",
        "wgmma.mma_async.sp.m64n64k32.f16.f16.f16",
    )
    found = {row: tables(row, "sm_90") for row in map(inventory.instructions().__getitem__, ids)}
    loops = []
    for row in found:
        metadata = ", 0x44444444u" if row.metadata else ""
        step = f"for (int k = 0; k < 4; ++k) M::mma(d, x + 2 * k, x + 2 * k{metadata}, k > 0);"
        loops.append(f"""__global__ void {function_name(row)}(typename tcprobe::{identifier(row.id)}::D::word* to,
                                                              unsigned long long x, int n) {{
          using M = tcprobe::{identifier(row.id)};
          typename M::D::word d[M::D::registers] = {{}};
          for (int j = 0; j < n; ++j, x += 64) {{
            M::fence_operand(d); M::fence(); {step} M::commit_group(); M::wait_group(); M::fence_operand(d);
          }}
          for (int j = 0; j < M::D::registers; ++j) to[128 * j + threadIdx.x] = d[j];
        }}""")
    (tmp_path / "layouts.h").write_text(header(found))
    (tmp_path / "k.cu").write_text('#include "layouts.h"\n' + "\n".join(loops))
    command = ["nvcc", "-std=c++17", "-arch=sm_90a", "-cubin", "-Xptxas", "-v", "k.cu", "-o", "k.cubin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "C75" not in done.stderr + done.stdout
    assert "warning" not in done.stderr + done.stdout


# on the host: what the asm is given, by all threads

BODY = """
  using M = tcprobe::{name};
  {declared}
  {call}
  struct {{ typename M::D::word d[M::D::registers]; long long seen[{count}]; }} own;
  memcpy(own.d, d, sizeof d); memcpy(own.seen, seen[running], sizeof own.seen);
  memcpy(output + running * ({bytes}), own.d, sizeof own.d);
  memcpy(output + running * ({bytes}) + sizeof own.d, own.seen, sizeof own.seen);
"""


def arguments(row, held):
    """(C++ values, template arguments, what the asm is given in PTX's order) but for arrays; `held`: A in registers."""
    chosen, given = [], []
    for fragment in [f for f in row.spelled if f.selectors]:
        picks = fragment.held.picked(fragment.selectors[-1])
        chosen += picks.values()
        given.append((100 + len(given), list(picks.values())))
    if not row.described:
        return chosen, given, [], []
    after, before = [], []
    if dtype(row.type("d")).is_float:
        after += [-1, 1]
        chosen += [-1, 1]
    if len(row.described[0].held.majors) > 1:
        chosen += [0 if held else 1, 1]
        after += [1] if held else [1, 1]
    return chosen, given, before, after


def call_case(row, cells, held=True):
    """The function with a number of its own in each register of each thread."""
    names = [f for f in row.spelled if not f.selectors]
    arrays = {f.operand: f for f in names if not (row.described and f.operand == "a" and not held)}
    declared, numbers, first = [], {}, 1
    for operand, f in arrays.items():
        declared.append(f"typename M::{operand.upper()}::word {operand}[{f.registers}];")
        numbers[operand] = [first + j for j in range(f.registers)]
        declared += [f"{operand}[{j}] = {first + j} + 200 * running;" for j in range(f.registers)]
        first += f.registers
    chosen, selected, _, after = arguments(row, held)
    template = f"<{', '.join(map(str, chosen))}>" if chosen else ""
    per_thread = lambda values: [[v + 200 * t for v in values] for t in range(row.threads)]  # noqa: E731
    factors = [] if row.described else [numbers[o] for o in "abc"]
    wanted = [[n for values in factors for n in per_thread(values)[t]] for t in range(row.threads)]
    extra = [f"{number}u" for number, _ in selected]
    fixed = [n for number, picks in selected for n in (number, *picks)]
    if row.described:
        a = "a" if held else "77ull"
        call_ = f"M::mma{template}({', '.join(['d', a, '88ull', *extra, '1'])});"
        held_a = per_thread(numbers["a"]) if held else [[77]] * row.threads
        wanted = [[1, *held_a[t], 88, *fixed, *after] for t in range(row.threads)]
    else:
        call_ = f"M::mma{template}({', '.join(['d', 'a', 'b', 'c', *extra])});"
        wanted = [[*values, *fixed] for values in wanted]
    d = row.fragment("d")
    bits = np.arange(1000, 1000 + d.registers, dtype=np.uint64 if d.register_bits == 64 else np.uint32)
    rows = [bits.tobytes() + np.array(values, np.int64).tobytes() for values in wanted]
    body = BODY.format(
        name=f"{cells[0].arch}::{identifier(row.id)}",
        declared=" ".join(declared),
        call=call_,
        count=len(wanted[0]),
        bytes=len(rows[0]),
    )
    what, code = f"{row.id} {'registers' if held else 'descriptors'}", "#define __CUDACC__\n" + header({row: cells})
    return emitted.Case(what, code, body, row.threads, b"", b"".join(rows))


MOVE = """
  using M = tcprobe::{name};
  using P = tcprobe::{address};
  unsigned address = P::read(running) ? 16 * P::row(running, 0) : 0;
  {rest}
"""


def move_case(row, cells):
    """ldmatrix and stmatrix by the addresses of their table, movmatrix; each element is a number of its own."""
    by_operand = {cell.fragment.operand: cell for cell in cells}
    name = f"{cells[0].arch}::{identifier(row.id)}"
    if row.family == "movmatrix":
        a, d = by_operand["a"], by_operand["d"]
        rest = "unsigned a[1], d[1]; memcpy(a, MINE(input, a), 4); M::movmatrix(d, a); memcpy(MINE(output, d), d, 4);"
        body = f"using M = tcprobe::{name}; {rest}"
        given, wanted = halves(a), halves(d)
        return emitted.Case(row.id, "#define __CUDACC__\n" + header({row: cells}), body, 32, given, wanted)
    held = by_operand["d" if row.family == "ldmatrix" else "a"]
    count, image = held.fragment.registers, np.arange(held.fragment.rows * held.fragment.cols, dtype=np.uint16)
    if row.family == "ldmatrix":
        rest = (
            f"if (!running) memcpy(memory, input, {image.nbytes}); meet(0); unsigned d[{count}]; "
            "M::ldmatrix(d, address); memcpy(MINE(output, d), d, sizeof d);"
        )
        given, wanted = image.tobytes(), halves(held)
    else:
        rest = f"unsigned a[{count}]; memcpy(a, MINE(input, a), sizeof a); M::stmatrix(address, a);"
        given, wanted = halves(held), image.tobytes()
    body = MOVE.format(name=name, address=f"{cells[0].arch}::{cell_identifier(by_operand['address'])}", rest=rest)
    made = "output" if row.family == "ldmatrix" else "memory"
    return emitted.Case(row.id, "#define __CUDACC__\n" + header({row: cells}), body, 32, given, wanted, made)


def halves(cell):
    """What all lanes hold of a matrix whose elements are numbered row by row."""
    return np.array([r * cell.fragment.cols + c for r, c in cell.table.cells], np.uint16).tobytes()


@pytest.mark.full
@gcc
def test_all_threads_give_the_asm_what_ptx_wants_in_its_order(tmp_path, request):
    rows = ROWS if request.config.getoption("--all") else one_of_each(lambda i: (i.family, i.operands[0].type, i.kind))
    cases, families = [], set()
    for row in [row for row in rows if row.multiplies and row.fragment("d").registers <= 128]:
        name = next((a.name for a in reversed(ARCHS) if row.target.on(a) and tables(row, a.name)), None)
        if name:
            families.add(row.family)
            cases += [call_case(row, tables(row, name), held) for held in ((True, False) if row.described else (True,))]
    tried = emitted.tried(tmp_path, cases)
    print(tried, sorted(families))
    assert tried.wrong == []
    assert families == {row.family for row in ROWS if row.multiplies}


@pytest.mark.full
@gcc
def test_all_lanes_move_matrices_by_the_emitted_addresses(tmp_path):
    rows = [row for row in ROWS if not row.multiplies and row.name.endswith("b16")]
    cases = [move_case(row, tables(row, "sm_90")) for row in rows]
    tried = emitted.tried(tmp_path, cases)
    print(tried)
    assert tried.wrong == []
    assert tried.functions == 13


# scales


@pytest.mark.full
@gcc
def test_scales_are_where_the_tables_say(tmp_path):
    cells = [cell for cell in emitted.of_role(Role.SCALE) if cell.fragment.role is Role.SCALE]
    cases = []
    for cell in cells:
        f = cell.fragment
        scale = (np.arange(f.rows * f.cols) + 7).astype(np.uint8)
        slots = [0 if place is None else scale[place[0] * f.cols + place[1]] for place in cell.table.cells]
        struct = f"tcprobe::{cell.arch}::{cell_identifier(cell)}"
        body = f"const unsigned own[1] = {{tcprobe::scales<{struct}>(running, input)}};"
        body += " memcpy(MINE(output, own), own, sizeof own);"
        cases.append(
            emitted.Case(
                cell_identifier(cell),
                emit.emit("cuda", [cell]),
                body,
                32,
                scale.tobytes(),
                np.array(slots, np.uint8).tobytes(),
            )
        )
    tried = emitted.tried(tmp_path, cases)
    assert tried.wrong == []
    assert tried.functions >= 20
