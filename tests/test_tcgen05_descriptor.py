"""Descriptors of tcgen05: fields and bits both ways for every kind, what is excluded, what is not documented."""

import json
from itertools import product

import pytest
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.tcgen05_descriptor import tile
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.bit_fields import DESCRIPTOR_WIDTH as WIDTH
from tcprobe.isa.bit_fields import KINDS, decode, encode, forms, refusals
from tcprobe.isa.bit_fields import descriptor_fields as word
from tcprobe.isa.bit_fields import encode_instruction as made
from tcprobe.isa.bit_fields import read_instruction as read
from tcprobe.layout import descriptor as smem
from tcprobe.layout.descriptor import Descriptor

WORDS = {**{kind: (word(kind), WIDTH) for kind in KINDS}, "shared memory": (smem.TCGEN05_WORD, smem.WORD_BITS)}


@pytest.mark.parametrize("name", WORDS)
def test_every_bit_is_a_fields_or_named(name):
    """Fields do not overlap, and whatever the bits, those of the reading make them again."""
    fields, width = WORDS[name]
    assert sum(f.mask for f in fields) == sum(f.mask for f in fields) & (1 << width) - 1
    assert all(left.mask & right.mask == 0 for left, right in product(fields, fields) if left is not right)
    assert all(len(f.values) <= 1 << f.size for f in fields)

    @given(st.integers(0, (1 << width) - 1))
    def again(bits):
        reading = decode(fields, bits, width)
        known = [f for f in fields if reading.fields[f.name] is not None]
        rest = sum(run["value"] << int(run["bits"].split("-")[0]) for run in reading.undocumented)
        assert encode(known, reading.fields) | rest == bits
        assert encode(known, reading.fields) & rest == 0

    again()


@pytest.mark.parametrize("kind", KINDS)
def test_every_multiply_has_its_descriptor(kind):
    """Each M, N and type that the inventory has is encoded, read again and taken by its form; no other M and N is."""
    rows = [r for r in inventory.instructions().values() if (r.family, r.kind) == ("tcgen05", kind)]
    names = {f.name for f in word(kind)}
    seen = set()
    for row in rows:
        stated, k = row.stated, 96 if row.id.endswith(".k96") else 64
        for m, n, ab in product(stated["m_values"], stated["n_values"], stated["ab_types"]):
            said = {
                "m": m,
                "n": n,
                "a_type": ab,
                "b_type": ab,
                "sparse": int(".sp." in row.id),
                "k": k,
                "d_type": stated["d_types"][-1],
                "scale_type": stated.get("scales", ("",))[0][:5],
            }
            said = {name: value for name, value in said.items() if name in names}
            bits = made(kind, said)
            reading = read(kind, bits)
            assert said.items() <= reading.fields.items()
            assert row.id in forms(kind, reading.fields)
            seen.add((said["sparse"], k, m, n))
    ks = (64, 96) if "k" in names else (64,)
    for sparse, k, m, n in product((0, 1), ks, (0, 16, 32, 64, 96, 128, 192, 256, 496), range(0, 512, 8)):
        fields = {**reading.fields, "sparse": sparse, "m": m, "n": n} | ({"k": k} if "k" in names else {})
        assert (not list(refusals(kind, fields))) == ((sparse, k, m, n) in seen)


KNOWN = [  # by CUTLASS's bit fields, written out
    (
        "f16",
        {"m": 128, "n": 256, "a_type": "bf16", "b_type": "bf16", "d_type": "f32"},
        1 << 4 | 1 << 7 | 1 << 10 | 256 >> 3 << 17 | 128 >> 4 << 24,
    ),
    ("mxf8f6f4", {"m": 128, "n": 128, "a_type": "e4m3", "b_type": "e4m3"}, 128 >> 3 << 17 | 1 << 23 | 128 >> 7 << 27),
    (
        "mxf4nvf4",
        {"m": 256, "n": 64, "scale_type": "ue4m3", "k": 96},
        1 << 7 | 1 << 10 | 64 >> 3 << 17 | 256 >> 4 << 24 | 1 << 31,
    ),
    (
        "i8",
        {"m": 64, "n": 32, "a_type": "s8", "b_type": "u8", "saturate": 1, "b_major": "mn"},
        1 << 3 | 2 << 4 | 1 << 7 | 1 << 16 | 32 >> 3 << 17 | 64 >> 4 << 24,
    ),
]


@pytest.mark.parametrize(("kind", "said", "bits"), KNOWN)
def test_known_values(kind, said, bits):
    assert made(kind, said) == bits


F16 = {"m": 128, "n": 256, "a_type": "bf16", "b_type": "bf16", "d_type": "f32"}
F8 = {"m": 128, "n": 256, "a_type": "e2m1", "b_type": "e4m3", "d_type": "f32"}
S8 = {"m": 128, "n": 32, "a_type": "s8", "b_type": "s8"}


@pytest.mark.parametrize(
    ("kind", "said", "words"),
    [
        ("f16", F16 | {"m": 256, "n": 24}, "9.7.16.2.1 has tcgen05.mma.cta_group::1"),
        ("f16", F16 | {"m": 96}, "no M 96"),
        ("f16", F16 | {"d_type": "f16"}, "f16 needs A and B of f16"),
        ("f16", F16 | {"a_type": "e4m3"}, "f16 or bf16"),
        ("f8f6f4", F8 | {"a_major": "mn"}, "k-major only"),
        ("i8", F16, "expected s32"),
        ("f64", F16, "expected f16"),
        ("f16", F16 | {"saturate": 1}, "expected 0"),
        ("f16", F16 | {"max_shift": 8, "m": 128, "n": 24}, "max_shift 8"),
        ("f16", F16 | {"k": 64}, "has no k"),
        ("f16", F16 | {"sparsity_selector": 2}, "is for sparse"),
        ("f16", {"m": 128, "n": 256, "a_type": "f16", "b_type": "f16"}, "give `d_type`, f16 or f32"),
        ("mxf4", {"m": 128, "n": 64, "a_major": "mn"}, "expected k"),
        ("mxf4", {"m": 128, "n": 64, "k": 96}, "K 96.*table 39.*CUTLASS.*cta_group::1, M = 128"),
        ("mxf4", {"m": 256, "n": 64, "a_scale_id": 1}, "a_scale_id 1: .*0 or 2"),
        ("mxf4nvf4", {"m": 256, "n": 64, "k": 96, "scale_type": "ue4m3", "b_scale_id": 3}, "b_scale_id 3"),
        ("i8", S8 | {"sparse": 1, "sparsity_selector": 1}, "must be 0 for kind::i8"),
        ("f8f6f4", F8 | {"sparse": 1, "sparsity_selector": 3}, "must be 0 for kind::f8f6f4"),
        ("i8", S8 | {"n": 24, "b_major": "mn"}, "mn-major, has no M 128 with N 24.*N 16, 32, 48"),
        ("f8f6f4", F8 | {"m": 256, "n": 16, "b_major": "mn"}, "no M 256 with N 16.*N 32, 64, 96"),
        ("mxf8f6f4", {"m": 128, "n": 24, "a_type": "e4m3", "b_type": "e5m2", "b_major": "mn"}, "9.7.16.10.1"),
    ],
)
def test_what_is_excluded_says_why(kind, said, words):
    with pytest.raises(UsageError, match=words):
        made(kind, said)


@pytest.mark.parametrize(
    ("kind", "major", "swizzle"),
    [
        *product(["f16", "e4m3", "s8"], ["k", "mn"], [0, 32, 64, 128]),
        *product(["tf32"], ["k"], [0, 32, 64, 128]),
    ],
)
def test_a_tile_is_encoded_and_read(kind, major, swizzle):
    found = tile((128, 128), kind, major, swizzle)
    reading = smem.read_tcgen05(smem.encode_tcgen05(found.descriptor))
    assert reading == (smem.tcgen05_fields(found.descriptor), []) or set(reading.fields.items()) == set(
        smem.tcgen05_fields(found.descriptor).items()
    )
    assert found.reasons["lbo"]
    places = {found.offset(line, k) for line, k in product(range(128), range(128))}
    assert len(places) == 128 * 128


@pytest.mark.parametrize(("kind", "major", "words"), [("tf32", "mn", "atoms of 32 bytes"), ("b1", "k", "not of 'b1'")])
def test_tiles_that_are_not_described(kind, major, words):
    with pytest.raises(UsageError, match=words):
        tile((128, 64), kind, major, 128)


def asked(*words, code=0):
    return tcprobe("descriptor", *words, code=code)


def test_the_command():
    made_ = json.loads(asked("--tcgen05", "--tile", "128x64", "--type", "bf16", "--swizzle", "128", "--json").stdout)
    assert made_["value"] == "0x4000404000010000" == f"{smem.encode_tcgen05(Descriptor(16, 1024, 128)):#018x}"
    again = json.loads(asked(made_["value"], "--json").stdout)
    assert (again["fields"], again["undocumented"], again["status"]) == (made_["fields"], [], "documented")
    bits = (
        "--idesc",
        "--kind",
        "f16",
        "--m",
        "128",
        "--n",
        "256",
        "--a-type",
        "bf16",
        "--b-type",
        "bf16",
        "--d-type",
        "f32",
    )
    one = json.loads(asked(*bits, "--json").stdout)
    back = json.loads(asked("--idesc", one["value"], "--json").stdout)
    assert (back["kind"], back["fields"], back["kinds"]) == ("f16", one["fields"], ["f16", "f8f6f4"])
    assert [reading["kind"] for reading in back["readings"]] == list(KINDS)
    assert "b_major mn" in asked(*bits, "--set", "b_major=mn").stdout
    assert "bit 23 is 1" in asked("--idesc", "0x08c00490", "--kind", "f16").stdout
    assert "bits 53-60 are 1" in asked(hex(smem.encode_tcgen05(Descriptor(16, 1024, 128)) | 1 << 53)).stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--idesc"],
        ["--idesc", "x"],
        ["--idesc", "0x100000000"],
        ["--idesc", "0x0", "--m", "128"],
        ["--idesc", "0x0", "--kind", "f64"],
        ["--idesc", "--kind", "f16", "--set", "m"],
        ["--m", "128", "0x0"],
        ["--idesc", "--tile", "128x64"],
        ["--tcgen05", "--tile", "128x64"],
        ["--tcgen05", "0x4000404000010000"],
        ["--tcgen05", "--tile", "64x64", "--type", "f16", "--instruction", "wgmma.m64n64k16.f32.f16.f16"],
        ["0x0000c00000000000"],
        ["--idesc", "--kind", "f16", "--set", "other=1", "--m", "64", "--n", "8"],
    ],
)
def test_mistakes_in_the_call(words):
    assert "Error: " in asked(*words, code=2).output


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "b_major" in {f.name for f in word(kind)}])
def test_a_transposed_b_of_8_bits_has_its_own_columns(kind):
    """PTX ISA 9.1, section 9.7.16.10.1: N of 16 to 256 by 16, and of 32 to 256 by 32 for two CTAs."""
    blank = {f.name: f.documented[0] for f in word(kind)}
    types = next(f.documented for f in word(kind) if f.name == "b_type")
    majors = next(f.documented for f in word(kind) if f.name == "b_major")
    for sparse, m, n, b_type, major in product((0, 1), (64, 128, 256), range(0, 264, 8), types, majors):
        fields = blank | {"sparse": sparse, "m": m, "n": n, "a_type": b_type, "b_type": b_type, "b_major": major}
        fields |= {name: code for name, code in (("d_type", "f32"), ("scale_type", "ue8m0")) if name in fields}
        along_k = forms(kind, fields | {"b_major": "k"})
        narrowed = major == "mn" and b_type in ("e4m3", "e5m2", "s8", "u8")
        step = {"1": 16 if narrowed else 8, "2": 32 if narrowed else 8}
        assert forms(kind, fields) == [id_ for id_ in along_k if n % step[id_.split("cta_group::")[1][0]] == 0]


@pytest.mark.parametrize("kind", ["f16", "tf32", "i8", "f8f6f4"])
@pytest.mark.parametrize("selector", range(4))
def test_sparsity_selectors_are_those_of_the_kind(kind, selector):
    """PTX ISA 9.1, section 9.7.16.10.8.4: kinds whose metadata fill all columns have selector 0 alone."""
    ab = word(kind)[4].documented[0]
    d = "s32" if kind == "i8" else "f32"
    said = {"m": 128, "n": 64, "a_type": ab, "b_type": ab, "d_type": d, "sparse": 1, "sparsity_selector": selector}
    if selector and kind in ("i8", "f8f6f4"):
        with pytest.raises(UsageError, match="must be 0"):
            made(kind, said)
    else:
        assert read(kind, made(kind, said)).fields["sparsity_selector"] == selector


def test_both_statements_about_k_96_are_shown():
    """By the descriptor, encoded and decoded, by the form, and by what is refused."""
    asked = ["descriptor", "--idesc", "--kind", "mxf4", "--m", "256", "--n", "64", "--scale-type", "ue8m0"]
    made_96 = tcprobe(*asked, "--set", "k=96", "--set", "a_scale_id=1")
    bits = made_96.output.split(",")[0]
    both = ("table 39", "CUTLASS", "M = 128", "table 44", "9.7.16.10.7.2.4 has 0 to 3")
    for printed in (
        made_96,
        tcprobe("descriptor", "--idesc", bits, "--kind", "mxf4"),
        tcprobe("show", "tcgen05.mma.cta_group::2.kind::mxf4.k96"),
        tcprobe("show", "tcgen05.mma.cta_group::2.kind::mxf4.k96.scale_a"),
        tcprobe("list", "tcgen05.mma.cta_group::2.kind::mxf4.k96", "--json"),
    ):
        words = " ".join(printed.output.split())
        assert printed.exit_code == 0, printed.output
        assert [text for text in both if text not in words] == []
    answer = json.loads(tcprobe(*asked, "--json").output)
    assert answer["contradictions"] == []
    assert (
        len(json.loads(tcprobe("descriptor", "--idesc", bits, "--kind", "mxf4", "--json").output)["contradictions"])
        == 3
    )
