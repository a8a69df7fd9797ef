"""The emitted CUDA header: compiled for every arch, run on the host, and proof against changes."""

import re
import shutil
import subprocess
import sys
from functools import cache

import nvrtc
import pytest

from tcprobe import emit
from tcprobe.emit.common import identifier
from tcprobe.fit.inverse import inverse
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.store.cell import for_emit, known, load
from tcprobe.store.results import published

RESULTS = published()
consumers = pytest.mark.skipif(
    sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one"
)


@cache
def header():
    """All fragments on all archs."""
    return emit.emit("cuda", for_emit(list(inventory.fragments().values()), "all", RESULTS))


@consumers
def test_nvrtc_compiles_the_header_for_every_arch_it_knows():
    lib = nvrtc.library()
    assert lib is not None, "the dev extra installs NVRTC"
    known_archs = [n for n in nvrtc.archs(lib) if n >= 70]
    assert len(known_archs) > 8
    for count in known_archs:
        has = inventory.select("wmma.*", device=arch(f"sm_{110 if count == 101 else count}"))  # 101: 110's old name
        users = "\n".join(f"using u{j} = tcprobe::{identifier(f.id)};" for j, f in enumerate(has))
        done, log = nvrtc.compile_cuda(lib, header() + users, f"-arch=sm_{count}", "-std=c++17")
        log = re.sub(r"nvrtc: warning: Architectures prior.*\n", "", log)
        assert (done, log) == (True, ""), count


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
            assert "not the layout that was measured" in log


MAIN = """
#include <cstdio>
template <class F> void print(const char* name) {
  for (int lane = 0; lane < F::lanes; ++lane)
    for (int i = 0; i < F::elements; ++i)
      std::printf("%s %d %d %d %d %d\\n", name, lane, i, F::row(lane, i), F::col(lane, i), F::product(lane, i));
}
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
@pytest.mark.parametrize("name", ["sm_70", "sm_90"])
def test_gcc_compiles_and_runs_the_host_side(tmp_path, name):
    chosen = inventory.select(device=arch(name))[::7]
    body = "".join(f'  print<tcprobe::{identifier(f.id)}>("{f.id}");\n' for f in chosen)
    source = tmp_path / "main.cpp"
    (tmp_path / "layouts.h").write_text(header())
    source.write_text(f'#include "layouts.h"\n{MAIN}int main() {{\n{body}}}\n')
    number_ = arch(name).number * 10
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror",
               f"-DTCPROBE_ARCH={number_}", str(source), "-o", str(tmp_path / "main")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    printed = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout
    lines = printed.splitlines()
    expected = []
    for fragment in chosen:
        table = known(fragment, name, RESULTS).table
        for slot, cell in enumerate(table.cells):
            expected.append(" ".join(map(str, (fragment.id, *divmod(slot, table.elements), *(*cell, 0)[:3]))))
    assert lines == expected


@consumers
def test_an_arch_without_a_table_is_an_error():
    lib = nvrtc.library()
    use = "\n__device__ int f(int i) { return tcprobe::wmma_m16n16k16_d_f32::row(0, i); }"
    one = emit.emit("cuda", [load("wmma.m16n16k16.d.f32", "sm_80")]) + use
    assert nvrtc.compile_cuda(lib, one, "-arch=sm_80", "-std=c++17")[0]
    for other, words in ((70, "tcprobe::wmma_m16n16k16_d_f32"), (86, "knows no GPU as new")):
        done, log = nvrtc.compile_cuda(lib, one, f"-arch=sm_{other}", "-std=c++17")
        assert not done
        assert words in log
    assert nvrtc.compile_cuda(lib, one, "-arch=sm_86", "-std=c++17", "-DTCPROBE_ANY_ARCH")[0]
    newest = ARCHS[-1].number * 10
    assert f"#define TCPROBE_NEWEST {newest}" in header()


def test_every_layout_has_an_inverse():
    assert all(inverse(RESULTS.layout(layout)) for layout in RESULTS.layouts())
