"""Values of `import tcprobe` print in words: the very lines that the command prints of them."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
from click.testing import CliRunner

import tcprobe
from tcprobe import api
from tcprobe.cli import main

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
A, D = f"{MMA}.a", f"{MMA}.d"
ACC = "wgmma.m64n64k16.f32.f16.f16.d"

PRINTED = [
    (lambda: tcprobe.numerics(MMA), f"numerics {MMA}"),
    (lambda: tcprobe.numerics("mma m16n8k32 s8 s8 s32"), "numerics mma m16n8k32 s8 s8 s32"),
    (lambda: tcprobe.cost(MMA)[0], f"cost {MMA}"),
    (lambda: tcprobe.cost("ldmatrix.m8n8.x4.shared.b16")[0], "cost ldmatrix.m8n8.x4.shared.b16"),
    (
        lambda: tcprobe.banks(A, tile=(64, 64), access=["cp.async.16", "ldmatrix.x4"], propose=True),
        f"banks {A} --tile 64x64 --with cp.async.16 ldmatrix.x4 --propose",
    ),
    (lambda: tcprobe.path(A, (64, 64), placed="128B"), f"path {A} --tile 64x64 --swizzle 128B"),
    (lambda: tcprobe.path(D, (64, 64)), f"path {D} --tile 64x64"),
    (lambda: tcprobe.descriptor(tile=(128, 64), kind="bf16"), "descriptor --tile 128x64 --type bf16"),
    (lambda: tcprobe.convert(D, A), f"convert {D} {A}"),
    (lambda: tcprobe.convert(D, A, permute_k=True), f"convert {D} {A} --permute-k"),
    (lambda: tcprobe.reduce(D, over="row", op="max"), f"reduce {D} --over row --op max"),
    (lambda: tcprobe.reduce(ACC, mask="row >= col", fill="-inf"), f"reduce {ACC} --mask 'row >= col' --fill=-inf"),
    (lambda: tcprobe.instruction(MMA).trace(row=3, col=5), f"trace {MMA} --row 3 --col 5"),
    (lambda: api.straight_load(tcprobe.fragment(A), "row", None), f"load {A}"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("value", "command"), PRINTED, ids=[command for _, command in PRINTED])
def test_a_value_prints_what_its_command_prints(value, command):
    done = CliRunner(env={"COLUMNS": None}).invoke(main, shlex.split(command))
    assert done.exit_code == 0, done.output
    text = done.stderr if done.stderr else done.stdout  # beside code, which is redirected, words are on stderr
    shown = str(value()).splitlines()
    assert text.splitlines() == shown[: len(text.splitlines())]
    assert all(line in done.stdout for line in shown[len(text.splitlines()) :])  # the code, where it is printed too


@pytest.mark.parametrize(("value", "command"), PRINTED, ids=[command for _, command in PRINTED])
def test_the_first_line_stands_for_it(value, command):
    shown = value()
    assert repr(shown) == f"<{str(shown).splitlines()[0]}>"
    assert len(repr(shown)) < 200
    page = shown._repr_html_()
    assert page.startswith(("<pre>", "<svg"))
    assert "<pre>" in page
    assert ("<details>" in page) == bool(getattr(shown, "code", None))


def test_a_tensor_map_and_a_layout_print_too():
    plan = tcprobe.tensormap("bf16", tile=(128, 64), swizzle="128B")
    assert repr(plan).startswith("<1 x 1 boxes of 64 x 128 elements")
    assert "cuTensorMapEncodeTiled" in str(plan)
    layout = tcprobe.swizzle(np.arange(64).reshape(8, 8))
    assert repr(layout).startswith("<affine")
    cost = tcprobe.banks(lane_addresses="16 * lane", access="ld.shared.b32")
    assert repr(cost) == "<4 wavefronts, 1 beats, 4 cycles; 1 if no lanes collided>"


def test_a_kernel_prints_its_launch_and_shows_its_source():
    kernel = tcprobe.kernel("sm_80", "f16", tile=(128, 128, 64))
    assert "bytes of shared memory" in repr(kernel)
    assert "__global__" not in str(kernel)
    assert "&lt;const char*&gt;" in kernel._repr_html_()
