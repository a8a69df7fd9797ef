"""An option that says nothing of what is asked is refused: the answer would be the same without it."""

import pytest
from click.testing import CliRunner

import tcprobe
from tcprobe.cli import main
from tcprobe.errors import UsageError

D = "mma.m16n8k16.row.col.f32.f16.f16.f32.d"
IDESC = "descriptor --idesc --kind f16 --a-type f16 --b-type f16 --d-type f32 --m 128 --n 64"
MASK = "descriptor --zero-mask --m 32 --n 64 --set skip_span=3"
ACCUMULATOR = "where tcgen05.mma.cta_group::1.kind::f16.d --row 0 --col 0"
SHARED = "where wgmma.m64n64k16.f32.bf16.bf16.b_smem --row 3 --col 1"
SCALES = "scales nvfp4 scale_a"
VAIN = [
    (f"reduce {D} --mask row>=col", "--op softmax", "--op needs --over"),
    (f"reduce {D} --fill 3", "--op max --tile 32x32", "--op, --tile needs --over"),
    (IDESC, "--major mn", "remove --major. Types of A and B are --a-type"),
    (IDESC, "--type bf16 --swizzle 64", "remove --type, --swizzle."),
    (IDESC, "--instruction wgmma.m64n64k16.f32.bf16.bf16", "remove --instruction."),
    (IDESC, "--tcgen05", "remove --tcgen05."),
    ("descriptor --idesc 0x08400490", "--major k", "remove --major."),
    (MASK, "--tile 64x64", "takes only --m, --n"),
    (MASK, "--swizzle 64", "takes only --m, --n"),
    (MASK, "--tcgen05", "takes only --m, --n"),
    ("descriptor 0x4000004000010000", "--major mn", "holds every field: remove --major"),
    ("banks --rule", "--explain", "--explain cannot be combined with --rule"),
    (ACCUMULATOR, "--multicast warpx2::02_13", "has no multicast; tcgen05.cp has"),
    (ACCUMULATOR, "--cta 0", "need --lane and --column"),
    (ACCUMULATOR, "--bit 3", "need --lane and --column"),
    ("where tcgen05.cp.128x256b.memory --row 0 --col 0", "--n 64", "has no M and N"),
    (SHARED, "--warp 1", "--warp applies to tcgen05.ld"),
    (f"compare {D}", "--complete", "--complete needs FILE.csv"),
    ("compare --cost", "--complete", "--cost compares no tables: remove --complete"),
    ("compare --cost", "--selector 1", "--cost compares no tables: remove --selector"),
    (SCALES, "--blocks 8", "need --line"),
    (SCALES, "--block 1", "need --line"),
    (f"{SCALES} --line 3", "--name mine", "--name is for the code"),
]


@pytest.mark.parametrize(("words", "option", "error"), VAIN)
def test_an_option_that_says_nothing_is_refused(words, option, error):
    plain = CliRunner().invoke(main, words.split())
    assert plain.exit_code in (0, 1), plain.stderr
    done = CliRunner().invoke(main, [*words.split(), *option.split()])
    assert (done.exit_code, done.stdout) == (2, "")
    assert error in done.stderr


PYTHON = [
    (lambda: tcprobe.reduce(D, over="row", mask="row >= col"), "give `over` row or"),
    (lambda: tcprobe.reduce(D, mask="row >= col", op="softmax"), "`op` needs `over`"),
    (
        lambda: tcprobe.banks(D, lane_addresses="4 * lane", access="ld.shared.b32"),
        "cannot be combined with `lane_addresses`",
    ),
    (
        lambda: tcprobe.banks(lane_addresses="4 * lane", access="ld.shared.b32", placed="128B"),
        "`placed` cannot be combined",
    ),
    (
        lambda: tcprobe.banks(D, tile=(64, 64), lane_addresses="lane", access="ld.shared.b32"),
        "give one of `tile`, `lane_addresses`",
    ),
    (lambda: tcprobe.descriptor(0x4000004000010000, tile=(64, 64)), "give a descriptor such as .*, or `tile`"),
    (lambda: tcprobe.descriptor(0x4000004000010000, swizzle="32"), "holds every field"),
    (lambda: tcprobe.descriptor("0x40000040000100000"), "64 bits|hexadecimal|descriptor"),
    (lambda: tcprobe.swizzle("3,4,3", bits=16), "`bits` are those"),
    (lambda: tcprobe.path(tcprobe.fragment(D, arch="sm_80"), (64, 64), arch="sm_90"), "the table is that of sm_80"),
    (lambda: tcprobe.convert(tcprobe.fragment(D, arch="sm_80"), D, arch="h100"), "the table is that of sm_80"),
]


@pytest.mark.parametrize(("call", "error"), PYTHON)
def test_neither_is_an_argument_of_a_function(call, error):
    with pytest.raises(UsageError, match=error):
        call()


def test_an_arch_that_says_the_same_may_stand():
    cell = tcprobe.fragment(D, arch="h100")
    assert tcprobe.reduce(cell, "row", arch="sm_90").cell.arch == "sm_90"
