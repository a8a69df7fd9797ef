"""Archs as people say them: GPUs, generations, compute capabilities, with any spelling."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.isa.arch import ARCHS, arch, gpus


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("h100", 90),
        ("NVIDIA H200", 90),
        ("A100", 80),
        ("rtx4090", 89),
        ("RTX 4090", 89),
        ("4090", 89),
        ("NVIDIA GeForce RTX 3090 Ti", 86),
        ("RTX A6000", 86),
        ("RTX 6000 Ada", 89),
        ("Tesla T4", 75),
        ("v100", 70),
        ("NVIDIA_A100-SXM4-80GB", 80),
        ("Jetson AGX Orin", 87),
        ("B200", 100),
        ("b300", 103),
        ("thor", 110),
        ("5090", 120),
        ("GB10", 121),
        ("hopper", 90),
        ("Turing", 75),
        ("ada", 89),
        ("sm_90a", 90),
        ("90a", 90),
        ("9.0", 90),
        ("compute_80", 80),
        ("sm_101", 110),
        ("sm_101a", 110),
        ("SM_90", 90),
        ("12.0", 120),
        ("sm90", 90),
    ],
)
def test_archs_by_any_name(name, wanted):
    assert arch(name).number == wanted


@pytest.mark.parametrize("row", ARCHS, ids=str)
def test_every_spelling_of_an_arch(row):
    for spelling in (row.name, row.name.upper(), str(row.number), row.compute_capability, f"compute_{row.number}"):
        assert arch(spelling) is row


def test_what_is_shown_of_gpus_is_understood():
    for row in gpus():
        if row.shown and not re.fullmatch("[RG]TX [0-9]0|GTX 16", row.shown):  # which are several
            assert arch(row.shown).number == row.arch


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ampere", "several archs: sm_80 (A100, A30), sm_86"),
        ("blackwell", "sm_121 (GB10"),
        ("sm_80a", "unknown arch"),
        ("sm_90f", "unknown arch"),
        ("sm_99", "did you mean sm_90"),
        ("sm_62", "has no tensor cores"),
        ("", "unknown arch"),
        ("٩٠", "unknown arch"),
        ("90 0", "unknown arch"),
        ("x" * 5000, "unknown arch"),
    ],
)
def test_what_is_no_arch(name, words):
    with pytest.raises(UsageError) as error:
        arch(name)
    assert words in str(error.value)
    assert len(str(error.value)) < 500


@given(st.text(max_size=30))
def test_any_text_is_an_arch_or_an_error(text):
    with suppress(UsageError):
        assert arch(text) in ARCHS
