"""Calls that are no GEMM are told apart and named; calls that hang or die are survived; sizes, places, sums."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Multiplies, Order, Types, products
from tcprobe.cli import main
from tcprobe.errors import EnvironmentUnfitError, UsageError
from tcprobe.order import child, multiply, proof
from tcprobe.order.answer import reveal
from tcprobe.order.batches import batches, sizes_of
from tcprobe.order.bench import Shape
from tcprobe.order.calls import Call, CallError, CallOptions, call, majors_of
from tcprobe.order.memory import ArrayModule, fill_from_samples, matrix, patterns
from tcprobe.order.reveal import reveal_call

FILE = Path(__file__).parent / "data" / "order_functions.py"


def found(name, types="f32", shape=(8, 16, 32), **options):
    made = call(f"{FILE}:{name}", types.split(","), CallOptions(on="cpu", **options))
    return reveal_call(made, Shape(*shape))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nan", "gives nan for products of small numbers: it is no GEMM"),
        ("transposed", "returns 16 x 8, where D of A and B is 8 x 16"),
        ("scalar", "returned a float32, which is no array"),
        ("twice", r"gives 2.0 times A B \(alpha or a scale\)"),
        ("biased", r"adds 3.0 to A B \(beta or a bias\)"),
        ("biased_by_column", "adds a number of its own to each column"),
        ("relu", r"is no GEMM: D\[0\]\[\d+\] is 0.0, where the sum of its products is -"),
        ("square", r"is no GEMM: D\[0\]\[0\] is "),
        ("raises", "raises ValueError: no$"),
        ("leaves", "raises SystemExit: 3$"),
        ("zero", "gives zero, whatever A and B are: it is no GEMM"),
        ("nothing", "returned a NoneType, which is no array"),
        ("writes", "writes its operands: 1 elements of B have changed"),
        ("shuffled", r"two equal calls of .* differ in \d+ of 128 elements of D, as with atomic additions"),
        ("no_tree", "No tree of sums explains it|no tree of sums explains it|other bits for the same operands"),
        ("changing", "other bits for the same operands|contradict|two equal calls|no tree"),
    ],
)
def test_what_is_no_gemm_is_named(name, words):
    with pytest.raises(CallError, match=words):
        found(name)


def test_d_is_of_the_type_that_was_asked_for():
    with pytest.raises(CallError, match="returns elements of f64, where f32 was asked for"):
        found("doubles", "f32,f32,f32")


def test_partial_sums_of_16_bits_are_named():
    with pytest.raises(CallError, match="rounds partial sums to f16 before they are joined"):
        found("half_sums", "f16", (8, 32, 64))


@pytest.mark.parametrize("types", ["f32", "tf32"])
def test_products_that_are_rounded_before_they_are_added(types):
    order = found("chain", types).order
    assert isinstance(order.sum, Additions)
    assert all(isinstance(term, FusedMultiplyAdds) for term in order.sum.terms)
    assert [list(part) for part in products(order.sum)] == [[k] for k in range(32)]


def test_a_reduction():
    made = found("pairwise", "f32", (64, 1, 64), sums=True)
    assert made.different == 0
    assert made.elements >= 4096
    order, depth = made.order.sum, 0
    while isinstance(order, Additions):
        order, depth = order.terms[0], depth + 1
    assert depth <= 6


def test_the_denominator_of_a_softmax():
    """Its terms are positive: three at a time show the same tree."""

    def softmax(x):
        return np.float32(1) / pairwise(np.exp(x - x.max(axis=1, keepdims=True)))

    pairwise = runpy.run_path(str(FILE))["pairwise"]
    made = reveal_call(
        Call("softmax", ArrayModule(np, "cpu"), ("f32", "f32"), softmax, "f32", sums=True, softmax=True),
        Shape(500, 1, 22),
    )
    summed = found("pairwise", "f32", (64, 1, 22), sums=True)
    assert made.order == summed.order
    assert (made.elements, made.different) == (0, 0)
    with pytest.raises(CallError, match="is no softmax"):
        reveal_call(
            Call("sum", ArrayModule(np, "cpu"), ("f32", "f32"), pairwise, "f32", sums=True, softmax=True),
            Shape(64, 1, 22),
        )


def test_batches():
    """Split k up to four rows: two ranges, and row 0's bits change between them."""
    made = batches(call(f"{FILE}:by_batch", ["f16"], CallOptions(on="cpu")), sizes_of("1..2,5,8x32x32"))
    assert made.changes
    assert [span.sizes for span in made.spans] == [(1, 2), (5, 8)]
    assert [type(span.found.order.sum) for span in made.spans] == [Additions, Multiplies]
    assert all(span.proven and set(span.proven) <= set(span.sizes) for span in made.spans)
    assert sum(span.found.different for span in made.spans) == 0
    alike = batches(call(f"{FILE}:chain", ["f32"], CallOptions(on="cpu")), sizes_of("6x24,32x7"))
    assert not alike.changes
    assert [span.sizes for span in alike.spans] == [(24, 32)]
    depths = batches(call(f"{FILE}:chain", ["f32"], CallOptions(on="cpu")), sizes_of("4x32x7..8"))
    assert depths.changes is None
    assert [span.found.order.k for span in depths.spans] == [7, 8]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["e4m3", "bf16", "f32"])
def test_a_rows_bits_show_how_partial_sums_are_joined(kind):
    """Chains one after another, in halves, and with two of them exchanged."""
    form = {"e4m3": "wgmma.mma_async.m64n8k32.f32.e4m3.e4m3", "bf16": "wgmma.mma_async.m64n8k16.f32.bf16.bf16"}.get(
        kind
    )
    types, k = Types(kind, kind, "f32" if kind == "f32" else "bf16"), 1024
    ranges = [((at, at + 128),) for at in range(0, k, 128)]
    chains = [Multiplies(form, each) if form else FusedMultiplyAdds("f32", each) for each in ranges]
    halves = Additions([Additions(chains[:4]), Additions(chains[4:])])
    exchanged = Additions([*chains[:3], chains[5], chains[4], chains[3], *chains[6:]])
    rows = [proof.of_row(types, k, 128, seed) for seed in range(2)]
    d = [
        [multiply(Order("sm_90", types, k, node), row.a, row.b).tobytes() for row in rows]
        for node in (Additions(chains), halves, exchanged, Additions(chains))
    ]
    assert d[0] == d[3]
    assert d[0] != d[1]
    assert d[0] != d[2]


def test_an_order_that_depends_on_the_place():
    """It is that of the first rows and columns, and where others are is said."""
    made = found("by_tile", "f16", (48, 40, 64))
    assert isinstance(made.order.sum, Multiplies)
    assert made.different == 0
    assert made.places.different > 0
    assert (made.places.rows, made.places.cols) == ((16, 47), (24, 39))
    assert made.places.alike == ((1, 48), (1, 40))


@pytest.mark.parametrize("sums", [False, True])
def test_an_order_that_depends_on_a_lines_alignment(sums):
    """Every second row begins otherwise: the order is that of the others."""
    made = found("by_parity_of_rows" if sums else "by_parity", "f32", (64, 1 if sums else 40, 23), sums=sums)
    assert made.different == 0
    assert made.places.different > 0
    assert made.places.alike[0] == (2, 32)
    plain = found("pairwise", "f32", (64, 1, 23), sums=True) if sums else found("chain", "f32", (4, 40, 23))
    assert made.order == plain.order


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8x16", "MxNxK is needed"),
        ("8x16x0", "no range of sizes"),
        ("8..4x16x32", "no range of sizes"),
        ("ax16x32", "is no size"),
        ("8x16x-1", "is no size"),
        ("1,2x3,4x5", "one side may have several sizes, not m and n"),
        ("1..9999x4x4", "no range of sizes"),
        ("4x4x1..99", "of k at most 64"),
        ("999999999x4x4", "is no size"),
    ],
)
def test_shapes_that_are_none(text, words):
    with pytest.raises(UsageError, match=words):
        sizes_of(text)


def test_shapes():
    assert sizes_of("8x4096x64").shapes == (Shape(8, 4096, 64),)
    assert [shape.m for shape in sizes_of("1..3,8x4x4").shapes] == [1, 2, 3, 8]
    assert sizes_of("64x300", sums=True).shapes == (Shape(64, 1, 300),)
    assert sizes_of("4x8,16x4").side == "n"


@pytest.mark.parametrize(
    ("name", "types", "words"),
    [
        ("nobody", ["f32"], "one of cupy.matmul"),
        ("missing.py:f", ["f32"], "there is no such file"),
        (f"{FILE}:nobody", ["f32"], "has no function"),
        (f"{FILE}:HALF", ["f32"], "has no function"),
        ("torch.mm", ["e9"], "of f64, f32"),
        (f"{FILE}:integers", ["s32"], "s32 is a type of D alone"),
        ("torch.mm", ["e4m3"], "torch._scaled_mm"),
        ("torch.mm", ["f16", "bf16"], "one type for A and B"),
        ("torch._scaled_mm", ["f16"], "takes e4m3 and e5m2"),
        ("cupy.matmul", ["e4m3"], "cupy.matmul takes"),
        ("torch.mm", [], "types of A, B and D"),
    ],
)
def test_calls_that_are_none(name, types, words):
    with pytest.raises((UsageError, EnvironmentUnfitError), match=words):
        call(name, types)


def test_majors():
    assert majors_of("row, col") == ("row", "col")
    assert majors_of(None) == (None, None)
    for text in ("row", "row,up", "a,b,c", ""):
        with pytest.raises(UsageError, match="row,col"):
            majors_of(text)


@pytest.mark.parametrize("contiguous", ["row", "col"])
def test_a_matrix_keeps_its_strides(contiguous):
    memory = ArrayModule(np, "cpu")
    made = matrix(memory, (5, 7), "f16", contiguous, 16)
    assert made.shape == (5, 7)
    assert max(made.strides) % 16 == 0
    samples = patterns("f16", np.arange(21).reshape(3, 7))
    fill_from_samples(memory, made, samples, 0)
    assert (made == samples[np.arange(5) % 3]).all()
    fill_from_samples(memory, made, patterns("f16", np.arange(10).reshape(5, 2)), 1)
    assert (made[:, 6] == made[:, 0]).all()


def test_a_call_that_hangs_or_dies_is_survived(monkeypatch):
    monkeypatch.setattr(child, "PATIENCE", 1.5)
    with pytest.raises(CallError, match=r"hangs: nothing came back for 1.5 s \(calls\); its process was ended"):
        reveal(f"{FILE}:hangs", "8x16x32", "f32", CallOptions(on="cpu"))
    with pytest.raises(CallError, match=r"ended its process \(signal 6\)"):
        reveal(f"{FILE}:aborts", "8x16x32", "f32", CallOptions(on="cpu"))


def run(*words):
    return CliRunner().invoke(main, ["order", *map(str, words)])


def test_the_command(tmp_path):
    """What is found is saved, read, and gives D; what is none saves nothing and exits with 1."""
    saved = tmp_path / "order.json"
    done = run(f"{FILE}:talks", "--shape", "4x32x16", "--type", "f32", "--on", "cpu", "--json", "-o", saved)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["different"] == 0
    assert answer["elements"] >= 4096
    assert answer["order"]["sum"] == json.loads(saved.read_text())["sum"]
    assert run("--file", saved).exit_code == 0
    saved.unlink()
    done = run(f"{FILE}:twice", "--shape", "4x32x16", "--type", "f32", "--on", "cpu", "-o", saved)
    assert done.exit_code == 1
    assert "2.0 times" in done.stderr
    assert not saved.exists()
    done = run(f"{FILE}:in_f64", "--shape", "16x32x64", "--type", "f32", "--on", "cpu", "-o", saved)
    assert done.exit_code == 1
    assert "the order is not proven: -o does not save it" in done.stdout
    assert not saved.exists()


def test_sums_of_integers_have_any_order():
    made = found("integer_sums", "s8", (64, 1, 96), sums=True)
    assert (made.different, made.order.types.d) == (0, "s32")
    assert made.elements >= 4096


@pytest.mark.parametrize("types", ["s8", "u8,s8,s32"])
def test_integers_have_any_order(types):
    done = run(f"{FILE}:integers", "--shape", "1,8x64x96", "--type", types, "--on", "cpu")
    assert done.exit_code == 0, done.output
    assert "row 0's bits are the same in all of them" in done.stdout
    assert done.stdout.count(": 0 differ") == len(done.stdout.splitlines()) // 2


def test_the_command_without_what_it_needs():
    for words, code in (
        (["torch.mm", "--type", "f16"], 2),
        (["torch.mm", "--shape", "8x8x8"], 2),
        (["torch.mm", "--shape", "8x8", "--type", "f16"], 2),
        ([f"{FILE}:chain", "--shape", "8x8x99999", "--type", "f32", "--on", "cpu"], 2),
    ):
        done = run(*words)
        assert (done.exit_code, done.output.count("Traceback")) == (code, 0), done.output


def test_batches_in_words(tmp_path):
    saved = tmp_path / "order.json"
    done = run(f"{FILE}:by_batch", "--shape", "1,8x32x32", "--type", "f16", "--on", "cpu", "-o", saved)
    lines = done.stdout.splitlines()
    assert any(line.startswith("m 1: ") for line in lines)
    assert any(line.startswith("m 8: ") for line in lines)
    assert "row 0's bits change between these ranges" in lines
    assert (done.exit_code, saved.exists()) == (2, False)
    assert "-o takes one order; several were found" in done.stderr
