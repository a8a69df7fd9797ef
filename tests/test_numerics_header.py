"""The C++ header gives the bits of the model in Python."""

import shutil
import subprocess
import sys

import numeric_core as core
import numpy as np
import nvrtc
import pytest

from tcprobe.arithmetic.header import Entry, header
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import (
    Arithmetic,
    types_of,
)
from tcprobe.isa import names
from tcprobe.probes.numerics import MultiplySize, floats


def entry(number, id_, rule):
    return Entry(f"form{number}", id_, types_of(names.resolve(id_).instruction), rule)


@pytest.mark.full
def test_the_header_gives_the_same_bits(tmp_path):
    """By g++: 100,000 cases of every kind of form."""
    rules = [(id_, rule) for id_, rule in core.RULES.items() if isinstance(rule, Arithmetic)]
    assert compared(tmp_path, [entry(n, *one) for n, one in enumerate(rules)], 112) >= 100_000


@pytest.mark.full
def test_the_header_gives_the_same_bits_of_every_published_arithmetic(tmp_path):
    """By g++; every kind of form is in the test above."""
    found = core.layers().findings("numerics", "sm_90").values()
    rules = [(one.finding.subject, one.finding.body.floats) for one in found if one.finding.body.floats]
    assert compared(tmp_path, [entry(n, *one) for n, one in enumerate(rules)], 30) >= 100_000


def compared(tmp_path, entries, images):
    """How many cases g++ gave the model's bits of."""
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no g++")
    (tmp_path / "numerics.hpp").write_text(header(entries))
    (tmp_path / "main.cpp").write_text(
        PROGRAM + "".join(f'  go<form{n}>("{n}");\n' for n in range(len(entries))) + "}\n"
    )
    options = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    subprocess.run([compiler, *options, "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    expected, count = [], 0
    for n, one in enumerate(entries):
        k = one.rule.products
        made = floats(one.types, MultiplySize(1, 8, 8, k), images, seed=n)
        a, b = (np.broadcast_to(x, (images, 1, 8, 8, k)) for x in (made.a[..., :, None, :], made.b[..., None, :, :]))
        expected.append(dot(one.types, one.rule, (a, b, made.c)).reshape(-1).astype(np.uint64))
        lines = [made.c.reshape(-1, 1), a.reshape(-1, k), b.reshape(-1, k)]
        np.concatenate([part.astype(np.uint64) for part in lines], axis=1).tofile(tmp_path / str(n))
        count += len(expected[-1])
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    for n, ours in enumerate(expected):
        assert (np.fromfile(tmp_path / f"{n}.out", np.uint64) == ours).all(), entries[n].words
    return count


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
        Entry("form", "a form", types_of(names.resolve(id_).instruction), core.RULES[id_]) for id_ in (core.MMA_FP8,)
    ]
    lib = nvrtc.library()
    call_ = 'extern "C" __global__ void f(const unsigned* a, unsigned long long* d) { *d = tcprobe::numerics::dot<'
    text = header(entries) + call_ + "tcprobe::numerics::form>(a, a, 0); }\n"
    assert nvrtc.compile_cuda(lib, text, "-arch=sm_90", "-std=c++17") == (True, "")
