"""References against each other and against what they print."""

import json
from pathlib import Path

import pytest
from test_pins import PINNED

from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.names import select
from tcprobe.references import Claim, cute, ptx_isa, references, register_mapping

SM_90 = arch("sm_90")
PRINTED = json.loads((Path(__file__).parent / "data" / "register_mapping.json").read_text())


def test_the_walk_finds_the_known_references():
    assert [r.NAME for r in references()] == ["PTX ISA", "CuTe", "register-mapping"]
    assert all(r.SOURCE for r in references())


def test_ptx_documents_every_dense_mma_fragment_as_a_bijection():
    errata = set()
    for fragment in select(family="mma"):
        claim = ptx_isa.claim(fragment, SM_90)
        if isinstance(claim, str) and fragment.experiment not in PINNED:
            continue  # of a form that was added
        assert isinstance(claim, Claim), fragment.id
        assert len(claim.meant.inverse) == fragment.rows * fragment.cols * fragment.products
        assert all(len(holders) == 1 for holders in claim.meant.inverse.values())
        if claim.printed != claim.meant:
            errata.add(fragment.id)
            assert claim.erratum
    assert errata == {f"mma.m16n8k256.row.col.s32.b1.b1.s32.{op}.popc.a" for op in ("xor", "and")}


def test_the_printed_m16n8k256_formula_covers_3840_elements():
    claim = ptx_isa.claim(inventory.fragments()["mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc.a"], SM_90)
    assert len(claim.printed.inverse) == 3840


def test_cute_and_ptx_agree_wherever_both_speak():
    both = 0
    for fragment in select(family="mma"):
        claims = ptx_isa.claim(fragment, SM_90), cute.claim(fragment, SM_90)
        if isinstance(claims[1], Claim):
            both += 1
            assert claims[0].meant == claims[1].meant, fragment.id
    assert both == 432


def test_sections_follow_the_type_of_a():
    c = [inventory.fragments()[f"mma.m16n8k16.row.col.f32.{t}.{t}.f32.c"] for t in ("f16", "e4m3")]
    assert [ptx_isa.claim(f, SM_90).where for f in c] == ["section 9.7.14.5.8", "section 9.7.14.5.9"]


@pytest.mark.parametrize("printed", PRINTED["tables"], ids=lambda t: f"{t['archs']}-{t['types']}")
def test_register_mapping_prints_what_its_formulas_say(printed):
    for name in printed["archs"]:
        for kind in printed["types"]:
            fragment = inventory.fragments()[f"wmma.m16n16k16.d.{kind}"]
            table = register_mapping.claim(fragment, arch(name)).printed
            for row in range(16):
                for col in range(16):
                    assert table.holders(row=row, col=col) == [
                        (printed["lane"][row][col], printed["element"][row][col])
                    ]


def test_silence_has_a_reason():
    for reference in references():
        for fragment in list(inventory.fragments().values())[::7]:
            for device in ARCHS:
                claim = reference.claim(fragment, device)
                assert isinstance(claim, Claim) or claim
