"""`order` of a kernel's PTX: found without a GPU, and the same as of the function that does by hand what it does."""

import json
from pathlib import Path

import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner

import tcprobe
from tcprobe.arithmetic import order_text
from tcprobe.arithmetic.order import Multiplies, postorder
from tcprobe.cli import main
from tcprobe.order.bench import Shape
from tcprobe.order.calls import Call, CallError, CallOptions, call
from tcprobe.order.evaluate import multiply
from tcprobe.order.memory import ArrayModule
from tcprobe.order.reveal import reveal_call

EXAMPLES = Path(__file__).parent.parent / "examples" / "orders"
HALVES = ("order", str(EXAMPLES / "halves.ptx"), "--launch", str(EXAMPLES / "halves.json"))
FORM = "mma.m16n8k16.row.col.f32.f16.f16.f32"
TYPES = ("f32", "f32", "f32")


def of_ptx(path, launch, operands=(0, 1, 2), types=TYPES, **more):
    return call(str(path), types, CallOptions(launch=str(launch), operands=operands, **more))


def test_it_is_the_order_of_the_same_sums_by_hand():
    def by_hand(x, y):
        half = x.shape[1] // 2
        sums = []
        for part in (slice(0, half), slice(half, None)):
            total = np.zeros((x.shape[0], y.shape[1]), np.float32)
            for i in range(x.shape[1])[part]:
                exact = x[:, i : i + 1].astype(np.float64) * y[i : i + 1].astype(np.float64)
                total = (exact + total).astype(np.float32)  # rounded twice: operands of few bits are exact in between
            sums.append(total)
        return sums[0] + sums[1]

    found = reveal_call(of_ptx(EXAMPLES / "halves.ptx", EXAMPLES / "halves.json"), Shape(8, 32, 64))
    memory = ArrayModule(np, "cpu")
    own = reveal_call(Call("by hand", memory, TYPES[:2], by_hand, "f32", about={"arch": "sm_90"}), Shape(8, 32, 64))
    assert order_text.to_json(found.order)["sum"] == order_text.to_json(own.order)["sum"]
    assert (found.elements, found.different, found.kernel) == (4096, 0, ("halves",))


def test_the_command_saves_an_order_that_gives_the_kernels_bits(tmp_path):
    saved, shape = tmp_path / "order.json", ("--shape", "8x32x64", "--type", ",".join(TYPES))
    done = CliRunner().invoke(main, [*HALVES, "--operands", "0,1,2", *shape, "-o", str(saved)])
    assert done.exit_code == 0, done.output
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((8, 64), np.float32), rng.standard_normal((64, 32), np.float32)
    launch = json.loads((EXAMPLES / "halves.json").read_text())
    launch["arguments"][:3] = [a, b, np.zeros((8, 32), np.float32)]
    kernel = tcprobe.emulate(EXAMPLES / "halves.ptx", launch=launch)
    assert (kernel.arrays[2].view(np.uint32) == multiply(saved, a, b).view(np.uint32)).all()


def refused(*words):
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code in (1, 2), done.output
    return done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*HALVES, "--operands", "0,1,2", "--shape", "8x32x32", "--type", "f32,f32,f32"), "one shape"),
        ((*HALVES, "--operands", "0,1,4", "--shape", "8x32x64", "--type", "f32,f32,f32"), "argument 4"),
        ((*HALVES, "--operands", "0,1,77", "--shape", "8x32x64", "--type", "f32,f32,f32"), "argument 77"),
        ((*HALVES, "--operands", "0,1", "--shape", "8x32x64", "--type", "f32,f32,f32"), "0,1,2"),
        ((*HALVES, "--operands", "0;1", "--shape", "8x32x64", "--type", "f32,f32,f32"), "0,1,2"),
        ((*HALVES, "--shape", "8x32x64", "--type", "f32,f32,f32"), "operands"),
        ((*HALVES, "--operands", "0,1,2", "--shape", "8x32x64", "--type", "f32"), "three types"),
    ],
)
def test_what_does_not_fit_is_refused(words, said):
    assert said in refused(*words)


def test_a_kernel_that_is_wrong_has_no_order(tmp_path):
    """It reads past its buffer: what it sums then is nobody's."""
    text = (EXAMPLES / "halves.ptx").read_text().replace("mul.wide.u32 %rd5, %r3, 4", "mul.wide.u32 %rd5, %r3, 8")
    (tmp_path / "wrong.ptx").write_text(text)
    wrong = of_ptx(tmp_path / "wrong.ptx", EXAMPLES / "halves.json")
    with pytest.raises(CallError, match="bounds"):
        reveal_call(wrong, Shape(8, 32, 64))


@pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC")
@pytest.mark.full
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_kernel_of_multiplies(tmp_path, arch):
    """Of `kernel gemm`: a chain of multiplies along k, with the arithmetic that the emulator has."""
    size = (16, 16, 64)
    words = ["kernel", "gemm", "--type", "f16", "--arch", arch, "--multiply", "mma", "--tile", "16x16x32"]
    words += ["--warps", "1x1", "--size", "x".join(map(str, size)), "-o", str(tmp_path / "k.cu"), "--json"]
    made = json.loads(CliRunner().invoke(main, words).stdout)
    options = [f"--gpu-architecture=compute_{arch[3:]}", "--std=c++17"]
    (tmp_path / "k.ptx").write_text(nvrtc.ptx(nvrtc.library(), (tmp_path / "k.cu").read_text(), *options))
    m, n, k = size
    buffers = [{"zeros": 2 * m * k}, {"zeros": 2 * n * k}, {"zeros": 2 * m * n}]
    numbers = [*({"s32": side} for side in size), {"s64": 2 * k}, {"s64": 2 * k}, {"s64": 2 * n}]
    launch = {"grid": made["grid"], "block": made["block"], "shared": made["shared_bytes"]}
    (tmp_path / "k.json").write_text(json.dumps({**launch, "arguments": buffers + numbers}))
    kernel = of_ptx(tmp_path / "k.ptx", tmp_path / "k.json", types=("f16",) * 3, a="row", b="col")
    found = reveal_call(kernel, Shape(*size))
    assert found.different == 0
    assert {node.form for node in postorder(found.order.sum) if isinstance(node, Multiplies)} == {FORM}
