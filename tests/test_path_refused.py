"""Paths that do not exist: why, and what does; and whatever else is asked is answered or refused."""

import itertools
import json
import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from path_cases import F16, F64, S8, TF32
from sampling import examples
from test_path import answered, check

from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.store.cell import load


def refused(*arguments):
    done = CliRunner().invoke(main, ["path", *arguments, "--json"])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return done.stderr


REFUSED = [
    (
        [F16 + ".b", "--tile", "64x64", "--global", "row", "--with", "ldmatrix.x4"],
        ["need it with .trans", "--with ldmatrix.x4.trans", "--global col"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--with", "ldmatrix.x4.trans"],
        ["without .trans", "--with ldmatrix.x4"],
    ),
    (
        [S8 + ".b", "--tile", "64x64", "--with", "ldmatrix.x4.trans"],
        [".trans exchanges elements of 16 bits, not the 8 of s8", "--with ld.shared.b8"],
    ),
    (
        [TF32 + ".a", "--tile", "32x32", "--global", "col", "--with", "ldmatrix.x4"],
        [".trans exchanges elements of 16 bits", "--with ld.shared.b32", "--global row"],
    ),
    (
        [TF32 + ".a", "--tile", "32x32", "--global", "col", "--with", "ldmatrix.x4.trans"],
        ["not the 32 of tf32"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--ld", "65"],
        ["130 bytes apart", "--ld 66", "--fill plain"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--shared", "pad:4", "--with", "ldmatrix.x4"],
        ["multiples of 16", "--shared pad:16"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--shared", "sw:3,3,3", "--with", "ldmatrix.x4"],
        ["splits", "--shared sw:3,4,3"],
    ),
    (
        [F16 + ".a", "--tile", "64x32", "--shared", "sw:3,4,3", "--fill", "tma"],
        ["--shared SWIZZLE_64B", "--fill cp.async"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--ld", "68", "--fill", "tma"],
        ["not a multiple of 16", "--ld 72"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--shared", "pad:16", "--fill", "tma"],
        ["144 bytes apart", "--shared SWIZZLE_128B"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--fill", "tma", "--arch", "sm_80"],
        ["need sm_90", "--fill cp.async"],
    ),
    (
        [F16 + ".d", "--tile", "64x64", "--fill", "cp.async", "--with", "st.shared.b64"],
        ["only from global to shared memory", "--fill tma"],
    ),
    (
        [F16 + ".d", "--tile", "64x64", "--with", "stmatrix.x4"],
        ["not 8 x 8 matrices", "--with st.shared.b64", "As bf16 it is stored by `tcprobe convert"],
    ),
    (
        [F16 + ".a", "--tile", "64x40"],
        ["16 x 16; a tile of 64 x 40 is not a whole number of them"],
    ),
    (
        [F16 + ".b", "--tile", "16x8", "--global", "col", "--with", "ldmatrix.x4"],
        ["not a multiple of 4", "--with ldmatrix.x2"],
    ),
    (
        [F64 + ".a", "--tile", "16x16", "--with", "ldmatrix.x4"],
        ["not 8 x 8 matrices", "--with ld.shared.b64"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--with", "ldmatrix.x4", "--arch", "sm_70"],
        ["no table"],
    ),
    (
        ["wmma.m16n16k16.a.row.f16", "--tile", "64x64", "--with", "ldmatrix.x4", "--arch", "sm_70"],
        ["sm_75 or later", "ld.shared"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--with", "cp.async.16"],
        ["not one of ldmatrix"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--with", "ld.shared.b32@rows"],
        ["not one of ldmatrix"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--fill", "dma"],
        ["not one of cp.async, tma, plain"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--fill", "cp.async.2"],
        ["moves 16, 8, 4 bytes"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--ld", "32"],
        ["64 elements long"],
    ),
    (
        [F16 + ".a", "--tile", "64x64", "--ld", "99999999999999999"],
        ["at most 4294967296"],
    ),
    (
        ["ldmatrix.m8n8.x4.shared.b16.address", "--tile", "32x1"],
        ["address, not a matrix"],
    ),
    (
        ["mma.m8n8k4.row.col.f16.f16.f16.f16.a", "--tile", "64x64", "--arch", "sm_70"],
        ["products"],
    ),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=lambda a: " ".join(a)[:70])
def test_what_does_not_exist_says_why_and_what_does(arguments, words):
    said = " ".join(refused(*arguments).split())
    for word in words:
        assert word in said, said


@pytest.mark.parametrize(
    "arguments", [a for a, words in REFUSED if any(w.startswith("--") for w in words)], ids=lambda a: " ".join(a)[:70]
)
def test_the_nearest_exists(arguments):
    """Each way that a refusal names is a path, if it is taken."""
    hint = " ".join(refused(*arguments).split()).partition("Nearest that exists: ")[2].partition(" As ")[0].rstrip(".")
    assert hint
    for way in hint.split(", or "):
        changed = list(arguments)
        for option, value in zip(way.split()[::2], way.split()[1::2], strict=True):
            if option == "--global" and "--ld" in changed:
                continue
            if option in changed:
                changed[changed.index(option) + 1] = value
            else:
                changed += [option, value]
        assert answered(*changed)["proven"]


STORED = [
    [F16 + ".d", "--tile", "64x64", "--with", "stmatrix.x4"],
    [F16 + ".d", "--tile", "64x64", "--with", "stmatrix.x2", "--shared", "pad:16"],
    ["wgmma.m64n128k16.f32.bf16.bf16.d", "--tile", "64x128", "--with", "stmatrix.x4", "--shared", "128"],
    ["wgmma.m64n64k16.f32.f16.f16.d", "--tile", "64x64", "--global", "col", "--with", "stmatrix.x4"],
    ["mma.m16n8k32.row.col.s32.s8.s8.s32.d", "--tile", "64x64", "--with", "stmatrix.x4"],
]


@pytest.mark.parametrize("arguments", STORED, ids=lambda a: " ".join(a)[:70])
def test_results_too_wide_for_stmatrix_are_led_to_their_conversion(arguments):
    """The command that is named runs and costs what is said; where none is named, no narrower type can be stored."""
    said = refused(*arguments)
    named = re.search(r"`tcprobe (convert [^`]+)`: (\d+) wavefronts, ideal (\d+)", said)
    if named is None:
        source, access = load(arguments[0], "sm_90"), arguments[arguments.index("--with") + 1]
        for kind, way in itertools.product(("f16", "bf16", "s8"), (access, "stmatrix")):
            with pytest.raises(UsageError):
                plan_store(source, StoreOptions(way, kind))
        return
    done = CliRunner().invoke(main, [*named[1].split(), "--json"])
    found = json.loads(done.stdout)
    assert (found["wavefronts"], found["ideal"]) == (int(named[2]), int(named[3]))


@pytest.mark.parametrize("other", [["--code", "cuda"], ["-o", "x.h"]])
def test_json_is_not_code(other):
    assert "cannot be combined with" in refused(F16 + ".a", "--tile", "64x64", *other)


OPTION = st.one_of(
    st.text(max_size=12),
    st.from_regex(r"(sw:\d{1,2},\d{1,2},-?\d{1,2}|pad:\d{1,6}|(ld|st)matrix\.x[0-9](\.trans)?)", fullmatch=True),
    st.sampled_from(["plain", "SWIZZLE_64B", "tma", "cp.async.4", "ld.shared.v4", "64x64", "16x16", "0x0", "1e3x4"]),
)


@given(st.dictionaries(st.sampled_from(["--tile", "--shared", "--fill", "--with", "--ld", "--global"]), OPTION))
@examples(60)
def test_whatever_is_asked_is_answered_or_refused(options):
    arguments = [part for pair in {"--tile": "32x32", **options}.items() for part in pair]
    done = CliRunner().invoke(main, ["path", F16 + ".a", *arguments, "--json"])
    assert done.exit_code in (0, 2), (arguments, done.exception)
    if done.exit_code == 0:
        check(json.loads(done.stdout), load(F16 + ".a"))
