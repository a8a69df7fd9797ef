"""`load --repack`: packers are run, and all threads run the code that loads and converts, for every code in every slot.

What a code is worth comes from ml_dtypes and NumPy; which element a slot holds, from the table.
"""

import importlib.util
import itertools
import json
import re
import shutil

import emitted
import host_cuda
import ml_dtypes
import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner

from tcprobe.ask.repack import cuda, python, repack
from tcprobe.cli import main
from tcprobe.code import dequantize
from tcprobe.errors import UsageError
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import Role
from tcprobe.store.cell import load as table

F16 = "mma.m16n8k16.row.col.f32.f16.f16.f32"
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
NAN = (0x7F, 0xFF)  # of e4m3
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def worth(stored):
    """The value of every code; NaN is 0, as no packer takes one."""
    bits = dtype(stored).bits
    codes = np.arange(1 << bits, dtype=np.uint8)
    if stored in ("s4", "s8"):
        return ((codes.astype(int) ^ 1 << bits - 1) - (1 << bits - 1)).astype(float)
    if stored == "u4":
        return codes.astype(float)
    known = codes.view(ml_dtypes.float8_e4m3fn) if stored == "e4m3" else codes.view(ml_dtypes.float4_e2m1fn)
    return np.nan_to_num(known.astype(float), nan=0.0)


def patterns(values, target):
    """The bits of values in a type, which has to hold them exactly; those of 16 bits as uint16, of 8 as uint8."""
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8}[target]
    made = values.astype(kind)
    assert (made.astype(float) == values).all()
    return made.view(np.uint8 if made.itemsize == 1 else np.uint16)


def as_given(stored, codes):
    """What a packer takes for codes."""
    return worth(stored).astype(int)[codes] if not dtype(stored).is_float else codes


def module(plan, packer, folder):
    """The module that is printed."""
    file = folder / f"{packer}_packer.py"
    file.write_text(python.source(plan, packer))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def plans(cells, group=False):
    """Every stored type for each fragment."""
    for cell, stored in itertools.product(cells, dequantize.STORED):
        try:
            plan = repack(cell, stored)
            if not group or cell.fragment.type in ("f16", "bf16"):
                yield repack(cell, stored, None, plan.k // 2 if plan.steps > 1 else plan.k) if group else plan
        except UsageError:
            continue


def factors():
    return [cell for cell in emitted.cells() if cell.fragment.role is Role.FACTOR]


def every_code(plan):
    """Codes (k, lines) of as many blocks along k as there are codes: every slot of a block has each once."""
    stored = plan.conversion.source
    count = 1 << dtype(stored).bits
    at = np.random.default_rng(2).integers(0, count, (plan.k, plan.lines))
    codes = (at[None] + np.arange(count)[:, None, None]) % count
    if stored == "e4m3" and plan.conversion.target != stored:
        codes[np.isin(codes, NAN)] = 0
    return codes.reshape(-1, plan.lines)


def seen_by_threads(plan, values):
    """What each register's elements are, [block, thread, step, slot], of a matrix (k, lines)."""
    fragment, cells = plan.cell.fragment, plan.cell.table.cells
    row, col = np.array(cells).reshape(fragment.threads, fragment.elements, -1)[..., :2].transpose(2, 0, 1)
    depth, line = (col, row) if fragment.operand == "a" else (row, col)
    step = np.arange(plan.steps)[:, None] * plan.step_k
    blocks = values.reshape(-1, plan.k, plan.lines)
    return blocks[:, depth[:, None] + step, np.broadcast_to(line[:, None], (len(line), plan.steps, line.shape[1]))]


BODY = """for (int b = 0; b < {blocks}; ++b) {{
    unsigned words[{name}::WORDS], registers[{name}::STEPS][{name}::REGISTERS];
    {name}::load(input, b, running, words);
    {name}::convert(words, registers);
    {scale}
    memcpy(output + (b * {threads} + running) * sizeof registers, registers, sizeof registers);
  }}"""
SCALE_OF = re.compile(r"unsigned held.*?scale\(held, registers\);", re.DOTALL)
SCALE = """unsigned held[{name}::GROUPS][{name}::SCALES];
    {name}::load_scales(input + {at}, {lines}, b, 0, running, held);
    {name}::scale(held, registers);"""


def case(plan, folder):
    """All blocks loaded and converted, with scales where the plan has them."""
    codes, threads, target = every_code(plan), plan.cell.fragment.threads, plan.conversion.target
    given = as_given(plan.conversion.source, codes)
    words = module(plan, "numpy", folder).repack(given.T if plan.cell.fragment.operand == "a" else given)
    name = f"{plan.cell.arch}::{cuda.name(plan)}"
    data, scale = words.tobytes(), ""
    if plan.conversion.source == target:
        elements = seen_by_threads(plan, codes)
        wanted = emitted.packed(elements, dtype(target).bits, np.uint32).tobytes()
    else:
        values = worth(plan.conversion.source)[codes]
        if plan.group:
            kind = np.float16 if target == "f16" else ml_dtypes.bfloat16
            factor = np.random.default_rng(4).uniform(0.01, 2, (len(codes) // plan.group, plan.lines)).astype(kind)
            values = (values.astype(kind) * np.repeat(factor, plan.group, 0)).astype(float)
            scale = SCALE.format(name=name, at=len(data), lines=plan.lines)
            data += factor.tobytes()
        wanted = patterns(seen_by_threads(plan, values), target).tobytes()
    body = BODY.format(blocks=len(codes) // plan.k, name=name, threads=threads, scale=scale)
    what = f"{plan.cell.fragment.id} of {plan.conversion.source}, {plan.group}"
    code = f"namespace {plan.cell.arch} {{ {cuda.source(plan)} }}"
    return emitted.Case(what, code, body, threads, data, wanted)


@needs_compiler
@pytest.mark.parametrize("group", [False, True])
def test_every_thread_gets_every_code_in_every_slot(tmp_path, sample, group):
    cases = [case(plan, tmp_path) for plan in plans(sample(factors(), 6, emitted.spread), group)]
    found = emitted.tried(tmp_path, cases)
    print(f"load --repack, groups {group}: {found}")
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
    struct = f"{target}::{cuda.name(plan)}"
    data = scales.astype(np.float32).tobytes()
    body = SUMS.format(name=struct, kind="int" if kind is np.int32 else "float", lines=2 * plan.lines, at=len(data))
    code = f"namespace {target} {{ {cuda.source(plan)} }}"
    return emitted.Case(
        name, code, body, d.fragment.threads, data + held.tobytes(), wanted.astype(np.float32).tobytes()
    )


@pytest.mark.parametrize(("name", "target", "stored", "group"), SUMMED)
def test_the_compiler_takes_scales_of_sums(name, target, stored, group):
    plan = repack(table(name, target), stored, None, group)
    kind = "int" if plan.sums.fragment.type == "s32" else "float"
    text = (
        cuda.source(plan)
        + f"""
extern "C" __global__ void kernel(const float* scales, const {kind} (*d)[{plan.sums.fragment.registers}], float* out) {{
  using P = {cuda.name(plan)};
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


@needs_compiler
def test_scales_of_sums(tmp_path):
    found = emitted.tried(tmp_path, [summed(*one) for one in SUMMED])
    assert found.wrong == []


@needs_compiler
def test_a_spoilt_word_is_noticed(tmp_path):
    right = case(repack(table(f"{F16}.b", "sm_80"), "s4"), tmp_path)
    wrong = right._replace(code=right.code.replace("0x64086408u", "0x64096409u"))
    assert emitted.tried(tmp_path, [right]).wrong == []
    assert emitted.tried(tmp_path, [wrong]).wrong == [wrong.of]


CONVERSIONS = list({dequantize.conversion(stored, target, arch)._replace(needs=None): None
                    for arch, (stored, target) in itertools.product(ARCHS, itertools.product(
                        dequantize.STORED, ("f16", "bf16", "s8", "u8")))
                    if target in dequantize.targets(stored) and target != stored})  # fmt: skip


def functions(way):
    return "\n".join(line for name in way.functions for line in cuda._function(name)).replace(cuda.HEAD, "static")


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
    assert [name for name in set(names) if names.count(name) == 2] in ([("e4m3", "f16"), ("e2m1", "f16")],
                                                                      [("e2m1", "f16"), ("e4m3", "f16")])  # fmt: skip
    counts = {(way.source, way.target): (way.instructions, way.codes) for way in reversed(CONVERSIONS)}
    assert counts["s4", "f16"] == (9, 8)
    assert counts["s4", "s8"] == (5, 8)
    assert counts["s8", "bf16"] == (6, 4)
    assert counts["e4m3", "f16"] == (7, 4)


@pytest.mark.parametrize("way", CONVERSIONS, ids=lambda w: f"{w.source}-{w.target}-{w.instructions}")
def test_a_word_has_every_bit_of_its_codes_once(way):
    assert sorted(itertools.chain.from_iterable(way.places)) == list(range(32))


# packers


def any_weights(plan, seed=0):
    """Codes of two by three blocks, as the packer takes them."""
    stored, rng = plan.conversion.source, np.random.default_rng(seed)
    codes = rng.integers(0, (1 << dtype(stored).bits) - 1, (2 * plan.k, 3 * plan.lines))
    given = as_given(stored, codes % NAN[0] if stored == "e4m3" else codes)
    return given.T if plan.cell.fragment.operand == "a" else given


def test_packers_lead_back(tmp_path, sample):
    tried = 0
    for plan in plans(sample(factors(), 5, emitted.spread)):
        packer, weights = module(plan, "numpy", tmp_path), any_weights(plan)
        words = packer.repack(weights)
        assert (words.dtype, words.shape) == (np.uint32, (2, 3, plan.places, plan.words))
        assert np.array_equal(packer.unpack(words), weights), plan.cell.fragment.id
        tried += 1
    assert tried > 60


def test_torch_packs_as_numpy_does(tmp_path, sample):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its packer cannot be run")
    for plan in plans(sample(factors(), 9, emitted.spread)):
        weights = any_weights(plan)
        words = module(plan, "numpy", tmp_path).repack(weights)
        packer = module(plan, "torch", tmp_path)
        found = packer.repack(torch.from_numpy(np.ascontiguousarray(weights)))
        assert np.array_equal(found.numpy().view(np.uint32), words)
        assert np.array_equal(packer.unpack(found).numpy(), weights)


@pytest.mark.parametrize(
    ("stored", "weights", "words"),
    [
        ("s4", np.zeros((100, 8), int), "k is 100, no multiple of 128; the nearest is 128"),
        ("s4", np.zeros((290, 8), int), "the nearest is 256"),
        ("s4", np.zeros((128, 12), int), "n is 12, no multiple of 8; the nearest is 8"),
        ("s4", np.full((128, 8), 8), "from -8 to 7"),
        ("u4", np.full((128, 8), -1), "from 0 to 15"),
        ("s4", np.zeros((128, 8)), "whole numbers, not float64"),
        ("e4m3", np.full((64, 8), 0xFF), "NaN"),
        ("e2m1", np.zeros((128, 8), ml_dtypes.float4_e2m1fn), "view them as uint8"),
        ("s4", np.zeros(128, int), "are a matrix"),
    ],
)
def test_what_cannot_be_packed(tmp_path, stored, weights, words):
    packer = module(repack(table(f"{F16}.b", "sm_80"), stored), "numpy", tmp_path)
    with pytest.raises(ValueError, match=words):
        packer.repack(weights)


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
    for number, plan in enumerate(itertools.chain(plans(cells), plans(cells, group=True))):
        struct = cuda.name(plan)
        scale = f"unsigned h[{struct}::GROUPS][{struct}::SCALES]; {struct}::load_scales(w, 64, 1, 2, t, h); " \
                f"{struct}::scale(h, r);" if plan.group else ""  # fmt: skip
        yield (
            cuda.source(plan)
            + f"""
extern "C" __global__ void kernel{number}(const void* w, unsigned (*out)[{struct}::STEPS][{struct}::REGISTERS]) {{
  const unsigned t = threadIdx.x;
  unsigned words[{struct}::WORDS], r[{struct}::STEPS][{struct}::REGISTERS];
  {struct}::load(w, 3, t, words);
  {struct}::convert(words, r);
  {scale}
  for (int s = 0; s < {struct}::STEPS; ++s)
    for (int j = 0; j < {struct}::REGISTERS; ++j) out[t][s][j] = r[s][j];
}}
"""
        )


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
  P::convert(words, registers);
  {scale}
  for (int s = 0; s < P::STEPS; ++s)
    for (int j = 0; j < P::REGISTERS; ++j)
      output[((b * {threads} + t) * P::STEPS + s) * P::REGISTERS + j] = registers[s][j];
}}
"""


def on_gpu(number, plan, one):
    scale = re.sub("running", "t", SCALE_OF.findall(one.body)[0]) if plan.group else ""
    return ON_GPU.format(number=number, name=f"{plan.cell.arch}::{cuda.name(plan)}", threads=one.threads, scale=scale)


@pytest.mark.gpu
@pytest.mark.parametrize("group", [False, True])
def test_the_gpu_gets_every_code_in_every_slot(tmp_path, group):
    """Of a fragment of each family, operand and type that the GPU has, all stored types."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    device = arch(gpu.devices()[0].arch)
    gpu.open(0)
    tried = list(plans(of_every_kind(device.name), group))
    cases = [case(plan, tmp_path) for plan in tried]
    texts = [one.code + on_gpu(number, plan, one) for number, (plan, one) in enumerate(zip(tried, cases, strict=True))]
    gpu.compile_cuda("\n".join(texts), [f"on_gpu{number}" for number in range(len(cases))], device.targets[-1])
    for number, (plan, one) in enumerate(zip(tried, cases, strict=True)):
        output = np.zeros(len(one.wanted), np.uint8)
        blocks = len(one.wanted) // (4 * one.threads * plan.steps * plan.cell.fragment.registers)
        gpu.call(f"on_gpu{number}", blocks, [np.frombuffer(one.given, np.uint8)], output, (one.threads, 0))
        assert output.tobytes() == one.wanted, one.of
    print(f"on the GPU, groups {group}: {len(cases)} fragments with stored types, all right")
    assert len(cases) >= 10


# the command


def asked(*arguments, code=0):
    done = CliRunner().invoke(main, ["load", *arguments])
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done.stdout if code == 0 else " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([f"{F16}.b", "--repack"], "say what the weights are stored as"),
        ([f"{F16}.b", "--type", "s4"], "give --repack too"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--ld", "64"], "an order of their own"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--global", "row"], "an order of their own"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--as", "bf16"], "that does: mma.m16n8k16.row.col.f32.bf16"),
        ([f"{F16}.d", "--repack", "--type", "s4"], "result, not A or B"),
        ([f"{F16}.b", "--repack", "--type", "f16"], "known: s4, u4, s8, e4m3, e2m1"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--group", "100"], "128 does, as do 16, 32, 64, 128"),
        (["mma.m16n8k64.row.col.s32.s4.s4.s32.b", "--repack", "--type", "s8"], "s8 has 8 bits, s4 only 4"),
        (["mma.m16n8k32.row.col.s32.s8.s8.s32.b", "--repack", "--type", "e4m3"], "s8 takes s4, u4, s8. The nearest"),
        (["wmma.m16n16k16.a.row.s8", "--repack", "--type", "s4", "--group", "64"], "several multiplies take"),
        (["mma.m8n8k4.row.col.f32.f16.f16.f32.b", "--repack", "--type", "s8", "--arch", "sm_70"], "holds 4 products"),
        ([f"{F16}.b", "--repack", "--type", "s4", "--packer", "numpy", "--code"], "does not go with --packer"),
    ],
)  # fmt: skip
def test_refusals(arguments, words):
    assert words in asked(*arguments, code=2)


def test_the_answer():
    text = asked(f"{F16}.b", "--repack", "--type", "s4", "--group", "128", "--arch", "sm_80")
    for words in ("8 k steps in one 16-byte load", "9 instructions for 8 elements, 1.125 an element", "Marlin",
                  "each group of k has its scale", "one to one"):  # fmt: skip
        assert words in text
    assert "ldmatrix" not in text


def test_ldmatrix_as_the_other_way():
    name = "mma.m16n8k32.row.col.s32.s8.s8.s32.b"
    assert "ldmatrix.m8n16.x4.shared.s8.s4" in asked(name, "--repack", "--type", "s4", "--arch", "sm_90")
    assert "ldmatrix" not in asked(name, "--repack", "--type", "s4", "--arch", "sm_80")
    assert "ldmatrix" not in asked(name, "--repack", "--type", "u4", "--arch", "sm_90")


def test_json_says_where_every_bit_is():
    answer = json.loads(asked(f"{F16}.b", "--repack", "--type", "s4", "--arch", "sm_80", "--json"))
    bits = [32 * word + bit for _, _, _, word, places in answer["order"] for bit in places]
    assert sorted(bits) == list(range(128))
    assert answer["place"] == list(range(32))
    assert (answer["block"]["k"], answer["block"]["lines"], answer["flip"]) == (128, 8, 8)


def test_names_of_the_code():
    text = asked(f"{F16}.b", "--repack", "--type", "s4", "--code", "--name", "Weights", "--namespace", "mine::own")
    assert "namespace mine::own {" in text
    assert "struct Weights {" in text
    assert "repacked_s4" not in text
