"""A request is words in any order: each means what an option does, and a reading that was chosen is said."""

# ruff: noqa: E501
import json
import random
import shlex
import time

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe import facts
from tcprobe.cli import main
from tcprobe.emit.question import FORMAT
from tcprobe.isa import inventory
from tcprobe.isa.names import likely
from tcprobe.question import names, words

# pieces that may stand in any order, and the same with options
REQUESTS = [
    (["where", "m16n8k16", "bf16", "d", "3,5"], "where m16n8k16 bf16 d --row 3 --col 5"),
    (["where", "wgmma", "m64n128k16", "bf16", "D[3][5]"], "where wgmma m64n128k16 bf16 d --row 3 --col 5"),
    (["where", "m16n8k32", "s8", "a", "row 2", "col=17", "h100"], "where m16n8k32 s8 a --row 2 --col 17 --arch h100"),
    (["where", "thread 5", "i 2", "m16n8k16", "bf16", "d"], "where m16n8k16 bf16 d --lane 5 --i 2"),
    (["trace", "m16n8k16", "bf16", "D[3][5]"], "trace m16n8k16 bf16 --row 3 --col 5"),
    (["tensormap", "128x64", "bf16", "128B", "of 4096x2048"], "tensormap --tile 128x64 --type bf16 --swizzle 128 --of 4096x2048"),
    (["tensormap", "64x64", "half", "swizzle-64B", "H100"], "tensormap --tile 64x64 --type f16 --swizzle 64 --arch sm_90"),
    (["descriptor", "128x64", "bf16", "sw:3,4,3", "K-major"], "descriptor --tile 128x64 --type bf16 --swizzle 128 --major k"),
    (["descriptor", "transposed", "64x64", "f16"], "descriptor --tile 64x64 --type f16 --major mn"),
    (["plan", "128x256x64", "bf16", "3 stages", "h100"], "plan --tile 128x256x64 --type bf16 --stages 3 --arch h100"),
    (["reduce", "m16n8k16", "bf16", "d", "col", "max"], "reduce m16n8k16 bf16 d --over col --op max"),
    (["reduce", "m16n8k16", "bf16", "d", "row + row0 >= col"], "reduce m16n8k16 bf16 d --mask 'row + row0 >= col'"),
    (["banks", "m16n8k16", "f16", "a", "64x64", "ldmatrix.x4", "128B"], "banks m16n8k16 f16 a --tile 64x64 --with ldmatrix.x4 --swizzle 128"),
    (["banks", "lane * 16", "ld.shared.v4"], "banks --address 'lane * 16' --with ld.shared.v4"),
    (["path", "m16n8k16", "f16", "b", "64x64", "col", "128B"], "path m16n8k16 f16 b --tile 64x64 --global col --swizzle 128"),
    (["load", "m16n8k16", "f16", "b", "repack", "s4"], "load m16n8k16 f16 b --repack --type s4"),
    (["emit", "m16n8k16", "bf16", "a", "csv"], "emit m16n8k16 bf16 a --to csv"),
    (["numerics", "wgmma", "m64n128k16", "bf16", "4096 bound"], "numerics wgmma m64n128k16 bf16 --bound 4096"),
    (["cost", "m16n8k16", "bf16", "rtx 4090"], "cost m16n8k16 bf16 --arch sm_89"),
    (["show", "m16n8k16", "bf16", "a", "lanes"], "show m16n8k16 bf16 a --lanes"),
]  # fmt: skip


def said(asked):
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(word) for word in asked], prog_name="tcprobe")


@pytest.mark.parametrize(
    ("pieces", "options"), REQUESTS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_every_order_of_the_words_is_what_options_ask(pieces, options, sample):
    name, *rest = pieces
    right = said(shlex.split(options))
    assert right.exit_code == 0, right.stderr
    shuffled = random.Random(options)
    orders = [rest, rest[::-1], *(shuffled.sample(rest, len(rest)) for _ in range(6))]
    for order in sample(orders, 4):
        together = [word for piece in order for word in ([piece] if ">" in piece or "*" in piece else piece.split())]
        done = said([name, *together])
        assert (done.exit_code, done.stdout) == (0, right.stdout), (order, done.stderr)


def leaves(group, path=()):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


def with_words():
    """Every command whose options may be words, with what stands for a name."""
    for path, command in leaves(main):
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        if all(isinstance(each, words.Among) for each in arguments) and any(
            isinstance(p, words.Spoken) for p in command.params
        ):
            yield pytest.param(command, ["wgmma.m64n64k16.f32.bf16.bf16.d"] if arguments else [], id=" ".join(path))


VALUES = {
    words.ARCH: ["sm_90", "h100", "ampere"],
    words.TILE: ["128x64"],
    words.TYPE: ["bf16", "half", "e4m3"],
    words.KERNEL_TYPE: ["bf16", "nvf4"],
    words.SWIZZLE: ["128B", "SWIZZLE_64B", "swizzle-128B", "3,4,3", "sw:3,4,3", "sw128"],
    words.MAJOR: ["k", "mn", "K-major", "transposed", "tnspB"],
    words.PLACE: ["pad:16", "boxes:128"],
    words.LINES: ["row-major", "column-major"],
    words.CONDITION: ["row >= col", "causal"],
    words.ACCESS: ["ld.shared.b64", "st.shared.v4"],
    words.LANES: ["lane * 8", "lane*256"],
    words.COPY: ["tma", "cp.async.8"],
    FORMAT: ["cuda", "csv"],
}


def options_of(command):
    """Each option that words may fill, with values that are its words, and values that stand beside its name."""
    before = []
    for option in command.params:
        if not isinstance(option, words.Spoken):
            continue
        kind = option.kind
        bare = [value for value in VALUES.get(kind, ()) if not any(earlier.read(value) for earlier in before)]
        before += [kind] if kind else []
        beside = list(VALUES.get(kind, ()))
        if option.is_number and kind is None:
            beside = ["2"]
        yield option, bare, beside


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("command", "name"), list(with_words()))
def test_the_value_of_an_option_is_the_same_as_a_word(command, name):
    """Alone where its kind says what it is, before or behind the option's name, or with = between."""
    context = click.Context(command)
    for option, bare, beside in options_of(command):
        flag = max(option.opts, key=len)
        called = flag.lstrip("-")
        if option.is_flag:
            expected = [flag, *name] if called != "only" else [*name, called]
            assert words.rewritten(command, context, [*name, called]) == expected
            continue
        noisy = bool(name) and (len(called) == 1 or words._NOISY.fullmatch(called))
        ways = [[value] for value in bare]
        for value in beside if not noisy or option.is_number else ():
            ways += [[called, value], [f"{called}={value}"]]
            ways += [[value, called], *([[f"{called}{value}"]] if called.isalpha() else [])] if option.is_number else []
        for way in ways:
            read = words.rewritten(command, context, [*way, *name])
            plain = words.rewritten(command, context, [flag, read[1], *name])
            assert read[0] == flag, (way, read)
            assert read[2:] == name, (way, read)
            assert read == plain
            assert words.rewritten(command, context, [*name, *way]) == read


WEIRD = st.text(alphabet="0123456789xX,.:;[](){}<>=*+-|&%#_'\" abdkmnrowcl٣é\0\n", max_size=40)


@examples(60)
@given(
    st.lists(WEIRD, max_size=12),
    st.sampled_from(["where", "banks", "tensormap", "plan", "reduce", "convert", "descriptor"]),
)
def test_hostile_words_are_a_clean_error_or_an_answer(asked, command):
    done = said([command, *(f" {word}" if word.startswith("-") else word for word in asked)])
    assert done.exit_code in (0, 1, 2), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "asked",
    [
        ["128x64"] * 3000,
        ["9" * 100000],
        ["(" * 50000],
        ["row" * 20000 + ">="],
        ["lane*" * 20000],
        ["[3]" * 20000],
        ["a b c d " * 5000],
        ["3,5 " * 5000],
        ["sw:" * 30000],
    ],
    ids=range(9),
)
def test_long_requests_are_refused_at_once(asked):
    for command in ("where", "banks", "tensormap", "reduce"):
        start = time.process_time()
        assert said([command, *asked]).exit_code == 2
        assert time.process_time() - start < 3  # seconds; what is not bounded takes minutes


READINGS = [
    ("where m16n8k16 c 3,5", "mma.m16n8k16.row.col.f32.f16.f16.f32.c", "f16, f64"),
    ("where m16n8k16 d row 3 col 5", "mma.m16n8k16.row.col.f32.f16.f16.f32.d", "f16, f64"),
    ("trace m16n8k16 f16 3,5", "mma.m16n8k16.row.col.f32.f16.f16.f32", "f16"),
    ("numerics fp8 m16n8k32", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "f16"),
    ("numerics wgmma m64n128k32 e4m3", "wgmma.mma_async.m64n128k32.f32.e4m3.e4m3", "f16"),
    ("show m16n8k64 fp4 a", "mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3.a", ""),
    ("reduce m16n8k32 e4m3 d --over row", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.d", "f16"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "id_", "others"), READINGS)
def test_what_fits_several_things_is_read_as_what_people_use_and_said(asked, id_, others):
    done = said([*asked.split(), "--json"])
    assert done.exit_code == 0, done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("read as ")]
    assert line.startswith(f"read as {id_}")
    assert f"(also {others}" in line or not others
    assert id_ in json.dumps(json.loads(done.stdout.splitlines()[0]))
    for strict in ([*asked.split(), "--strict"], ["--strict", *asked.split()]):
        refused = said(strict)
        assert (refused.exit_code, refused.stdout) == (2, "")


def test_what_nobody_is_known_to_mean_is_refused():
    for asked in ("where a 3,5", "show wgmma d", "where m16n8k16 bf16 lane 3", "trace wgmma 3,5"):
        done = said(asked.split())
        assert (done.exit_code, done.stdout) == (2, ""), asked
        assert "read as" not in done.stderr


def test_a_program_is_told_that_a_name_fits_several_things():
    """Nobody hears what a name was read as."""
    from tcprobe.errors import AmbiguousError
    from tcprobe.question import function

    with pytest.raises(AmbiguousError):
        function("numerics")("wgmma m64n128k32 e4m3")
    assert "numerics" in names()


def test_each_line_of_use_is_of_a_form_that_there_is():
    known = [*inventory.instructions(), *inventory.fragments()]
    for at, line in enumerate(facts.read(likely.__file__, "first.csv", likely.First)):
        assert any(likely._rank(id_)[0] == at for id_ in known), line
