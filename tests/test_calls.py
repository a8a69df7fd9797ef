"""`emit INSTRUCTION --to cuda` has functions: compiled for every arch that has them, run on the host, disassembled."""

import re
import shutil
import subprocess

import emitted
import nvrtc
import pytest
from call_rows import NVRTC_PTX, ROWS, function_name, header, on, tables
from machine_code import TOOLS, needs_tools

from tcprobe.code.names import identifier
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.operand import Role
from tcprobe.probes.ptx import Kernel
from tcprobe.sass import lowering
from tcprobe.sass.cubin import assemble

consumers = pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC here")


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
