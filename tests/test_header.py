"""The emitted CUDA header: compiled for every arch, run on the host, and proof against changes."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache

import nvrtc
import pytest

from tcprobe import emit
from tcprobe.code.names import identifier
from tcprobe.fit.linear import inverse
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.names import resolve, select
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import cell, for_emit, load
from tcprobe.store.results import published

RESULTS = published()
# all but addresses, as far as anybody knows a layout
MATRICES = list(
    dict.fromkeys(
        cell.fragment
        for cell in for_emit([f for f in inventory.of_a_warp().values() if f.role in WHOLE], "all", RESULTS)
    )
)
consumers = pytest.mark.skipif(
    sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one"
)


@cache
def header():
    """All fragments of matrices on all archs."""
    return emit.emit("cuda", for_emit(MATRICES, "all", RESULTS))


@pytest.mark.full
@consumers
def test_nvrtc_compiles_the_header_for_every_arch_it_knows(whole):
    lib = nvrtc.library()
    assert lib is not None, "the dev extra installs NVRTC"
    known_archs = [n for n in nvrtc.archs(lib) if n >= 70]
    assert len(known_archs) > 8
    of_wmma = emit.emit("cuda", for_emit([f for f in MATRICES if f.family == "wmma"], "all", RESULTS))
    for count in known_archs:
        has = select("wmma.*", device=arch(f"sm_{110 if count == 101 else count}"))  # 101: 110's old name
        users = "\n".join(f"using u{j} = tcprobe::{identifier(f.id)};" for j, f in enumerate(has))
        first = count % 10 == 0 or count == known_archs[0]  # of its generation, for which all families are compiled
        if first and not whole and count != 90:
            continue
        text = header() if first else of_wmma
        done, log = nvrtc.compile_cuda(lib, text + users, f"-arch=sm_{count}", "-std=c++17")
        log = re.sub(r"(nvrtc: warning: Architectures prior|ptxas info).*\n", "", log)
        assert (done, log) == (True, ""), count


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_headers_that_share_fragments_stand_side_by_side(tmp_path):
    """In any order and twice; one that says otherwise of the same fragment does not compile."""
    shared = load("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "sm_90")
    other = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d", "sm_90")
    moved = replace(shared, table=slot_table(32, 8, {name: shared.table.values[name][::-1] for name in ("row", "col")}))
    for name, cells in {"one": [shared], "two": [other, shared], "wrong": [moved]}.items():
        (tmp_path / f"{name}.h").write_text(emit.emit("cuda", cells))
    for names, compiles in ((("one", "two", "one"), True), (("two", "one"), True), (("one", "wrong"), False)):
        source = tmp_path / "main.cpp"
        source.write_text("".join(f'#include "{name}.h"\n' for name in names) + "int main() {}\n")
        command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == compiles, done.stderr[:2000]
        assert compiles or "redefinition" in done.stderr


@consumers
def test_a_changed_term_does_not_compile():
    """Each formula of a layout changed in one number: the self-check stops every one."""
    lib = nvrtc.library()
    text = emit.emit("cuda", [load("wmma.m16n16k16.a.row.f16", "sm_90")])
    assert nvrtc.compile_cuda(lib, text, "-arch=sm_90", "-std=c++17")[0]
    returns = [m for m in re.finditer(r"return (.*&.*);", text) if "lane" in m[1] or "row" in m[1] or "copy" in m[1]]
    returns = [m for m in returns if "L::" not in m[1]]
    assert len(returns) == 4
    for match in returns:
        for digit in re.finditer(r"\d+", match[1]):
            at = match.start(1) + digit.start()
            number_, mask = int(digit[0]), text[at - 2] == "&"
            other = number_ ^ 1 << number_.bit_length() - 1 if mask else number_ ^ 1
            changed = text[:at] + str(other) + text[at + len(digit[0]) :]
            done, log = nvrtc.compile_cuda(lib, changed, "-arch=sm_90", "-std=c++17")
            assert not done, changed[at - 40 : at + 40]
            assert "layout" in log


MAIN = """
#include <cstdio>
template <class F> void print(const char* name) {
  for (int lane = 0; lane < F::lanes; ++lane)
    for (int i = 0; i < F::elements; ++i)
      std::printf("%s %d %d %d %d %d\\n", name, lane, i, F::row(lane, i), F::col(lane, i), F::product(lane, i));
}
"""


gcc = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wundef", "-Werror")
DIFFERS = "this layout differs between GPUs: host code has to define TCPROBE_ARCH (700, 750, 800, ...)"


def build(folder, source, *options, text=None, program="g++"):
    """What a host compiler says of a program that includes the header; the program is folder / "main"."""
    name = folder / ("main.cu" if program == "nvcc" else "main.cpp")
    (folder / "layouts.h").write_text(text or header())
    name.write_text(f'#include "layouts.h"\n{source}\n')
    command = [program, *options, str(name), "-o", str(folder / "main")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def printed(folder):
    return subprocess.run([str(folder / "main")], capture_output=True, text=True, check=True).stdout.splitlines()


@cache
def known():
    """The archs, ascending, on which there is a table of each matrix."""
    found = {fragment: [] for fragment in MATRICES}
    for table in for_emit(MATRICES, "all", RESULTS):
        found[table.fragment].append(table.arch)
    return found


def slots(fragment, name):
    """What `print` prints of a fragment's table."""
    cells = cell(fragment, name, RESULTS).table.cells
    per_lane = fragment.elements
    return [" ".join(map(str, (fragment.id, *divmod(s, per_lane), *(*cell, 0)[:3]))) for s, cell in enumerate(cells)]


def program(fragments, space="tcprobe"):
    return (
        f"{MAIN}int main() {{\n"
        + "".join(f'  print<{space}::{identifier(f.id)}>("{f.id}");\n' for f in fragments)
        + "}"
    )


@cache
def differing():
    """Fragments with several layouts, among all archs that have them."""
    found = {}
    for table in for_emit(MATRICES, "all", RESULTS):
        found.setdefault(table.fragment, set()).add(table.table.id)
    return [fragment for fragment, layouts in found.items() if len(layouts) > 1]


@pytest.mark.full
@gcc
@pytest.mark.parametrize("name", ["sm_70", "sm_90"])
def test_gcc_compiles_and_runs_the_host_side(tmp_path, name):
    chosen = [f for f in MATRICES if f.target.on(arch(name))][::7]
    done = build(tmp_path, program(chosen), *STRICT, f"-DTCPROBE_ARCH={arch(name).number * 10}")
    assert done.returncode == 0, done.stderr[:2000]
    assert printed(tmp_path) == [line for fragment in chosen for line in slots(fragment, name)]


@pytest.mark.full
@gcc
@pytest.mark.parametrize("options", [(), ("-DTCPROBE_ARCH=900",)])
@pytest.mark.parametrize("name", ["sm_70", "sm_75", "sm_120"])
def test_one_gpu_is_named_whatever_the_arch(tmp_path, name, options):
    chosen = [f for f in differing() if f.target.on(arch(name))] + [f for f in MATRICES if name in known()[f]][::11]
    done = build(tmp_path, program(chosen, f"tcprobe::{name}"), *STRICT, *options)
    assert done.returncode == 0, done.stderr[:2000]
    assert printed(tmp_path) == [line for fragment in chosen for line in slots(fragment, name)]


@pytest.mark.full
def test_every_arch_of_every_fragment_is_named():
    tables = for_emit(MATRICES, "all", RESULTS)
    named = re.findall(r"namespace (sm_\d+) {\s*struct (\w+) : (?!calls)", header())
    assert sorted(named) == sorted((table.arch, identifier(table.fragment.id)) for table in tables)


@pytest.mark.full
@gcc
def test_host_code_without_an_arch_gets_the_layouts_on_which_all_agree(tmp_path):
    agreeing = [f for f in MATRICES if f not in differing()]
    names = (f"using F{j} = tcprobe::{identifier(f.id)};\n" for j, f in enumerate(MATRICES))
    sizes = "".join(names) + "".join(
        f"static_assert(F{j}::elements == {f.elements} && F{j}::rows == {f.rows} && F{j}::cols == {f.cols} && "
        f'F{j}::lanes == 32 && F{j}::copies == {f.copies} && F{j}::registers == {f.registers}, "");\n'
        for j, f in enumerate(MATRICES)
    )
    done = build(tmp_path, sizes + program(agreeing[::13]), *STRICT)
    assert done.returncode == 0, done.stderr[:2000]
    assert printed(tmp_path) == [line for fragment in agreeing[::13] for line in slots(fragment, known()[fragment][-1])]


@pytest.mark.full
@gcc
def test_host_code_without_an_arch_does_not_get_a_layout_that_differs(tmp_path):
    calls = ("row(0, 0)", "col(0, 0)", "product(0, 0)", "lane_of(0, 0)", "i_of(0, 0, 0, 0)")
    both = [f for f in differing() if f.target.on(arch("sm_70"))]
    assert len(both) > 20
    source = "".join(
        f"int f{j}() {{ return tcprobe::{identifier(f.id)}::{calls[j % 5]}; }}\n" for j, f in enumerate(both)
    )
    assert build(tmp_path, source, "-std=c++17", "-c", "-DTCPROBE_ARCH=700").returncode == 0
    done = build(tmp_path, source, "-std=c++17", "-c")
    assert done.returncode != 0
    assert done.stderr.count(DIFFERS) == len(both)  # one error for each
    for call in calls:
        one = f"int f() {{ return tcprobe::{identifier(both[0].id)}::{call}; }}"
        assert DIFFERS in build(tmp_path, one, "-std=c++17", "-fsyntax-only", text=small(both[0])).stderr


@cache
def small(*fragments):
    """A header of few fragments, on all archs."""
    return emit.emit("cuda", for_emit(fragments, "all", RESULTS))


KERNELS = """
using A = tcprobe::wmma_m16n16k16_a_row_f16;  // on Volta another layout
template <class F, class T> __device__ int sum(const T (&r)[F::elements], int lane) {
  int s = F::lane_of(0, 0) + F::i_of(0, 0, F::copies - 1) + F::product(lane, 0);
  for (int i = 0; i < F::elements; ++i) s += r[i] * F::row(lane, i) + F::col(lane, i);
  return s;
}
template <class F> __global__ void by_type(int* out) { out[threadIdx.x] = F::row(threadIdx.x, 2); }
__global__ void kernel(int* out) {
  int r[A::elements] = {};
  out[threadIdx.x] = sum<A>(r, threadIdx.x);
}
#ifdef __CUDA_ARCH__
static_assert(A::row(1, 0) == (__CUDA_ARCH__ < 750), "");
#endif
static_assert(tcprobe::sm_70::wmma_m16n16k16_a_row_f16::row(1, 0) == 1, "");
static_assert(tcprobe::mma_m16n8k16_row_col_f32_f16_f16_f32_d::row(4, 0) == 1, "");
"""
LAUNCH = "int main() { kernel<<<1, 32>>>(nullptr); by_type<A><<<1, 32>>>(nullptr); return %s; }"
nvcc = pytest.mark.skipif(not (shutil.which("nvcc") and shutil.which("g++")), reason="no nvcc here")


@pytest.mark.full
@nvcc
@pytest.mark.parametrize("options", [(), ("--expt-relaxed-constexpr",)])
def test_nvcc_reads_kernels_in_its_host_pass_but_not_host_code(tmp_path, options):
    archs = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")
    text = small(
        *(resolve(name).fragment for name in ("wmma.m16n16k16.a.row.f16", "mma.m16n8k16.row.col.f32.f16.f16.f32.d"))
    )
    named = KERNELS + LAUNCH % "tcprobe::sm_70::wmma_m16n16k16_a_row_f16::row(1, 0) + A::elements"
    strict = ("-std=c++17", "-Werror=all-warnings", *options)
    done = build(tmp_path, named, *archs, *strict, text=text, program="nvcc")
    assert done.returncode == 0, done.stderr
    done = build(tmp_path, KERNELS + LAUNCH % "A::row(1, 0)", "-arch=sm_80", *strict, text=text, program="nvcc")
    assert done.returncode != 0
    assert "host_code_has_to_define_TCPROBE_ARCH_or_to_name_a_GPU" in done.stderr


@gcc
def test_a_host_pass_as_of_nvcc_reads_kernels(tmp_path):
    """g++ in nvcc's place: kernels are read; host code fails, if not to compile then to link."""
    kernels = "struct { int x; } threadIdx;\n" + KERNELS
    text = small(
        *(resolve(name).fragment for name in ("wmma.m16n16k16.a.row.f16", "mma.m16n8k16.row.col.f32.f16.f16.f32.d"))
    )
    words = ("-std=c++17", "-D__CUDACC__", "-D__host__=", "-D__device__=", "-D__global__=")
    done = build(tmp_path, kernels, *words, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", text=text)
    assert done.returncode == 0, done.stderr
    done = build(tmp_path, kernels + "int main() { return A::row(1, 0); }", *words, text=text)
    assert done.returncode != 0
    assert "`tcprobe::host_code_has_to_define_TCPROBE_ARCH_or_to_name_a_GPU" in done.stderr
    assert build(tmp_path, kernels + 'static_assert(A::row(1, 0) == 1, "");', *words, "-c", text=text).returncode != 0


@consumers
def test_device_code_names_a_gpu_whatever_its_own():
    lib = nvrtc.library()
    check = """
    #define OF(name) tcprobe::name::wmma_m16n16k16_a_row_f16
    static_assert(OF(sm_70)::row(1, 0) == 1 && OF(sm_72)::row(1, 0) == 1 && OF(sm_90)::row(1, 0) == 0, "");
    static_assert(OF(sm_70)::elements == 16 && OF(sm_70)::rows == 16 && OF(sm_121)::registers == 8, "");
    __device__ int f(int lane) { return OF(sm_70)::row(lane, 1) + tcprobe::wmma_m16n16k16_a_row_f16::row(lane, 0); }
    static_assert(tcprobe::wmma_m16n16k16_a_row_f16::row(1, 0) == %d, "");
    """
    for options, row in (((), 0), (("-DTCPROBE_ARCH=700",), 1), (("-DTCPROBE_ARCH=900",), 0)):
        text = small(inventory.fragments()["wmma.m16n16k16.a.row.f16"]) + check % row
        done, log = nvrtc.compile_cuda(lib, text, "-arch=sm_80", "-std=c++17", *options)
        assert (done, log) == (True, "")


@gcc
def test_two_headers_do_not_decide_for_each_other(tmp_path):
    """The first holds old GPUs only: what it says of the newest is not taken over by the second."""
    one, two = (resolve(f"wmma.m16n16k16.{o}.row.f16").fragment for o in "ab")
    old = emit.emit("cuda", [cell(one, "sm_70", RESULTS)])
    (tmp_path / "old.h").write_text(old)
    check = 'static_assert(tcprobe::wmma_m16n16k16_a_row_f16::row(1, 0) == 1, "");\n'
    use = "int main() { return tcprobe::wmma_m16n16k16_b_row_f16::row(1, 0); }"
    done = build(tmp_path, f'#include "old.h"\n{check}{use}', "-std=c++17", text=small(two))
    assert DIFFERS in done.stderr
    (tmp_path / "two.h").write_text(small(two))
    done = build(tmp_path, f'#include "two.h"\n{check}{use}', "-std=c++17", text=old)
    assert DIFFERS in done.stderr


@consumers
def test_an_arch_without_a_table_is_an_error():
    lib = nvrtc.library()
    use = "\n__device__ int f(int i) { return tcprobe::wmma_m16n16k16_d_f32::row(0, i); }"
    one = emit.emit("cuda", [load("wmma.m16n16k16.d.f32", "sm_80")]) + use
    assert nvrtc.compile_cuda(lib, one, "-arch=sm_80", "-std=c++17")[0]
    for other, words in (
        (70, "tcprobe::wmma_m16n16k16_d_f32"),
        (86, "was generated for sm_80 and older; regenerate it"),
    ):
        done, log = nvrtc.compile_cuda(lib, one, f"-arch=sm_{other}", "-std=c++17")
        assert not done
        assert words in log
    assert nvrtc.compile_cuda(lib, one, "-arch=sm_86", "-std=c++17", "-DTCPROBE_ANY_ARCH")[0]
    assert f"TCPROBE_ARCH > {ARCHS[-1].number * 10}\n#error" in header()


@pytest.mark.full
def test_every_layout_has_an_inverse(sample):
    assert all(inverse(RESULTS.layout(layout)) for layout in sample(RESULTS.layouts(), 5))
