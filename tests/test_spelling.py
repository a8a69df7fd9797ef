"""One spelling everywhere: swizzles, sizes and types mean the same in every command, however written."""

import json
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from path_cases import CASES
from sampling import examples

from tcprobe.ask.banks.accesses import parse_shared, parse_tile
from tcprobe.ask.path.plan import PathOptions, plan_path, request
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa.tensor_map import SPANS
from tcprobe.layout.swizzle import Swizzle, swizzle_named
from tcprobe.references.shared_memory import tma
from tcprobe.store.cell import load

MMA, WGMMA = "mma.m16n8k16.row.col.f32.bf16.bf16.f32", "wgmma.m64n64k16.f32.bf16.bf16"
ROW = ["--row", "3", "--col", "5"]
# commands whose swizzle may be any; a word that stands before the spelling, or nothing where it is an argument
ANY = [
    (["path", f"{MMA}.a", "--tile", "64x128"], "--swizzle"),
    (["path", f"{MMA}.a", "--tile", "64x128"], "--shared"),
    (["path", f"{MMA}.a", "--tile", "64x32"], "--swizzle"),
    (["banks", f"{MMA}.a", "--tile", "64x128", "--with", "ldmatrix.x4"], "--swizzle"),
    (["banks", "ldmatrix", "x4", "--tile", "64x128", "--type", "bf16"], "--shared"),
    (["convert", f"{WGMMA}.d", "stmatrix", "--type", "bf16"], "--swizzle"),
    (["convert", f"{WGMMA}.d", "stmatrix", "--type", "bf16"], "--shared"),
    (["swizzle", "apply", "0..300"], None),
    (["swizzle", "table", "--extent", "32,8"], None),
    (["swizzle", "draw"], None),
]
# those that have modes alone
MODES = [
    (["descriptor", "--tile", "128x64", "--type", "bf16"], "--swizzle"),
    (["tensormap", "--tile", "64x128", "--type", "bf16"], "--swizzle"),
    (["path", f"{WGMMA}.b_smem", "--tile", "64x64", "--global", "col"], "--swizzle"),
    (["path", f"{WGMMA}.b_smem", "--tile", "64x64", "--global", "col"], "--shared"),
    (["where", f"{WGMMA}.b_smem", *ROW], "--swizzle"),
    (["show", f"{WGMMA}.b_smem"], "--swizzle"),
    (["trace", WGMMA, *ROW], "--swizzle"),
]


def answer(words, option, text):
    """What a command says as JSON: its exit code, and its lines."""
    place = [option, text] if option else []
    given_ = [*words, *place] if option else [*words[:2], text, *words[2:]]
    done = CliRunner().invoke(main, [*given_, "--json"])
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


def modes(span):
    name = f"{span}B" if span else "NONE"
    small = str(span) if span else "none"
    return [small, name, f"SWIZZLE_{name}", f"CU_TENSOR_MAP_SWIZZLE_{name}", f"swizzle_{name}".lower(), f" {small} "]


def threes(b, m, s):
    return [
        f"{b},{m},{s}",
        f"sw:{b},{m},{s}",
        f"Sw<{b},{m},{s}>",
        f"Swizzle<{b}, {m}, {s}>",
        f"cute::Swizzle<{b},{m},{s}>",
    ]


@pytest.mark.parametrize("span", [0, *SPANS.values()])
@pytest.mark.parametrize(("words", "option"), ANY + MODES, ids=lambda v: str(v)[:50])
@pytest.mark.sampled(20)
def test_every_spelling_of_a_mode_gives_the_same_answer(words, option, span):
    answers = [answer(words, option, text) for text in modes(span)]
    assert answers[0][0] == 0
    assert all(other == answers[0] for other in answers[1:])


@pytest.mark.full
@pytest.mark.parametrize("bits", SPANS)
@pytest.mark.parametrize(("words", "option"), MODES, ids=lambda v: str(v)[:50])
def test_where_there_are_modes_alone_a_swizzle_is_its_mode(words, option, bits):
    first = answer(words, option, str(SPANS[bits]))
    assert [answer(words, option, text) for text in threes(bits, 4, 3)] == [first] * 5
    assert all(answer(words, option, text)[0] == 2 for text in ("3,4,4", "sw:2,3,3", "Swizzle<4,4,4>", "0,4,"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("three", [(3, 4, 3), (2, 4, -3), (1, 5, 2)], ids=str)
@pytest.mark.parametrize(("words", "option"), ANY, ids=lambda v: str(v)[:50])
def test_every_spelling_of_a_swizzle_gives_the_same_answer(words, option, three):
    answers = [answer(words, option, text) for text in threes(*three)]
    assert answers[0][0] == 0
    assert all(other == answers[0] for other in answers[1:])


def test_a_place_is_said_once():
    for words in (
        ["path", f"{MMA}.a", "--tile", "64x128"],
        ["convert", f"{WGMMA}.d", "stmatrix", "--type", "bf16"],
        ["banks", "ldmatrix", "x4", "--tile", "64x128", "--type", "bf16"],
    ):
        done = CliRunner().invoke(main, [*words, "--shared", "128", "--swizzle", "128"])
        assert (done.exit_code, "--shared and --swizzle" in done.output) == (2, True)


SIZED = [
    (["path", f"{MMA}.a"], "--tile"),
    (["path", f"{WGMMA}.b_smem", "--global", "col"], "--tile"),
    (["banks", "ldmatrix", "x4", "--type", "bf16"], "--tile"),
    (["descriptor", "--type", "bf16"], "--tile"),
    (["tensormap", "--type", "bf16"], "--box"),
    (["swizzle", "table", "SWIZZLE_128B", "--bits", "8"], "--extent"),
]


@pytest.mark.parametrize(("words", "option"), SIZED, ids=lambda v: str(v)[:50])
def test_every_spelling_of_a_size_gives_the_same_answer(words, option):
    answers = [answer(words, option, text) for text in ("128x128", "128,128", "128X128", "128 x 128")]
    assert answers[0][0] == 0
    assert all(other == answers[0] for other in answers[1:])
    assert all(answer(words, option, text)[0] == 2 for text in ("128x", "x128", "128-128", "128x128x", "-1x8", ""))


TYPED = [
    ["path", f"{MMA}.a", "--tile", "64x64"],
    ["banks", f"{MMA}.a", "--tile", "64x64", "--with", "ldmatrix.x4"],
    ["descriptor", "--tile", "128x64"],
    ["tensormap", "--tile", "64x64"],
    ["convert", f"{WGMMA}.d", "stmatrix"],
]


@pytest.mark.parametrize("words", TYPED, ids=lambda v: v[0])
def test_every_spelling_of_a_type_gives_the_same_answer(words):
    answers = [answer(words, "--type", text) for text in ("bf16", "BF16", "BFLOAT16", "bfloat16")]
    assert answers[0][0] == 0
    assert all(other == answers[0] for other in answers[1:])


def test_a_type_that_is_not_the_fragments_is_a_mistake():
    for words in (
        ["path", f"{MMA}.a", "--tile", "64x64"],
        ["path", f"{WGMMA}.b_smem", "--tile", "64x64", "--global", "col"],
    ):
        assert answer(words, "--type", "f16")[0] == 2


@given(st.integers(0, 9), st.integers(0, 20), st.integers(-20, 20))
def test_spellings_go_there_and_back(b, m, s):
    if abs(s) < b:
        with pytest.raises(UsageError):
            swizzle_named(f"{b},{m},{s}")
        return
    named = [swizzle_named(text) for text in threes(b, m, s)]
    assert set(named) == {(Swizzle(b, m, s), False)}
    assert swizzle_named(str(named[0])) == named[0]


@given(st.text(max_size=30))
def test_no_text_is_guessed(text):
    try:
        named = swizzle_named(text)
    except UsageError:
        return
    assert any(text.strip().lower() == one.lower() for span in (0, *SPANS.values()) for one in modes(span)) or (
        text.count(",") == 2 and not named.is_mode
    )


# --- a mode means its boxes -----------------------------------------------------------------------------------------

sides = st.sampled_from([8, 16, 24, 32, 48, 64, 96, 128, 192, 256])


def planned(case, size, major, placed, fill):
    """The whole plan, or why there is none, without the name of the place."""
    try:
        return plan_path(request(load(case, "sm_90"), PathOptions(size, major, placed, None, None, fill))).to_json()
    except UsageError as error:
        return str(error).replace("SWIZZLE_", "boxes:")


@examples(25)
@given(
    st.sampled_from(sorted({case.fragment for case in CASES})),
    sides,
    sides,
    st.sampled_from(["row", "col"]),
    st.sampled_from([32, 64, 128]),
    st.sampled_from([None, "tma"]),
)
def test_the_plan_of_a_mode_is_that_of_its_boxes(fragment, rows, cols, major, span, fill):
    texts = [f"boxes:{span}", f"SWIZZLE_{span}B", str(span)]
    plans = [planned(fragment, f"{rows}x{cols}", major, text, fill) for text in texts]
    assert plans[1:] == plans[:1] * 2


@given(st.integers(1, 40), sides, st.sampled_from(["b8", "f16", "f32", "f64"]), st.sampled_from([32, 64, 128]))
def test_a_mode_puts_every_byte_where_its_tensor_map_does(lines, length, kind, span):
    """Against the measured modes: boxes as wide as the span, one after the other from multiples of 128."""
    tile, shared = parse_tile(f"{lines}x{length}", kind, "row"), parse_shared(str(span))
    mode, size, wide = tma.resolve(f"SWIZZLE_{span}B"), tile.bits // 8, min(span * 8 // tile.bits, length)
    line, place = np.mgrid[:lines, :length]
    try:
        shared.check(tile)
    except UsageError:
        assert length % wide or (lines * span % 128 and length > wide)
        return
    if wide * size % 16:
        return
    made = shared.offset(tile, line, place * size)
    for start in range(0, length, wide):
        box = tma.Box((wide, lines), tile.bits, start // wide * lines * span)
        inner = np.arange(wide)[None, :]
        assert np.array_equal(made[:, start : start + wide], mode(inner, np.arange(lines)[:, None], box))
    assert shared.bytes(tile) > made.max()


@pytest.mark.parametrize(("span", "n"), list(product(SPANS.values(), [64, 128])))
def test_a_stored_accumulator_in_boxes_collides_as_little_as_can_be(span, n):
    code, [said] = answer(
        ["convert", f"wgmma.m64n{n}k16.f32.bf16.bf16.d", "stmatrix", "--type", "bf16"], "--swizzle", str(span)
    )
    assert (code, said["pitch"], said["block"]) == (0, span, span)
    assert said["ideal"] == 64 * n * 2 // 128
    assert said["wavefronts"] == said["ideal"]


def test_lines_wider_than_the_span_cost_what_their_boxes_cost():
    code, [said] = answer(["path", f"{MMA}.a", "--tile", "64x128", "--fill", "tma"], "--shared", "SWIZZLE_128B")
    fill, reads = said["steps"]
    assert (code, len(fill["issues"]), reads["wavefronts"], reads["ideal"]) == (0, 2, 128, 128)


def test_matrices_over_a_tile_cost_what_those_of_a_fragment_cost():
    for rows, cols, placed in product((16, 64), (32, 64, 128), ("plain", "pad:16", "64", "sw:3,4,3")):
        tile = ["--tile", f"{rows}x{cols}", "--shared", placed]
        code, [said] = answer(["banks", f"{MMA}.a", "--with", "ldmatrix.x4", *tile], "--type", "bf16")
        bare, [alone] = answer(["banks", "ldmatrix", "x4", *tile], "--type", "bf16")
        assert (code, bare) == (0, 0)
        assert {**said, "fragment": None} == alone


def test_code_is_called_alike_however_a_swizzle_is_written(tmp_path):
    texts = set()
    for number, text in enumerate(modes(128)[:4]):
        header = tmp_path / f"{number}.h"
        words = ["convert", f"{WGMMA}.d", "stmatrix", "--type", "bf16", "--shared", text, "-o", str(header)]
        assert CliRunner().invoke(main, words).exit_code == 0
        texts.add(header.read_text())
    assert len(texts) == 1
