"""`agree`: pairs of writer and reader of real code, and the same spoilt; where each puts every byte; bad input."""

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.agree import SCALES, agree, compared, read_side
from tcprobe.ask.banks.accesses import bits_of
from tcprobe.cli import main
from tcprobe.errors import DataError, UsageError, answer_or_none
from tcprobe.store.choose import layers

DATA = Path(__file__).parent / "data"
PAIRS = list(csv.DictReader((DATA / "agree.csv").read_text("utf-8").splitlines()))
MODES = {16: 0, 32: 1, 64: 2, 128: 3}


def swizzled(at, bits, base, shift):
    """Swizzle<B,M,S> of CuTe, by its definition."""
    mask = ((1 << bits) - 1) << (base + shift)
    return at ^ ((at & mask) >> shift)


def rule(name, rows, cols, size):  # noqa: C901, PLR0911, PLR0912
    """Byte of each element as the code that is cited computes it, written here once more from that code."""
    r, c = np.mgrid[0:rows, 0:cols]
    byte = c * size
    words = name.split()
    if name == "rows":
        return r * cols * size + byte
    if name == "columns":
        return c * (-(-rows * size // 16) * 16) + r * size
    if name == "columns of f32":
        return (c * (-(-rows // 4) * 4) + r) * 4
    if name == "padded":
        return r * (cols * size + 16) + byte
    if words[0] == "xor":  # get_permuted_offset: b128 j of row i, i * stride + (j ^ (i % 8)), or (j ^ ((i / 2) % 4))
        stride, j = cols * size // 16, byte // 16
        return (r * stride + (j ^ (r % 8 if words[1] == "128" else r // 2 % 4))) * 16 + byte % 16
    if words[0] == "sw":
        return swizzled(r * cols * size + byte, *map(int, words[1:]))
    if words[0] == "boxes":  # of a tensor map: boxes as wide as the swizzle, one after the other
        width = int(words[1])
        line, place, lines = (c, r * size, cols) if name.endswith("columns") else (r, byte, rows)
        return swizzled(place // width * lines * width + line * width + place % width, MODES[width], 4, 3)
    if words[0] == "gmma":  # the canonical layouts of mma_traits_sm90_gmma.hpp, tiled along lines, then along k
        width = int(words[2])
        if words[1] == "k":
            at = byte // width * rows * width + r * width + byte % width
        else:
            line = r * size
            at = line // width * cols * width + c * width + line % width
        return swizzled(at, MODES[width], 4, 3)
    if name in ("sfatom", "blocks of 128"):
        tiles = -(-cols // 4)
        return (r // 128 * tiles + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4
    if name == "blocks of 8":
        return (r // 8 * -(-cols // 4) + c // 4) * 32 + r % 8 * 4 + c % 4
    if name == "packed":
        return (c // 4 * (-(-rows // 4) * 4) + r) * 4 + c % 4
    if name == "v scales":  # swizzle_scale_offset(t, s, scale_dim)
        group = cols // 4
        return (r // 4 * 4 + c // group) * cols + c % group * 4 + r % 4
    if name == "other blocks":
        return ((r // 32 * 4 + c // 4) * 32 + r % 32) * 4 + c % 4
    raise AssertionError(name)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair['writer']}-{pair['reader']}"[:60])
def test_a_pair_of_real_code_is_judged_right(pair):
    """Both sides put every byte where the code that is cited does, and the verdict is theirs."""
    folders, expected = layers(None), []
    for side in ("writer", "reader"):
        read = read_side(pair[side].replace('"', ""), None, folders)
        truth = rule(pair[f"{side}_rule"], read.rows, read.cols, read.bits // 8)
        assert (read.at == truth * 8).all(), pair[side]
        expected.append(truth)
    found = agree(pair["writer"].replace('"', ""), pair["reader"].replace('"', ""))
    wrong = np.flatnonzero((expected[0] != expected[1]).ravel())
    assert found.agree == (pair["agree"] == "true") == (not len(wrong))
    assert found.different == len(wrong)
    if len(wrong):
        row, col = divmod(int(wrong[0]), expected[0].shape[1])
        assert found.first == (row, col, expected[0][row, col], expected[1][row, col])


def test_half_of_the_pairs_are_spoilt():
    assert len(PAIRS) == 60
    assert [pair["agree"] for pair in PAIRS].count("false") == 30
    assert all(pair["repository"] and pair["commit"] and ":" in pair["place"] for pair in PAIRS)
    assert len({pair["place"] for pair in PAIRS}) > 15


@pytest.mark.parametrize("pair", [p for p in PAIRS if p["agree"] == "false"], ids=lambda p: p["reader"][:50])
def test_a_change_that_is_named_makes_them_agree(pair):
    found = agree(pair["writer"].replace('"', ""), pair["reader"].replace('"', ""))
    if found.change is None:
        return
    sides = {"writer": found.writer.text, "reader": found.reader.text, found.change.whose: found.change.text}
    assert agree(sides["writer"], sides["reader"]).agree


def test_most_changes_are_found():
    spoilt = [agree(p["writer"].replace('"', ""), p["reader"].replace('"', "")) for p in PAIRS if p["agree"] == "false"]
    assert sum(found.change is not None for found in spoilt) >= 24


SIDES = st.sampled_from(
    [
        "tma:bf16,64x64,128B",
        "tma:bf16,64x64,none",
        "cp.async:bf16,64x64,pad:16",
        "cp.async:bf16,64x64,64B",
        "cp.async:bf16,64x64,plain,col",
        "desc:bf16,64x64,k,64B",
        "desc:bf16,64x64,mn,none",
        "numpy:bf16,64x64,.T",
        "numpy:bf16,64x64,.reshape(8,8,64).transpose(1,0,2)",
    ]
)


@given(SIDES, SIDES)
def test_agreement_is_symmetric(first, second):
    here, there = agree(first, second), agree(second, first)
    assert here.different == there.different
    assert here.agree == (first == second) or here.agree
    if here.first:
        assert here.first[:2] == there.first[:2]
        assert here.first[2:] == there.first[:1:-1]


@pytest.mark.parametrize("name", SCALES)
def test_a_layout_of_scales_puts_no_two_at_one_byte(name):
    side = read_side(f"scales:{name},136x12", None, layers(None))
    assert len(np.unique(side.at)) == side.at.size


def said(*words):
    done = CliRunner().invoke(main, ["agree", *words])
    return done.exit_code, done.output


def test_exit_codes_and_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_text("row,col,byte\n" + "".join(f"{r},{c},{r * 8 + c}\n" for r in range(4) for c in range(8)))
    code, text = said("map:own.csv", "scales:linear,4x8", "--json")
    assert (code, json.loads(text)["agree"], json.loads(text)["first"]) == (0, True, None)
    code, text = said("map:own.csv", "numpy:u8,4x8,.T", "--json")
    found = json.loads(text)
    assert (code, found["different"], found["first"]) == (1, 30, {"row": 0, "col": 1, "writer": 1, "reader": 4})
    assert "agree: all 32 bytes" in said("map:own.csv", "scales:linear,4x8")[1]


def test_an_element_that_a_file_lacks_differs(tmp_path):
    path = tmp_path / "part.csv"
    path.write_text("0,0,0\n0,1,1\n1,1,3\n")
    found = agree(f"map:{path}", "scales:linear,2x2")
    assert (found.different, found.first) == (1, (1, 0, None, 2))


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "tma",
        "tma:",
        "nothing:f16,8x8,plain",
        "tma:f16,64x64",
        "tma:f17,64x64,128B",
        "tma:f16,0x64,128B",
        "tma:f16,99999999x99999999,128B",
        "tma:f16,64x64,sw:3,4,4",
        "cp.async:f16,64x64,sw:1,2,3",
        "desc:bf16,64x64,x,128B",
        "desc:bf16,64x8,k,128B",
        "ldmatrix:nothing,64x64,plain",
        "ldmatrix:mma.m16n8k16.row.col.f32.f16.f16.f32.a,20x20,plain",
        "ldmatrix:mma.m16n8k16.row.col.f32.f16.f16.f32.d,64x64,plain",
        "scales:nothing,8x8",
        "scales:sfatom",
        "numpy:f32,8x8,.reshape(7,9)",
        "numpy:f32,8x8,.__class__",
        "numpy:f32,8x8,.reshape(len)",
        "numpy:f32,8x8,import os",
        "numpy:f32,8x8," + ".T" * 2000,
    ],
)
def test_what_means_nothing_is_refused(wrong):
    with pytest.raises(UsageError):
        agree(wrong, "scales:linear,8x8")


def test_different_sizes_and_types_are_refused():
    with pytest.raises(UsageError, match="same matrix"):
        agree("scales:linear,8x8", "scales:linear,8x4")
    with pytest.raises(UsageError, match="bits"):
        agree("cp.async:f16,8x8,plain", "scales:linear,8x8")


@pytest.mark.parametrize("text", ["", "a,b\n", "0,0\n", "0,0,0\n0,0,1\n", "0,-1,0\n", "9999999999,0,0\n"])
def test_a_file_that_is_no_map_is_not_trusted(text, tmp_path):
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(DataError):
        agree(f"map:{tmp_path / 'm.csv'}", "scales:linear,8x8")


def test_a_side_compared_with_itself_agrees():
    side = read_side("desc:bf16,128x64,mn,128B", None, layers(None))
    assert compared(side, side, lambda text: read_side(text, None, layers(None))).agree


# laws of what is accepted and of what is suggested
PLACES = ("plain", "pad:16", "pad:8", "64B", "128B", "sw:3,3,3")
NUMPY = (".T", ".reshape(-1)", ".T.ravel().reshape(8,-1)", ".reshape(8,8,-1).transpose(1,0,2)", ".flatten().T")


def spelled(size, fragment):
    """Sides of one matrix of 16-bit elements, in every way of writing them; a fragment of `fragment` or none."""
    sides = [f"tma:bf16,{size},{mode}" for mode in ("none", "plain", "64", "SWIZZLE_128B")]
    sides += [f"cp.async:bf16,{size},{place}{turned}" for place in PLACES for turned in ("", ",col")]
    sides += [
        f"{kind}:{fragment},{size},{place}{turned}"
        for kind in ("ldmatrix", "st.shared")
        for place in PLACES
        for turned in ("", ",col")
    ]
    sides += [f"desc:bf16,{size},{major},{mode}" for major in ("k", "mn") for mode in ("none", "128B")]
    return [*sides, *(f"numpy:bf16,{size},{steps}" for steps in NUMPY)]


SIZES = {"64x64": "mma m16n8k16 bf16 a", "128x8": "mma m16n8k16 f16 f16 d", "8x512": "mma m16n8k16 bf16 b"}


def accepted(size):
    """The sides that are answered."""
    return [side for text in spelled(size, SIZES[size]) if (side := made(text))]


def made(text):
    """The side, None where it is refused."""
    return answer_or_none(lambda: read_side(text, None, layers(None)))


@pytest.mark.parametrize("size", SIZES)
def test_a_side_is_read_back_from_its_own_text(size):
    for side in accepted(size):
        again = read_side(side.text, None, layers(None))
        assert (again.text, again.words) == (side.text, side.words)
        assert (again.at == side.at).all(), side.text


@pytest.mark.parametrize("size", SIZES)
def test_every_change_is_accepted_and_makes_the_sides_agree(size, sample):
    """A change is a spelling that `agree` itself takes, of every pair that differs."""
    sides = [side.text for side in accepted(size)]
    for writer, reader in sample(list(product(sides, sides)), 67):
        if change := agree(writer, reader).change:
            pair = {"writer": writer, "reader": reader, change.whose: change.text}
            assert agree(pair["writer"], pair["reader"]).agree, (writer, reader, change)


@pytest.mark.parametrize("type_", ["u8", "bf16", "f32", "f64", "e2m1"])
def test_a_box_beyond_the_limits_of_tensor_maps_is_refused(type_, sample):
    """cuTensorMapEncodeTiled: sides of 1 to 256 elements, rows of a multiple of 16 bytes, 228 KiB of shared memory."""
    bits = bits_of(type_)
    for rows, cols, span in sample(list(product((1, 8, 255, 256, 257), (4, 8, 12, 16, 64, 512), (0, 32, 64, 128))), 7):
        row_bytes = cols * bits / 8
        sides = (rows, min(row_bytes, span or row_bytes) * 8 / (bits if bits > 4 else 8))
        fits = max(sides) <= 256 and row_bytes % 16 == 0 and (not span or row_bytes <= span or row_bytes % span == 0)
        starts = not span or row_bytes <= span or rows * span % 128 == 0
        side = made(f"tma:{type_},{rows}x{cols},{span or 'none'}")
        assert (side is not None) == (fits and starts and rows * row_bytes <= 228 << 10), (rows, cols, span)


@pytest.mark.parametrize("kind", ["ldmatrix", "stmatrix"])
def test_a_line_that_a_matrix_cannot_begin_at_is_refused(kind):
    """PTX ISA, ldmatrix: rows of 16 bytes begin at multiples of 16."""
    for padding in range(1, 40):
        assert (made(f"{kind}:mma m16n8k16 bf16 a,64x64,pad:{padding}") is None) == bool(padding % 16)


STEPS = {
    "reshape": lambda array, *n: array.reshape(n),
    "view": lambda array, *n: array.reshape(n),
    "transpose": lambda array, *n: array.transpose(n or None),
    "swapaxes": lambda array, *n: array.swapaxes(*n),
    "T": lambda array: array.T,
    "ravel": np.ravel,
    "flatten": lambda array: array.flatten(),
    "contiguous": np.ascontiguousarray,
}


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.randoms(use_true_random=False)), max_size=6))
def test_steps_are_numpys(steps):
    """Each call does what NumPy's does, also where it changes the number of axes."""
    array, text = np.arange(64).reshape(8, 8), ""
    for name, random in steps:
        numbers = ()
        if name in ("reshape", "view"):
            numbers = random.choice([(64,), (8, 8), (4, 2, 8), (2, 2, 16), (-1, 4)])
        elif name == "transpose":
            numbers = tuple(random.sample(range(array.ndim), array.ndim))
            numbers = () if numbers == (0, 1) else numbers  # which PyTorch does not leave as it is
        elif name == "swapaxes":
            numbers = (random.randrange(array.ndim), random.randrange(array.ndim))
        array = STEPS[name](array, *numbers)
        text += f".{name}" + ("" if name == "T" else f"({','.join(map(str, numbers))})")
    if text:
        order = read_side(f"numpy:u8,8x8,{text}", None, layers(None)).at.ravel() // 8
        assert (np.argsort(order) == array.ravel()).all(), text


@pytest.mark.parametrize(
    "text", [".ravel(1)", ".contiguous(0)", ".flatten(1,0)", ".transpose(0,1)", ".ravel().transpose(1,0)"]
)
def test_a_step_that_does_not_fit_is_refused(text):
    with pytest.raises(UsageError):
        read_side(f"numpy:u8,8x8,{text}", None, layers(None))
