"""Swizzles as `tcprobe banks` names, reads and proposes them."""

import itertools
import json
import subprocess
import sys

import nvrtc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_bank_tiles import F16, MMA, SQUARE, TRANSPOSE, tile

from tcprobe.ask.banks.accesses import TMA, Shared, parse_shared, parse_tile, swizzle_offset
from tcprobe.ask.banks.tiles import same_mode, swizzles


def test_where_nothing_collides_nothing_is_proposed():
    answer = tile("--tile", "32x32", "--type", "f32", "--with", "st.shared.b32@rows", "--propose")
    assert answer["swizzle"]["swizzle"] == [0, 4, 3]
    assert (answer["swizzle"]["tma"], answer["padding"]["bytes"]) == ("SWIZZLE_NONE", 0)
    assert answer["swizzle"]["smaller"] == answer["padding"]["smaller"] == {}


def test_m_never_splits_an_access():
    by = parse_tile("64x64", "f16", "row")
    for widest in (1, 2, 4, 8, 16):
        assert all(1 << m >= widest for _, m, _ in swizzles(by, widest))


def bits(offset, b, m, s):
    """Swizzle<B, M, S> bit by bit: bit M + max(0, -S) + j gets bit M + max(0, S) + j XORed on."""
    for j in range(b):
        offset ^= (offset >> m + max(0, s) + j & 1) << m + max(0, -s) + j
    return offset


@given(st.integers(0, 1 << 18), st.integers(0, 5), st.integers(0, 8), st.integers(-8, 8))
def test_swizzled(offset, b, m, s):
    if abs(s) >= b:
        assert swizzle_offset(offset, (b, m, s)) == bits(offset, b, m, s)
        assert swizzle_offset(swizzle_offset(offset, (b, m, s)), (b, m, s)) == offset


def test_shared_is_read():
    assert parse_shared("plain") == Shared()
    assert parse_shared("pad:16") == Shared(16)
    assert parse_shared("sw:2,4,-3").swizzle == (2, 4, -3)
    assert parse_shared("SWIZZLE_64B").swizzle == TMA["SWIZZLE_64B"]
    assert Shared(swizzle=(3, 4, 3)).bytes(parse_tile("3x24", "f32", "row")) == 320
    assert Shared(swizzle=(3, 14, 3)).bytes(parse_tile("3x24", "f32", "row")) == 288
    assert Shared(swizzle=(1, 4, -3)).bytes(parse_tile("1x24", "f32", "row")) == 224


@pytest.mark.parametrize(
    ("size", "swizzle", "mode"),
    [
        ("64x64", (3, 4, 3), "SWIZZLE_128B"),
        ("64x32", (2, 4, 3), "SWIZZLE_64B"),
        ("64x16", (1, 4, 3), "SWIZZLE_32B"),
        ("64x64", (2, 4, 3), None),  # rows of 128 bytes are wider than the span of that mode
        ("4x64", (2, 4, 3), "SWIZZLE_128B"),  # four rows: the third bit is never set
        ("64x128", (3, 4, 3), None),
        ("64x64", (0, 4, 3), "SWIZZLE_NONE"),
        ("257x64", (3, 4, 3), None),
        ("64x64", (3, 4, 4), None),
        ("64x4", (0, 4, 3), None),
    ],
)
def test_a_mode_is_named_only_if_it_gives_the_same_offsets(size, swizzle, mode):
    by = parse_tile(size, "f16", "row")
    assert same_mode(by, Shared(swizzle=swizzle)) == mode
    assert same_mode(by, Shared(16)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")
def test_the_proposed_code_gives_the_offsets():
    """As constant expressions, checked by the compiler element by element."""
    lib = nvrtc.library()
    packed = ["--tile", "16x64", "--type", "s4", "--with", "ld.shared.b32@cols"]
    for arguments, contiguous in (([*F16, "--tile", "64x64"], "row"), (TRANSPOSE + SQUARE, "col"), (packed, "row")):
        answer = tile(*arguments, "--global", contiguous, "--propose")
        by = parse_tile(f"{answer['tile'][0]}x{answer['tile'][1]}", answer["type"], contiguous)
        for kind, shared in (
            ("swizzle", Shared(swizzle=tuple(answer["swizzle"]["swizzle"]))),
            ("padding", Shared(answer["padding"]["bytes"])),
        ):
            checks = []
            for row, col in itertools.product(range(0, by.rows, 3), range(0, by.cols, 5)):
                line, place = (row, col) if contiguous == "row" else (col, row)
                at = shared.offset(by, line, place * by.bits // 8)
                checks.append(f'static_assert(offset({row}, {col}) == {at}, "");')
            done, log = nvrtc.compile_cuda(lib, answer[kind]["code"] + "\n".join(checks), "-arch=sm_90", "-std=c++17")
            assert done, log


def test_propose_takes_a_large_tile_with_three_accesses():
    command = [
        sys.executable,
        "-m",
        "tcprobe",
        "banks",
        MMA + ".a",
        "--tile",
        "256x208",
        "--with",
        "cp.async.4",
        "ld.shared.b32",
        "ldmatrix.x4",
        "--propose",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["swizzle"]["tried"] == 61
