"""`load --repack`: packers are run, and all threads run the code that loads and converts, for every code in every slot.

What a code is worth comes from ml_dtypes and NumPy; which element a slot holds, from the table.
"""

import itertools
import re

import emitted
import host_cuda
import numpy as np
import nvrtc
import pytest
from repacked import (
    ARCHITECTURES,
    CONVERT_OF,
    F16,
    NAN,
    SCALE_OF,
    case,
    factors,
    needs_compiler,
    patterns,
    plans,
    worth,
)

from tcprobe.ask.load import repack_code
from tcprobe.ask.load.repack import repack, with_zeros
from tcprobe.code import dequantize
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import Role
from tcprobe.store.cell import load as table


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize(("group", "zeros"), [(False, False), (True, False), (True, True)])
def test_every_thread_gets_every_code_in_every_slot(tmp_path, sample, group, zeros):
    cases = [case(plan, tmp_path) for plan in plans(sample(factors(), 6, emitted.spread), group, zeros)]
    found = emitted.tried(tmp_path, cases)
    print(f"load --repack, groups {group}, zero points {zeros}: {found}")
    assert found.wrong == []
    assert found.functions >= (15 if group else 40)


SUMS = """float held[{name}::GROUPS][{name}::SCALES], sums[{name}::SUMS];
  {kind} d[{name}::SUMS];
  {name}::load_scales(input, {lines}, 1, 1, running, held);
  memcpy(d, MINE(input + {at}, d), sizeof d);
  for (int j = 0; j < {name}::SUMS; ++j) sums[j] = 1;
  for (int g = 0; g < {name}::GROUPS; ++g) {name}::add(held[g], d, sums);
  memcpy(MINE(output, sums), sums, sizeof sums);"""
SUMMED = (
    ("mma.m16n8k32.row.col.s32.s8.s8.s32.b", "sm_80", "s4", 64),
    ("mma.m8n8k16.row.col.s32.s8.s8.s32.b", "sm_75", "s8", 16),
    ("mma.m16n8k32.row.col.s32.s8.s8.s32.a", "sm_90", "u4", 128),
    ("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.b", "sm_89", "e4m3", 64),
    ("wgmma.mma_async.m64n16k32.s32.s8.s8.a", "sm_90", "s4", 32),
)


def summed(name, target, stored, group):
    """Block (1, 1)'s scales, powers of two, times D, summed over the groups of a block."""
    plan = repack(table(name, target), stored, None, group)
    d, rng = plan.sums, np.random.default_rng(6)
    axis = "row" if plan.cell.fragment.operand == "a" else "col"
    line = np.array(d.table.values[axis]).reshape(d.fragment.threads, -1)
    scales = 2.0 ** rng.integers(-3, 4, (2 * max(plan.k // group, 1), 2 * plan.lines))
    kind = np.int32 if d.fragment.type == "s32" else np.float32
    held = rng.integers(-1000, 1000, line.shape).astype(kind)
    rows = scales[plan.k // group :][: plan.groups]
    wanted = 1 + sum(row[plan.lines + line] * held for row in rows)
    struct = f"{target}::{repack_code.name(plan)}"
    data = scales.astype(np.float32).tobytes()
    body = SUMS.format(name=struct, kind="int" if kind is np.int32 else "float", lines=2 * plan.lines, at=len(data))
    code = f"namespace {target} {{ {repack_code.source(plan)} }}"
    return emitted.Case(
        name, code, body, d.fragment.threads, data + held.tobytes(), wanted.astype(np.float32).tobytes()
    )


@pytest.mark.parametrize(("name", "target", "stored", "group"), SUMMED)
def test_the_compiler_takes_scales_of_sums(name, target, stored, group):
    plan = repack(table(name, target), stored, None, group)
    kind = "int" if plan.sums.fragment.type == "s32" else "float"
    text = (
        repack_code.source(plan)
        + f"""
extern "C" __global__ void kernel(const float* scales, const {kind} (*d)[{plan.sums.fragment.registers}], float* out) {{
  using P = {repack_code.name(plan)};
  float held[P::GROUPS][P::SCALES], sums[P::SUMS] = {{}};
  P::load_scales(scales, 64, 1, 1, threadIdx.x, held);
  P::add(held[0], d[threadIdx.x], sums);
  for (int j = 0; j < P::SUMS; ++j) out[threadIdx.x * P::SUMS + j] = sums[j];
}}
"""
    )
    if (library := nvrtc.library()) is None:
        pytest.skip("NVRTC is not installed")
    assert nvrtc.compile_cuda(library, text, f"-arch={target}", "-std=c++17") == (True, "")


@pytest.mark.full
@needs_compiler
def test_scales_of_sums(tmp_path):
    found = emitted.tried(tmp_path, [summed(*one) for one in SUMMED])
    assert found.wrong == []


@pytest.mark.full
@needs_compiler
def test_a_spoilt_word_is_noticed(tmp_path):
    right = case(repack(table(f"{F16}.b", "sm_80"), "s4"), tmp_path)
    wrong = right._replace(code=right.code.replace("0x64086408u", "0x64096409u"))
    assert emitted.tried(tmp_path, [right]).wrong == []
    assert emitted.tried(tmp_path, [wrong]).wrong == [wrong.of]


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize("constant", ["0x64006400u;", "0x63806380u", "0x2c002c00u"])
def test_a_spoilt_zero_point_is_noticed(tmp_path, constant):
    right = case(with_zeros(repack(table(f"{F16}.b", "sm_80"), "u4", None, 32)), tmp_path)
    spoilt = f"{int(constant[:10], 16) + 1:#010x}{constant[10:]}"
    wrong = right._replace(code=right.code.replace(constant, spoilt))
    assert emitted.tried(tmp_path, [right]).wrong == []
    assert emitted.tried(tmp_path, [wrong]).wrong == [wrong.of]


CONVERSIONS = list(
    {
        dequantize.conversion(stored, target, arch)._replace(needs=None): None
        for arch, (stored, target) in itertools.product(
            ARCHS, itertools.product(dequantize.STORED, ("f16", "bf16", "s8", "u8"))
        )
        if target in dequantize.targets(stored) and target != stored
    }
)


def functions(way):
    return "\n".join(line for name in way.functions for line in repack_code._function(name)).replace(
        repack_code.HEAD, "static"
    )


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize("way", CONVERSIONS, ids=lambda w: f"{w.source}-{w.target}-{w.instructions}")
def test_every_code_in_every_place_beside_every_other(tmp_path, way):
    """Each code in each place of a word, the other places holding random ones, and each code in all places."""
    bits = dtype(way.source).bits
    count, rng = 1 << bits, np.random.default_rng(1)
    codes = rng.integers(0, count, (way.codes + 1, count, way.codes))
    for place in range(way.codes):
        codes[place, :, place] = np.arange(count)
    codes[-1] = np.arange(count)[:, None]
    codes[np.isin(codes, NAN if way.source == "e4m3" else ())] = 0
    codes = codes.reshape(-1, way.codes)
    at, flipped = np.array(way.places), codes ^ way.flip
    words = ((flipped[..., None] >> np.arange(bits) & 1).astype(np.uint64) << at.astype(np.uint64)).sum((1, 2))
    wanted = patterns(worth(way.source)[codes], way.target).tobytes()
    size = len(words)
    body = f"""void work_() {{ for (int j = 0; j < {size}; ++j) {{
      const unsigned word = ((unsigned*)input)[j]; unsigned to[{way.registers}]; {" ".join(way.lines)}
      memcpy(output + j * sizeof to, to, sizeof to); }} }}"""
    call = f"step(1, {4 * size}, {len(wanted)}, output, work_);"
    given = words.astype(np.uint32).tobytes()
    assert host_cuda.execute(tmp_path, [functions(way), body], [call], given) == wanted


def test_conversions_are_all_there():
    """Two ways each for the types that later archs convert themselves."""
    names = sorted((way.source, way.target) for way in CONVERSIONS)
    assert len(set(names)) == 13
    assert [name for name in set(names) if names.count(name) == 2] in (
        [("e4m3", "f16"), ("e2m1", "f16")],
        [("e2m1", "f16"), ("e4m3", "f16")],
    )
    counts = {(way.source, way.target): (way.instructions, way.codes) for way in reversed(CONVERSIONS)}
    assert counts["s4", "f16"] == (9, 8)
    assert counts["s4", "s8"] == (5, 8)
    assert counts["s8", "bf16"] == (6, 4)
    assert counts["e4m3", "f16"] == (7, 4)


@pytest.mark.parametrize("way", CONVERSIONS, ids=lambda w: f"{w.source}-{w.target}-{w.instructions}")
def test_a_word_has_every_bit_of_its_codes_once(way):
    assert sorted(itertools.chain.from_iterable(way.places)) == list(range(32))


# the compiler


def of_every_kind(name):
    """A factor of each family, operand and type that an arch has."""
    found = {}
    for cell in emitted.on(name):
        if cell.fragment.role is Role.FACTOR:
            found.setdefault((cell.fragment.family, cell.fragment.operand, cell.fragment.type), cell)
    return list(found.values())


def kernels(name):
    """A kernel for every family, operand, type and stored type of an arch, and scales where there are."""
    cells = of_every_kind(arch(name).name)
    for number, plan in enumerate(itertools.chain(plans(cells), plans(cells, True), plans(cells, True, True))):
        struct = repack_code.name(plan)
        scale = (
            f"unsigned h[{struct}::GROUPS][{struct}::SCALES]; {struct}::load_scales(w, 64, 1, 2, t, h); "
            f"{struct}::scale(h, r);"
            if plan.group
            else ""
        )
        convert = f"{struct}::convert(words, r);"
        if plan.zeros:
            convert = f"""unsigned z[{struct}::GROUPS][{struct}::SCALES][{struct}::ZEROS];
  {struct}::load_zeros(w, 64, 1, 2, t, z);
  {struct}::convert(words, z, r);"""
        yield (
            repack_code.source(plan)
            + f"""
extern "C" __global__ void kernel{number}(const void* w, unsigned (*out)[{struct}::STEPS][{struct}::REGISTERS]) {{
  const unsigned t = threadIdx.x;
  unsigned words[{struct}::WORDS], r[{struct}::STEPS][{struct}::REGISTERS];
  {struct}::load(w, 3, t, words);
  {convert}
  {scale}
  for (int s = 0; s < {struct}::STEPS; ++s)
    for (int j = 0; j < {struct}::REGISTERS; ++j) out[t][s][j] = r[s][j];
}}
"""
        )


@pytest.mark.full
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_compiler_takes_it_without_a_word(name):
    library = nvrtc.library()
    if library is None:
        pytest.skip("NVRTC is not installed")
    made = list(kernels(name))
    assert len(made) >= (8 if name == "sm_75" else 14)
    assert nvrtc.compile_cuda(library, "\n".join(made), f"-arch={name}", "-std=c++17") == (True, "")


ON_GPU = """
extern "C" __global__ void on_gpu{number}(const unsigned char* input, unsigned* output) {{
  using P = {name};
  const unsigned t = threadIdx.x, b = blockIdx.x;
  unsigned words[P::WORDS], registers[P::STEPS][P::REGISTERS];
  P::load(input, b, t, words);
  {convert}
  {scale}
  for (int s = 0; s < P::STEPS; ++s)
    for (int j = 0; j < P::REGISTERS; ++j)
      output[((b * {threads} + t) * P::STEPS + s) * P::REGISTERS + j] = registers[s][j];
}}
"""


def on_gpu(number, plan, one):
    scale = re.sub("running", "t", SCALE_OF.findall(one.body)[0]) if plan.group else ""
    convert = re.sub("running", "t", CONVERT_OF.findall(one.body)[0])
    name = f"{plan.cell.arch}::{repack_code.name(plan)}"
    return ON_GPU.format(number=number, name=name, threads=one.threads, scale=scale, convert=convert)


@pytest.mark.gpu
@pytest.mark.parametrize(("group", "zeros"), [(False, False), (True, False), (True, True)])
def test_the_gpu_gets_every_code_in_every_slot(tmp_path, group, zeros):
    """Of a fragment of each family, operand and type that the GPU has, all stored types."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    device = arch(gpu.devices()[0].arch)
    gpu.open(0)
    tried = list(plans(of_every_kind(device.name), group, zeros))
    cases = [case(plan, tmp_path) for plan in tried]
    texts = [one.code + on_gpu(number, plan, one) for number, (plan, one) in enumerate(zip(tried, cases, strict=True))]
    gpu.compile_cuda("\n".join(texts), [f"on_gpu{number}" for number in range(len(cases))], device.targets[-1])
    for number, (plan, one) in enumerate(zip(tried, cases, strict=True)):
        output = np.zeros(len(one.wanted), np.uint8)
        blocks = len(one.wanted) // (4 * one.threads * plan.steps * plan.cell.fragment.registers)
        gpu.call(f"on_gpu{number}", blocks, [np.frombuffer(one.given, np.uint8)], output, (one.threads, 0))
        assert output.tobytes() == one.wanted, one.of
    print(f"on the GPU, groups {group}, zero points {zeros}: {len(cases)} fragments with stored types, all right")
    assert len(cases) >= 10
