"""The example of a product with weights of 4 bits: it is assembled, and on a GPU it is NumPy's, element by element."""

import shutil
import subprocess
import sys
from pathlib import Path

import host_cuda
import numpy as np
import nvrtc
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import w4a16
import w4a16_run


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "group", "arch"),
    [("s4", 128, "sm_80"), ("u4", 32, "sm_90"), ("s4", 256, "sm_120"), ("u4", 16, "sm_100"), ("s4", 128, "sm_86")],
)
def test_it_compiles_without_a_word(kind, group, arch):
    library = nvrtc.library()
    assert library
    text = w4a16.source(w4a16.Asked(kind, group, arch))
    assert nvrtc.compile_cuda(library, text, f"-arch={arch}", "-std=c++17") == (True, "")


def test_nothing_but_the_loop_is_by_hand():
    asked = w4a16.Asked("s4", 128, "sm_80")
    text = w4a16.source(asked)
    for line in ("mma.sync.aligned.m16n8k16", "ldmatrix.sync.aligned", "lop3.b32", "ld.shared.v4"):
        assert line in text
        assert line not in w4a16.KERNEL
    assert w4a16.shared_bytes(asked) <= 99 << 10  # of sm_86


def test_the_source_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no compiler
    assert w4a16.main(["-o", str(tmp_path / "w4a16.cu")]) == 0
    assert "nvcc" in capsys.readouterr().out
    assert 'extern "C" __global__' in (tmp_path / "w4a16.cu").read_text()


def test_a_group_that_cannot_be(capsys, tmp_path):
    assert w4a16.main(["--group", "48", "-o", str(tmp_path / "x.cu")]) == 2
    assert "--group 48" in capsys.readouterr().err


def test_problems_are_exact():
    given = w4a16_run.problem(w4a16.Asked("s4", 32, "sm_80"), (64, 128, 256), 0)
    assert (given.dense.astype(np.float16) == given.dense).all()
    assert given.scales.shape == (8, 128)


@pytest.mark.gpu
@pytest.mark.parametrize(("kind", "zeros"), [("s4", False), ("u4", False), ("u4", True), ("s4", True)])
@pytest.mark.parametrize("group", [16, 32, 64, 128, 256, 512])
def test_products_are_numpys(kind, zeros, group):
    gpu = w4a16_run.OnGpu(w4a16.Asked(kind, group, "sm_80", zeros))
    for seed, size in enumerate(w4a16_run.SHAPES):
        assert gpu.differing(size, seed) == (0, 0.0)


# the whole kernel on the host: a multiply is what the tables of its operands say; numbers stay whole
STAND_INS = """
#define __CUDACC__
#define __global__
#define __shared__
#define __align__(bytes)
#define __launch_bounds__(...)
#define __builtin_assume(known)
struct float2 { float x, y; };
static float2 make_float2(float x, float y) { return {x, y}; }
static struct { unsigned x, y, z; } blockIdx, gridDim;
#define held memory
static unsigned __cvta_generic_to_shared(const void*) { return 0; }
static void __syncthreads() { meet(0); }
"""
MULTIPLY = """
static void product(const std::vector<Out>& out, const std::vector<long long>& in) {
  using Mma = tcprobe::sm_80::mma_m16n8k16_row_col_f32_f16_f16_f32;
  static double a[16][MOST / 32][16], b[16][MOST / 32][8];
  const int warp = running / 32, lane = running % 32;
  meet(0);
  for (int i = 0; i < 8; ++i)
    a[Mma::A::row(lane, i)][warp][Mma::A::col(lane, i)] = value(unsigned(in[i / 2] >> 16 * (i % 2)) & 0xffff, F16);
  for (int i = 0; i < 4; ++i)
    b[Mma::B::row(lane, i)][warp][Mma::B::col(lane, i)] = value(unsigned(in[4 + i / 2] >> 16 * (i % 2)) & 0xffff, F16);
  meet(0);
  for (int i = 0; i < 4; ++i) {
    float sum = float(in[6 + i]);
    for (int k = 0; k < 16; ++k) sum += a[Mma::D::row(lane, i)][warp][k] * b[k][warp][Mma::D::col(lane, i)];
    memcpy(out[i].at, &sum, 4);
  }
}
"""
RUN = """
static void work_() {{
  unsigned char* at = input;
  unsigned short* const d = (unsigned short*)(output + {parts});
  w4a16((unsigned short*)at, at + {words}, at + {scales}, at + {zeros}, d, (float*)output, {n}, {k});
}}
static void sum_() {{ w4a16_sum((float*)output, (unsigned short*)(output + {parts}), {splits}, {count}); }}
int main() {{
  if (fread(input, 1, {given}, stdin) != {given}) std::abort();
  gridDim = {{{down}, {across}, {splits}}};
  for (blockIdx.z = 0; blockIdx.z < {splits}; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < {across}; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < {down}; ++blockIdx.x) {{
        memset(memory, 0xEE, sizeof memory);
        launch({threads}, work_);
      }}
  blockIdx = {{}};
  for (; {splits} > 1 && blockIdx.x < {count} / 512; ++blockIdx.x) launch(256, sum_);
  fwrite(output + {parts}, 1, 2 * {count}, stdout);
}}
"""


def on_the_host(folder, asked, size, splits):
    """D of a problem whose scales are whole, by the kernel's own code, and NumPy's."""
    (m, n, k), given = size, w4a16_run.problem(asked, size, 3)
    given = given._replace(scales=given.scales * 16)
    packer = w4a16.packer(asked)
    words = packer.repack(given.w)
    held = [given.a.astype(np.float16).tobytes(), words.tobytes(), given.scales.astype(np.float16).tobytes()]
    held.append(packer.pack_zeros(given.zeros).tobytes() if asked.zeros else b"")
    runtime = host_cuda.RUNTIME.replace("MOST = 128", "MOST = 256")
    runtime = runtime.replace(
        'if (has(ptx, "mma.")',
        'if (begins(name, "mma.")) product(out, in);\n'
        '  else if (begins(name, "cvt.rn.f16x2.f32"))\n'
        "    put(out[0], bits_of(double(in[0]), F16) << 16 | bits_of(double(in[1]), F16));\n"
        '  else if (has(ptx, "mma.")',
    )
    declared = "static void product(const std::vector<Out>& out, const std::vector<long long>& in);\n"
    runtime = runtime.replace("static void run(", f"{declared}static void run(")
    kernel = host_cuda.on_the_host(w4a16.source(asked))
    main = RUN.format(
        words=len(held[0]),
        scales=len(held[0] + held[1]),
        zeros=len(held[0] + held[1] + held[2]),
        parts=4 * m * n * splits,
        n=n,
        k=k,
        splits=splits,
        count=m * n,
        given=len(b"".join(held)),
        down=m // w4a16.M,
        across=n // w4a16.N,
        threads=32 * w4a16.WARPS,
    )
    (folder / "host.cpp").write_text("\n".join([runtime, STAND_INS, kernel, MULTIPLY, main]))
    command = ["g++", "-std=c++17", "-O1", "-w", str(folder / "host.cpp"), "-o", str(folder / "host")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[:4000]
    done = subprocess.run([str(folder / "host")], input=b"".join(held), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float16).reshape(m, n), (given.a @ given.dense).astype(np.float16)


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
@pytest.mark.parametrize(
    ("kind", "group", "zeros", "size", "splits"),
    [
        ("s4", 128, False, (64, 128, 512), 1),
        ("u4", 32, True, (128, 128, 384), 2),
        ("s4", 256, True, (64, 256, 640), 3),
    ],
)
def test_the_kernel_on_the_host(tmp_path, kind, group, zeros, size, splits):
    found, wanted = on_the_host(tmp_path, w4a16.Asked(kind, group, "sm_80", zeros), size, splits)
    assert np.isfinite(wanted).all()
    assert np.array_equal(found, wanted)
