"""The C++ header gives the bits of the model in Python."""

import shutil
import subprocess
import sys

import numeric_core as core
import numpy as np
import nvrtc
import pytest

from tcprobe.arithmetic.forms import types
from tcprobe.arithmetic.header import Entry, header
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import (
    Arithmetic,
)
from tcprobe.isa import names
from tcprobe.probes.numerics_cases import MultiplySize, floats


def test_the_header_gives_the_same_bits(tmp_path):
    """By g++: 100,000 cases of every kind of form."""
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no g++")
    ids = [id_ for id_, rule in core.RULES.items() if isinstance(rule, Arithmetic)]
    entries = [
        Entry(f"form{n}", id_, types(names.resolve(id_).instruction), core.RULES[id_]) for n, id_ in enumerate(ids)
    ]
    (tmp_path / "numerics.hpp").write_text(header(entries))
    (tmp_path / "main.cpp").write_text(PROGRAM + "".join(f'  go<form{n}>("{n}");\n' for n in range(len(ids))) + "}\n")
    options = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    subprocess.run([compiler, *options, "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    expected, count = [], 0
    for n, entry in enumerate(entries):
        k = entry.rule.products
        made, images = floats(entry.types, MultiplySize(1, 8, 8, k), 112, seed=n), 112
        a, b = (np.broadcast_to(x, (images, 1, 8, 8, k)) for x in (made.a[..., :, None, :], made.b[..., None, :, :]))
        expected.append(dot(entry.types, entry.rule, (a, b, made.c)).reshape(-1).astype(np.uint64))
        lines = [made.c.reshape(-1, 1), a.reshape(-1, k), b.reshape(-1, k)]
        np.concatenate([part.astype(np.uint64) for part in lines], axis=1).tofile(tmp_path / str(n))
        count += len(expected[-1])
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    for n, ours in enumerate(expected):
        assert (np.fromfile(tmp_path / f"{n}.out", np.uint64) == ours).all(), entries[n].words
    assert count >= 100_000


PROGRAM = """#include "numerics.hpp"
#include <cstdio>
#include <string>
#include <vector>
using namespace tcprobe::numerics;
template <class F>
void go(const std::string& name) {
  FILE* in = fopen(name.c_str(), "rb");
  FILE* out = fopen((name + ".out").c_str(), "wb");
  std::vector<bits> line(1 + 2 * F::products);
  while (fread(line.data(), 8, line.size(), in) == line.size()) {
    const bits d = dot<F>(line.data() + 1, line.data() + 1 + F::products, line[0]);
    fwrite(&d, 8, 1, out);
  }
  fclose(in);
  fclose(out);
}
int main() {
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")
def test_the_header_compiles_by_nvrtc():
    entries = [
        Entry("form", "a form", types(names.resolve(id_).instruction), core.RULES[id_]) for id_ in (core.MMA_FP8,)
    ]
    lib = nvrtc.library()
    call_ = 'extern "C" __global__ void f(const unsigned* a, unsigned long long* d) { *d = tcprobe::numerics::dot<'
    text = header(entries) + call_ + "tcprobe::numerics::form>(a, a, 0); }\n"
    assert nvrtc.compile_cuda(lib, text, "-arch=sm_90", "-std=c++17") == (True, "")
