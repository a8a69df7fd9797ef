"""The zero-column mask of tcgen05.mma.ws: PTX's examples, both ways, both readings of its table, and bad input."""

import json
import random

import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields as zeros

# PTX ISA 9.1, section 9.7.16.4.3: M, (start counts 3 to 0), (first spans 3 to 0), non-zero, skip and use as they stand
# in the bits, shift, and the masks as printed, whose low bits stand last
EXAMPLES = (
    (128, (0, 0, 0, 0), (0, 0, 0, 0), 0, 4, 3, 0, ["0"]),
    (128, (0, 0, 0, 0), (0, 0, 0, 0), 1, 2, 3, 0, ["111 0000 111 0000"]),
    (64, (0, 0, 0, 0), (0, 0, 0, 1), 1, 2, 3, 0, ["111 0000 111 0000 111", "0000 111 0000 111 0000"]),
    (
        32,
        (1, 2, 1, 0),
        (0, 0, 1, 1),
        1,
        2,
        3,
        2,
        ["0000 111 0000 111", "0000 111 0000 11", "111 0000 111 00", "111 0000 111 000"],
    ),
)


def bits(starts, firsts, non_zero, skip, use, shift):
    """The 64 bits by table 45."""
    found = sum(start << 8 * i for i, start in enumerate(reversed(starts)))
    found |= sum(first << 32 + i for i, first in enumerate(reversed(firsts)))
    return found | non_zero << 39 | skip << 40 | use << 48 | shift << 56


def asked(*arguments):
    done = CliRunner().invoke(main, ["descriptor", "--zero-mask", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.mark.parametrize("n", [64, 128, 256])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"M {example[0]}, shift {example[6]}")
def test_ptx_s_examples(example, n):
    m, *said, masks = example
    code, output = asked(f"{bits(*said):#x}", "--m", m, "--n", n, "--json")
    assert code == 0, output
    answer = json.loads(output)
    assert len(answer["masks"]) == len(masks)
    for found, printed in zip(answer["masks"], masks, strict=True):
        words = printed.replace(" ", "")
        size = min(len(words), n // len(masks))
        assert int(found, 16) & (1 << size) - 1 == int(words, 2) & (1 << size) - 1
    assert answer["b_columns"] == [said[-1], said[-1] + n - 1]
    assert bool(answer["differs"]) == bool(answer["zero"])
    assert (answer["undocumented"], answer["status"]) == ([], "documented")


def test_both_ways():
    rng = random.Random(0)
    for _ in range(200):
        said = {field.name: rng.choice(field.values) for field in zeros.MASK_FIELDS}
        assert zeros.read_mask(zeros.encode_mask(said)) == (said, [])


def test_runs_are_those_of_the_mask():
    rng = random.Random(1)
    for _ in range(60):
        m, n = rng.choice((32, 64, 128)), rng.choice(zeros.SIZES_N)
        fields = {"skip_span": rng.randrange(1, 90), "use_span": rng.randrange(1, 90)}
        fields |= {f"start_count_{i}": rng.randrange(60) for i in range(4)}
        fields |= {f"first_span_{i}": rng.randrange(2) for i in range(4)}
        given = [word for name, value in fields.items() for word in ("--set", f"{name}={value}")]
        answer = json.loads(asked("--m", m, "--n", n, *given, "--json")[1])
        mask, size = [0] * n, n * m // 128
        for first, last in answer["zero"]:
            mask[first : last + 1] = [1] * (last + 1 - first)
        for part in range(128 // m):
            period = fields["skip_span"] + fields["use_span"]
            for place in range(size):  # by hand: where in the period, counted from the first span on
                at = (place + fields[f"start_count_{part}"]) % period
                first = fields[f"first_span_{part}"]
                inside = at < (fields["skip_span"] if first else fields["use_span"])
                assert mask[part * size + place] == (first if inside else 1 - first)


def test_the_other_reading_exchanges_the_spans():
    said = {"skip_span": 3, "use_span": 4, "first_span_0": 1}
    assert zeros.zeroed(said, 128, 64, exchanged=True)[:11] == [1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1]
    assert zeros.zeroed({"skip_span": 5, "use_span": 5}, 128, 64) == zeros.zeroed(
        {"skip_span": 5, "use_span": 5}, 128, 64, exchanged=True
    )


def test_bits_that_nothing_describes_are_named():
    code, output = asked("0xffffffffffffffff", "--m", 64, "--n", 64, "--json")
    assert code == 0
    answer = json.loads(output)
    assert [(run["bits"], run["field"]) for run in answer["undocumented"]] == [
        ("56-61", "column_shift"),
        ("36-38", None),
        ("62-63", None),
    ]
    assert answer["b_columns"] is None
    assert "36-38 are 7" in asked("0xffffffffffffffff", "--m", 64, "--n", 64)[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--m", 96, "--n", 64, "--set", "use_span=4"], "has no M 96: it has 32, 64, 128"),
        (["--m", 64, "--n", 72, "--set", "use_span=4"], "has no N 72: it has 64, 128, 256"),
        (["--m", 64, "--n", 64], "give --set skip_span=3"),
        (["0x0", "--m", 64, "--n", 64, "--set", "use_span=4"], "give --set skip_span=3"),
        (["--set", "use_span=4"], "takes only --m, --n"),
        (["--m", 64, "--n", 64, "--kind", "f16", "--set", "use_span=4"], "takes only --m, --n"),
        (["--m", 64, "--n", 64, "--set", "skip_span=0"], "expected 1, 2, ... 256"),
        (["--m", 64, "--n", 64, "--set", "span=1"], "has no span"),
        (["--m", 32, "--n", 64, "--set", "column_shift=17"], "at most 16 for M 32"),
        (["0x10000000000000000", "--m", 64, "--n", 64], "not a number of 64 bits"),
        (["99999999999999999999", "--m", 64, "--n", 64], "more than 64 bits"),
        (["--idesc", "--m", 64, "--n", 64], "remove --zero-mask"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words):
    code, output = asked(*arguments)
    assert code == 2
    assert words in " ".join(output.split())


def test_a_size_of_nothing_is_refused():
    with pytest.raises(UsageError, match="has no M 16"):
        zeros.zeroed({}, 16, 64)
