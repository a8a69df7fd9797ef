"""`tcprobe kernel gemm`: it compiles for every arch, multiplies on the host exactly, and refuses with what there is."""

import re
import shutil
import subprocess

import host_cuda
import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import is_native
from tcprobe.kernel import wgmma
from tcprobe.kernel.explain import explain
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.kernel.mma_sync import MULTIPLIES
from tcprobe.store.results import published

NUMBERS = [device.number for device in ARCHS]
TYPES = [(number, kind) for number in NUMBERS for kind, ways in MULTIPLIES.items() if ways[-1][0] <= number]
HOST = """
struct { unsigned x, y, z; } blockIdx, gridDim;
struct uint4 { unsigned x, y, z, w; };
#define __global__
#define __launch_bounds__(...)
static void __syncthreads() { meet(0); }
static u64 __cvta_generic_to_shared(const void*) { return 64; }  // where no swizzle begins
#define smem (memory + 64)
template <class W, int R, int A, int B> void host_multiply(W (&d)[R], const unsigned (&a)[A], const unsigned (&b)[B]) {
  unsigned of_a[A][32], of_b[B][32];
  for (int r = 0; r < A; ++r) memcpy(of_a[r], widened(meet(a[r])), sizeof of_a[r]);
  for (int r = 0; r < B; ++r) memcpy(of_b[r], widened(meet(b[r])), sizeof of_b[r]);
  for (int i = 0; i < R; ++i)
    for (int k = 0; k < K; ++k) d[i] += element(of_a, SLOT_A[ROW[running % 32][i]][k]) *
                                        element(of_b, SLOT_B[k][COL[running % 32][i]]);
}
"""
COPY = """
__device__ inline void copy(unsigned to, const char* from, int left) {
  if (to % 16 || (left > 0 && reinterpret_cast<u64>(from) % 16)) std::abort();
  memset(memory + to, 0, 16);
  if (left > 0) memcpy(memory + to, from, left < 16 ? left : 16);
}
"""
ELEMENTS = """
static const unsigned* widened(const u64* all) {{
  static unsigned lanes[32];
  for (int lane = 0; lane < 32; ++lane) lanes[lane] = unsigned(all[first_lane() + lane]);
  return lanes;
}}
static int element(const unsigned (*registers)[32], int slot) {{  // whole numbers in place of the type
  const int lane = slot / 64, bit = slot % 64 * {bits};
  return int{bits}_t(registers[bit / 32][lane] >> bit % 32);
}}
"""


def tables(asked):
    """Where elements are, in C."""
    a, b, d = (asked.cell(name).table for name in "abd")
    m, n, k = asked.shape

    def slots(table, rows, cols):
        at = np.zeros((rows, cols), int)
        for number, (row, col) in enumerate(tuple(held[:2]) for held in table.cells):
            lane, i = divmod(number, table.elements)
            at[row, col] = lane * 64 + i
        return at

    places = np.array([held[:2] for held in d.cells]).reshape(32, -1, 2)
    arrays = {"SLOT_A": slots(a, m, k), "SLOT_B": slots(b, k, n), "ROW": places[..., 0], "COL": places[..., 1]}
    lines = [f"static const int K = {k};"]
    for name, values in arrays.items():
        rows = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in values.tolist())
        lines.append(f"static const int {name}[{len(values)}][{values.shape[1]}] = {{{rows}}};")
    return "\n".join(lines)


def on_the_host(made, sizes, lds):
    """The kernel for fibers: its copy and its multiply by what they are to do; and the calls for every block."""
    text = made.source.replace("extern __shared__ unsigned char smem[];", "").replace('extern "C" ', "")
    text = re.sub(r"__device__ inline void copy\(.*?\n}\n", lambda _: COPY, text, flags=re.DOTALL)
    text = re.sub(r"(inline void multiply\([^{]*{).*?\n}\n", r"\1 host_multiply(d, a, b); }\n", text, flags=re.DOTALL)
    text = re.sub(r'asm volatile\("cp.async.(commit|wait)[^;]*;" : : : "memory"\);', "", text)
    bits = dtype(made.gemm.type).bits
    head = [ELEMENTS.format(bits=bits), tables(made.gemm), HOST]
    m, n, k = sizes
    (across, down, _), given = made.grid(m, n), [0, m * lds[0] if made.gemm.a == "row" else k * lds[0]]
    call = f"{made.name}::{made.name}(input, input + {given[1]}, output, {m}, {n}, {k}, {lds[0]}, {lds[1]}, {lds[2]})"
    body = [f"gridDim = {{{across}, {down}, 1}};"]
    for block in range(across * down):
        body.append(
            f"blockIdx = {{{block % across}, {block // across}, 0}}; launch({made.block[0]}, [] {{ {call}; }});"
        )
    return "\n".join([*head, text]), body


def product(tmp_path, options, sizes):
    """(what the kernel writes, what it should), of small whole numbers in place of the type."""
    made, (m, n, k) = gemm(options), sizes
    rng, size = np.random.default_rng(5), dtype(options.type).bits // 8
    kind = {1: np.int8, 2: np.int16, 4: np.int32}[size]
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    images, lds = [], []
    for values in (a if options.a == "row" else a.T, b if options.b == "row" else b.T):
        ld = -(-values.shape[1] * size // 16) * 16 + 16
        image = np.full((len(values), ld), 0x55, np.uint8)
        image[:, : values.shape[1] * size] = np.ascontiguousarray(values.astype(kind)).view(np.uint8)
        images.append(image)
        lds.append(ld)
    lds.append(-(-n * 4 // 16) * 16 + 16)
    given = b"".join(image.tobytes() for image in images)
    code, body = on_the_host(made, sizes, lds)
    calls = [
        f"if (fread(input, 1, {len(given)}, stdin) != {len(given)}) std::abort();",
        f"memset(output, 0x55, {m * lds[2]});",
        *body,
        f"fwrite(output, 1, {m * lds[2]}, stdout);",
    ]
    out = np.frombuffer(host_cuda.execute(tmp_path, [code], calls, given), np.uint8).reshape(m, lds[2])
    assert (out[:, n * 4 :] == 0x55).all()
    values = np.ascontiguousarray(out[:, : n * 4])
    return values.view(np.float32 if made.gemm.out == "f32" else np.int32), a @ b


CASES = [
    (GemmOptions("sm_80", "f16", (64, 64, 32), stages=3, out="f32"), (70, 51, 77)),
    (GemmOptions("sm_80", "f16", (64, 64, 64), stages=2, a="col", b="row", out="f32"), (65, 97, 30)),
    (GemmOptions("sm_75", "f16", (32, 64, 32), (1, 2), 2, a="col", out="f32"), (33, 65, 65)),
    (GemmOptions("sm_75", "s8", (32, 64, 64), (2, 2), 3), (40, 65, 100)),
    (GemmOptions("sm_70", "f16", (32, 64, 32), (1, 2), 2, out="f32"), (33, 65, 70)),
    (GemmOptions("sm_72", "f16", (32, 32, 16), (2, 1), 3, a="col", b="row", out="f32"), (37, 40, 35)),
    (GemmOptions("sm_80", "s8", (64, 32, 64), (4, 1), 3, a="col"), (70, 31, 129)),
    (GemmOptions("sm_80", "tf32", (64, 32, 32), (2, 1), 4, b="row"), (1, 1, 1)),
    (GemmOptions("sm_89", "e4m3", (64, 64, 64), (2, 2), 3, out="f32"), (64, 64, 64)),
]


@pytest.mark.sampled(12)
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
@pytest.mark.parametrize(("options", "sizes"), CASES, ids=lambda v: "-".join(map(str, v[:3])))
def test_products_are_exact_on_the_host(tmp_path, options, sizes):
    found, wanted = product(tmp_path, options, sizes)
    assert np.array_equal(found, wanted)


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_an_address_that_is_wrong_is_noticed(tmp_path, monkeypatch):
    options, sizes = CASES[0]
    right = gemm(options)
    assert "lane & 16" in right.source
    wrong = right.__class__(right.name, right.source.replace("lane & 16", "lane & 8", 1), right.gemm)
    monkeypatch.setitem(globals(), "gemm", lambda _: wrong)
    try:
        found, wanted = product(tmp_path, options, sizes)
    except subprocess.CalledProcessError:  # an address that the instruction does not take
        return
    assert not np.array_equal(found, wanted)


@pytest.mark.sampled(41)
@pytest.mark.parametrize(("number", "kind"), TYPES)
def test_it_compiles_without_a_word(number, kind):
    library = nvrtc.library()
    if not library or number not in nvrtc.archs(library):
        pytest.skip("no compiler for this arch")
    made = gemm(GemmOptions(f"sm_{number}", kind))
    done, log = nvrtc.compile_cuda(library, made.source, f"-arch={made.gemm.compiled_for}", "-std=c++17")
    assert done
    assert log == "" or (number < 75 and "Architectures" in log and log.count("\n") == 1)
    assert made.shared_bytes <= arch(f"sm_{number}").shared_kib << 10


@pytest.mark.parametrize("kind", wgmma.FORMS)
def test_tma_stores_no_piece_that_goes_beyond_a_row(kind):
    """Where a row ends inside a piece of 16 bytes, the block that has its end stores from registers."""
    made = gemm(GemmOptions("sm_90", kind))
    edge = re.search(r"if \(n % (\d+) && n0 \+ TILE_N > n\) {\s+store\(.*?} else {", made.source, re.DOTALL)
    assert bool(edge) == ("copy_back(" in made.source) == ("map_d" in made.parameters)
    if edge:
        assert int(edge[1]) * dtype(made.gemm.out).bits == 128
        assert edge.start() < made.source.index("      copy_back(at")
    assert made.parameters[-5:] == ["d", "ldd", "m", "n", "k"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("a", "b"), [("col", "row"), ("row", "row"), ("col", "col")])
def test_other_majors_of_wgmma_compile(a, b):
    made = gemm(GemmOptions("sm_90", "bf16", (128, 96, 64), a=a, b=b))
    library = nvrtc.library()
    assert nvrtc.compile_cuda(library, made.source, "-arch=sm_90a", "-std=c++17") == (True, "")


@pytest.mark.full
@pytest.mark.parametrize(("kind", "b"), [("bf16", "col"), ("bf16", "row"), ("e4m3", "col")])
def test_blocks_of_a_cluster_bring_each_other_all_of_b(kind, b):
    made = gemm(GemmOptions("sm_90", kind, b=b, cluster=2))
    library = nvrtc.library()
    assert nvrtc.compile_cuda(library, made.source, "-arch=sm_90a", "-std=c++17") == (True, "")
    assert "__cluster_dims__(1, 2, 1)" in made.source
    (m, n, k), size = made.gemm.tile, dtype(kind).bits // 8
    loads = re.findall(
        r"CLUSTER == (\d)\) load_all\(at \+ BYTES_A \+ (\d+), map_b, barrier, (.*), (.*)\);", made.source
    )
    assert len(loads) == made.maps["b"]["boxes"] == len(set(loads))
    starts = sorted(int(at) for _, at, *_ in loads)
    assert starts == list(range(0, n * k * size, made.maps["b"]["box_bytes"]))
    assert sorted(block for block, *_ in loads) == sorted("01" * (len(loads) // 2))
    assert made.grid(3 * m + 1, 5 * n) == (5, 4, 1)
    assert made.to_json(None)["grid"][1] == f"(m + {2 * m - 1}) / {2 * m} * 2"
    for col, block in ((0, 0), (n - 1, 1)):
        assert f"by block {block} of the cluster for all" in explain(made, (0, col, 0))[1]["steps"][1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (GemmOptions("sm_80", "f16", cluster=2), "only the kernel of sm_90 has clusters"),
        (GemmOptions("sm_90", "f16", cluster=3), "1 or 2 blocks"),
        (GemmOptions("sm_90", "tf32", (128, 24, 32), cluster=2), "use a multiple of 16"),
        (GemmOptions("sm_90", "f16", (128, 64, 64), b="row", cluster=2), "use a multiple of 128"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(options, words):
    with pytest.raises(UsageError, match=words):
        gemm(options)


REFUSED = {
    ("sm_70", "s8"): "sm_75 is the first that multiplies s8",
    ("sm_61", "f16"): "sm_70 is the first",
    ("sm_86", "e4m3"): "sm_89 is the first that multiplies e4m3",
    ("sm_80", "f64"): "kernels exist for f16",
    ("sm_86", "f16", (128, 128, 64), None, 4): "`stages` 3 fits",
    ("sm_80", "f16", (256, 128, 64)): "256 of accumulators, 96 of fragments",
    ("sm_90", "f16", (96, 128, 64)): "64, 128",
    ("sm_80", "f16", (128, 128, 16)): "a multiple of 32",
    ("sm_80", "f16", (100, 128, 64)): "nearest: m 128",
    ("sm_90", "f16", (128, 128, 64), (2, 2)): "8x1",
    ("sm_90", "e4m3", None, None, None, "col"): "k contiguous only",
    ("sm_90", "bf16", (192, 256, 64), None, 3): "nearest: m 128",
    ("sm_90", "bf16", (128, 512, 64)): "nearest: n 240, 256",
    ("sm_90", "bf16", (128, 40, 64)): "stores bf16 has n 40; nearest: n 32, 48",
    ("sm_90", "s8", (128, 40, 64)): "nearest: n 32, 48",
    ("sm_80", "f16", None, None, None, "row", "col", "bf16"): "stored as f16 or f32",
}


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_what_cannot_be_is_refused_with_what_can(options):
    with pytest.raises(UsageError, match=re.escape(REFUSED[options])):
        gemm(GemmOptions(*options))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", [kind for kind in wgmma.FORMS if kind != "f16"])
def test_every_width_of_a_warpgroups_tile_is_taken_or_the_nearest_are_named(kind):
    """The refusal names widths that are taken."""
    for n in range(1, 300, 7):
        out = None if n % 2 else "s32" if kind == "s8" else "f32"
        try:
            gemm(GemmOptions("sm_90", kind, (64, n, 32), stages=2, out=out))
        except UsageError as refused:
            for near in re.search(r"has n \d+; nearest: n (\d+), (\d+)", str(refused)).groups():
                assert gemm(GemmOptions("sm_90", kind, (64, int(near), 32), stages=2, out=out)).block[0] == 256


@pytest.mark.parametrize(("target", "cluster"), [("sm_80", 1), ("sm_90", 1), ("sm_90", 2)])
def test_a_grid_is_one_that_can_be_launched(target, cluster):
    """At most 65,535 blocks along y, and m, n and k are int."""
    made = gemm(GemmOptions(target, "f16", cluster=cluster))
    with pytest.raises(UsageError, match="blocks along y") as refused:
        made.grid(2**31 - 1, 8)
    most = int(re.search(r"at most (\d+) rows", str(refused.value))[1])
    assert made.grid(most, 2**31 - 1)[1] == 65535 // cluster * cluster
    for size in ((most + 1, 8), (8, 2**31), (8, 8, 2**31)):
        with pytest.raises(UsageError):
            made.to_json((*size, 8)[:3])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", ["sm_70", "sm_75", "sm_80", "sm_86"])
@pytest.mark.parametrize("tile", [(128, 256, 64), (128, 256, 32), (256, 256, 32), (256, 32, 32)])
def test_the_warps_that_a_refusal_names_do(target, tile):
    """Nothing else is refused once they are given; what no number of warps mends is said instead of them."""
    with pytest.raises(UsageError) as refused:
        gemm(GemmOptions(target, "f16", tile, (1, 1)))
    named = re.search(r"try `warps` (\d+)x(\d+)", str(refused.value))
    if named:
        gemm(GemmOptions(target, "f16", tile, (int(named[1]), int(named[2]))))
    assert named or re.search("use a smaller `tile`|`stages` 2 fits", str(refused.value))


@pytest.mark.full
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_what_is_explained_is_what_the_path_says(target):
    """Every element of a tile has a place of its own in a stage."""
    made = gemm(GemmOptions(target, "f16", (64, 64, 64)))
    for operand, coordinates in ((0, lambda x, y: (x, 0, y)), (1, lambda x, y: (0, x, y))):
        elements = [coordinates(x, y) for x in range(0, 64, 7) for y in range(0, 64, 5)]
        places = [explain(made, at)[operand]["steps"][1] for at in elements]
        found = [int(re.search(r"to byte (\d+)", text)[1]) for text in places]
        assert len(set(found)) == len(found)
        assert min(found) >= 8192 * operand
        assert max(found) < 8192 * (operand + 1)


def test_the_command(tmp_path):
    asked = ["kernel", "gemm", "--arch", "sm_80", "--type", "f16"]
    run = CliRunner().invoke
    printed = run(main, asked).output
    assert run(main, [*asked, "-o", str(tmp_path / "gemm.cu"), "--name", "my_gemm"]).exit_code == 0
    assert (tmp_path / "gemm.cu").read_text() == printed.replace("gemm_sm_80_f16_128x128x64", "my_gemm")
    for wrong in (["--tile", "128"], ["--warps", "2"], ["--name", "int"], ["--stages", "1"]):
        assert run(main, [*asked, *wrong]).exit_code == 2


def _becomes(device, instruction):
    """(what an instruction becomes on an arch, whether that is native), as the published file has it."""
    row = published().lowering(device.name)["instructions"][instruction.id]
    return row["opcodes"], is_native(instruction, row["opcodes"])


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("number", "kind"), [one for one in TYPES if published().lowering(f"sm_{one[0]}")])
def test_an_emulated_multiply_is_named_with_the_one_that_is_not(number, kind):
    """By what instructions become there: a warning where, and only where, the multiply is emulated."""
    made, device = gemm(GemmOptions(f"sm_{number}", kind, multiply="mma")), arch(f"sm_{number}")
    opcodes, native = _becomes(device, made.gemm.instruction)
    assert (made.warning is None) == native == (made.to_json(None)["warning"] is None)
    assert native == (not any("is emulated" in text for text in made.in_words))
    if not native:
        assert all(opcode in made.warning for opcode in opcodes)
        fast = inventory.instructions()[re.search(r"Tensor cores there multiply \w+ by (\S+);", made.warning)[1]]
        assert fast.target.on(device)
        assert fast.family == "wgmma" or _becomes(device, fast)[1]
    assert not (native and (number, kind) == (100, "e4m3"))


def test_the_command_warns_of_an_emulated_multiply(tmp_path):
    asked = ["kernel", "gemm", "--type", "e4m3", "-o", str(tmp_path / "gemm.cu"), "--multiply", "mma", "--arch"]
    warned, silent = (CliRunner().invoke(main, [*asked, target]) for target in ("sm_100", "sm_89"))
    assert warned.exit_code == silent.exit_code == 0
    assert re.search(r"warning: \S+ on sm_100 is emulated: .*tcgen05.mma\S*kind::f8f6f4", warned.stderr, re.DOTALL)
    assert "warning" not in silent.stderr + warned.stdout
