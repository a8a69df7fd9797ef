"""Bank conflicts: the rule against its wording, the worked figures, the commands, and hostile input."""

import json
import random

import bank_reference as reference
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask import bank_collisions
from tcprobe.ask.bank_patterns import check_pattern, judge_patterns
from tcprobe.ask.bank_rules import rules_for
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa.shared_memory import access, accesses
from tcprobe.layout.banks import BankRule, Judge, as_array, designed_rules, judge
from tcprobe.store.results import published

A = "mma.m16n8k16.row.col.f32.f16.f16.f32"


KEYS = ["wavefronts", "beats", "cycles", "ideal", "phases"]


def tcprobe(*arguments, code=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    assert "Traceback" not in done.output
    return done


def lines(tmp_path, *rows, code=0):
    """What `banks --patterns --json` answers to rows, texts or data."""
    path = tmp_path / "patterns.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    done = tcprobe("banks", "--patterns", path, "--json", code=code)
    return [json.loads(line) for line in done.stdout.splitlines()] if code == 0 else done.stderr


def random_pattern(op, rng):
    """32 addresses: scattered, strided, of few words, in pairs, with idle lanes; and sources."""
    size, idle = reference.bytes_of(op), rng.choice([0, 0, 0.3, 0.9])
    step, few = rng.choice([1, 2, 3, 8, 9, 32, 33]), rng.choice([1, 3, 8, 1000])
    address = [rng.choice([step * i, rng.randrange(few)]) if step % 2 else step * (i // 2) for i in range(32)]
    if rng.random() < 0.4:
        pair = rng.choice([1, 2, 3])
        address = [address[i & ~pair] for i in range(32)]
    address = [size * a for a in address]
    if rng.random() < 0.1:
        address[rng.randrange(32)] = size * 77
    if "matrix" not in op:
        address = [None if rng.random() < idle else a for a in address]
        if rng.random() < 0.2:
            first = 8 * rng.randrange(4)
            address[first : first + rng.choice([8, 16, 32])] = [None] * 32
            address = address[:32] + [None] * (32 - len(address))
    source = [size * rng.randrange(rng.choice([4, 64])) for _ in range(32)] if op.startswith("cp") else None
    return {"op": op, "address": address[:32], **({"source": source} if source else {})}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", reference.OPS)
def test_the_rule_is_what_its_wording_says(op, tmp_path):
    rng = random.Random(op)
    rows = [random_pattern(op, rng) for _ in range(250)]
    for row, answer in zip(rows, lines(tmp_path, *rows), strict=True):
        phases = reference.phases(op, row["address"], row.get("source"))
        total, beats = sum(phases), reference.beats(op, phases)
        active = sum(n > 0 for n in phases)
        stated = {"wavefronts": total, "beats": beats, "cycles": max(total, beats), "ideal": active}
        assert answer == stated | {"phases": phases}, row


def test_every_access_is_judged():
    assert list(accesses()) == reference.OPS
    assert set(designed_rules()) == set(reference.OPS)


@pytest.mark.parametrize(
    ("op", "address", "phases"),
    [
        ("ld.shared.b32", lambda i: 4 * i, [1]),
        ("ld.shared.b32", lambda i: 8 * i, [2]),
        ("ld.shared.b32", lambda i: 128 * i, [32]),
        ("ld.shared.b32", lambda _: 0, [1]),  # one word goes to all lanes
        ("ld.shared.b8", lambda i: i, [1]),
        ("ld.shared.b16", lambda i: 64 * i, [16]),
        ("ld.shared.b64", lambda i: 8 * i, [1, 1]),
        ("ld.shared.b64", lambda i: 8 * (i // 2), [1]),  # neighbours agree: one phase
        ("ld.shared.b64", lambda i: 8 * (i & ~2), [2]),  # with lane i ^ 2, over two lines of banks
        ("ld.shared.b64", lambda i: 8 * (i // 2) + 8 * (i == 31), [1, 1]),  # all but one pair
        ("ld.shared.b64", lambda i: None if i % 2 else 8 * i, [2]),  # idle partners agree
        ("ld.shared.b64", lambda i: 8 * i if i < 16 else None, [1, 0]),
        ("ld.shared.b128", lambda i: 16 * i, [1, 1, 1, 1]),  # no conflict, whatever other counters say
        ("ld.shared.b128", lambda i: 16 * (i // 2), [1, 1]),
        ("ld.shared.b128", lambda _: 0, [1, 1]),
        ("st.shared.b64", lambda i: 8 * (i // 2), [1, 1]),  # stores do not join
        ("st.shared.b128", lambda i: 128 * i, [8, 8, 8, 8]),
        ("ldmatrix.x4", lambda i: 128 * i, [8, 8, 8, 8]),
        ("ldmatrix.x1", lambda i: 16 * i if i < 8 else -7, [1]),  # what lanes 8 to 31 give does not count
        ("ldmatrix.x2.trans", lambda i: 144 * i if i < 16 else None, [1, 1]),
        ("atom.shared.add.u32", lambda _: 0, [32]),  # equal words do not go together
        ("red.shared.add.u32", lambda i: 4 * i, [1]),
        ("st.shared.b32", lambda _: None, [0]),
        ("st.shared.v4.b32", lambda i: 16 * i, [1, 1, 1, 1]),
        ("ld.shared.v2", lambda i: 8 * i, [1, 1]),
    ],
)
def test_known_patterns(op, address, phases, tmp_path):
    given_lanes = [address(i) for i in range(32)]
    assert judge(op, given_lanes).phases == phases
    [answer] = lines(tmp_path, {"op": op, "address": given_lanes})
    assert list(answer) == KEYS
    assert answer["phases"] == phases
    assert answer["ideal"] == sum(n > 0 for n in phases)
    assert answer["beats"] == reference.beats(op, phases)


def test_cp_async_waits_for_either_bank():
    """Lane j waits for lane i < j if they share a bank in shared memory or in the source, through any chain of them."""
    linear = [4 * i for i in range(32)]
    assert judge("cp.async.ca.4", linear, linear).phases == [1]
    assert judge("cp.async.ca.4", linear, [128 * i for i in range(32)]).phases == [32]
    assert judge("cp.async.ca.4", [128 * i for i in range(32)], linear).phases == [32]
    paired = [4 * (i // 2) for i in range(32)]  # lane 2k and 2k + 1 by destination, 2k - 1 and 2k by source
    assert judge("cp.async.ca.4", paired, [4 * ((i + 1) // 2) for i in range(32)]).phases == [32]
    assert judge("cp.async.ca.16", [16 * i for i in range(32)], [16 * (i ^ 5) for i in range(32)]).phases == [1] * 4
    assert judge("cp.async.ca.16", [16 * i for i in range(32)]).phases == [1] * 4


@given(st.data())
def test_who_collides_adds_up(data):
    """The phases as they are explained have the passes that the rule counts, and their parties meet in one bank."""
    op = data.draw(st.sampled_from(reference.OPS))
    row = random_pattern(op, random.Random(data.draw(st.integers(0, 1 << 32))))
    checked = check_pattern(access(op), row["address"], row.get("source"))
    [(cost, by)] = judge_patterns([checked], lambda name: rules_for(name, published()))
    phases = bank_collisions.phases(checked, by.rule(checked.row))
    assert [phase.passes for phase in phases] == cost.phases
    assert [lane for phase in phases for lane in phase.lanes] == list(range(reference.lanes_of(op)))
    for phase in phases:
        assert (len(phase.collisions) > 0) == (phase.passes > 1)
        for collision in phase.collisions:
            of = checked.address if collision.memory == "shared" else checked.source
            banks = [{w % 32 for w in reference.words(op, of[i])} for party in collision.parties for i in party]
            assert all(found == set(collision.banks) for found in banks)
            assert set().union(*collision.parties) <= set(phase.lanes)
            assert len(collision.parties) > 1


def test_address_answers_like_a_line(tmp_path):
    for op, text, lane in (
        ("ld.shared.b64", "(lane & 7) << 7", lambda i: (i & 7) << 7),
        ("st.shared.b32", "lane * 4 + 3 - 3", lambda i: 4 * i),
    ):
        [line] = lines(tmp_path, {"op": op, "address": [lane(i) for i in range(32)]})
        assert json.loads(tcprobe("banks", "--address", text, "--with", op, "--json").stdout) == line
    text = tcprobe("banks", "--address", "lane * 128", "--with", "ld.shared.v4").stdout
    assert "32 wavefronts, 4 beats, 32 cycles; 4 if no lanes collided" in text
    assert "phase 1, lanes 8-15: 8 wavefronts" in text
    assert "banks 0-3: lanes 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15" in text
    copied = tcprobe("banks", "--address", "lane*4", "--source", "lane*128", "--with", "cp.async.ca.4", "--json").stdout
    assert json.loads(copied)["cycles"] == 32


def test_addresses_from_a_file(tmp_path):
    path = tmp_path / "addresses.txt"
    for text in (
        "[" + ", ".join(str(8 * i) for i in range(31)) + ", null]",
        "\n".join([hex(8 * i) for i in range(31)] + ["null"]),
    ):
        path.write_text(text)
        answer = json.loads(tcprobe("banks", "--address", f"@{path}", "--with", "ld.shared.b64", "--json").stdout)
        assert answer["phases"] == [1, 1]
    for text, words in (
        ("1 2 3", "3 numbers"),
        ("x " * 32, "'x' is not a number"),
        ("-1 " * 32, "'-1'"),
        ("9" * 70000, "at most 65536"),
    ):
        path.write_text(text)
        assert words in tcprobe("banks", "--address", f"@{path}", "--with", "ld.shared.b64", code=4).stderr
    assert "cannot be read" in tcprobe("banks", "--address", "@/no/such", "--with", "ld.shared.b64", code=4).stderr


def test_explained_phases_are_objects_whose_wavefronts_add_up():
    text = tcprobe("banks", "--address", "lane * 32", "--with", "ld.shared.b64", "--json", "--explain").stdout
    answer = json.loads(text)
    assert [phase["wavefronts"] for phase in answer["phases"]] == [4, 4]
    assert answer["phases"][0]["lanes"] == list(range(16))
    assert answer["phases"][0]["collisions"][0] == {"memory": "shared", "banks": [0, 1], "lanes": [[0], [4], [8], [12]]}


GOOD = {"op": "ld.shared.b32", "address": [4 * i for i in range(32)]}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "an object"),
        ('"x"', "an object"),
        ("9" * 5000, "not JSON"),
        ('{"op": "ld.shared.b32"}', "32 numbers"),
        ('{"op": "ld.shared.b32", "op": "ld.shared.b64", "address": []}', "a key appears twice"),
        (GOOD | {"op": 3}, "an object"),
        (GOOD | {"op": "ld.shared.b31"}, "did you mean ld.shared.b32"),
        (GOOD | {"op": "cp.async.cg.16"}, "unknown access"),
        (GOOD | {"address": [0] * 31}, "32 numbers"),
        (GOOD | {"address": [0] * 33}, "32 numbers"),
        (GOOD | {"address": "0" * 32}, "32 numbers"),
        (GOOD | {"address": {}}, "32 numbers"),
        (GOOD | {"address": [True] * 32}, "lane 0 has 'True'"),
        (GOOD | {"address": [0.0] * 32}, "lane 0 has '0.0'"),
        (GOOD | {"address": [0] * 31 + ["0"]}, "lane 31 has '0'"),
        (GOOD | {"address": [0] * 31 + [[]]}, "lane 31 has '[]'"),
        (GOOD | {"address": [0] * 31 + [2]}, "lane 31 has 2, which is not a multiple of 4"),
        (GOOD | {"address": [-4] * 32}, "outside 0 to 233471"),
        (GOOD | {"address": [4 << 900] * 32}, "a number of 903 bits, which is outside"),
        (GOOD | {"address": [233472] * 32}, "outside"),
        (GOOD | {"source": [0] * 32}, "only cp.async has a source"),
        (GOOD | {"arch": "sm_1"}, "unknown arch"),
        (GOOD | {"arch": ["sm_90"]}, "unknown arch"),
        ({"op": "stmatrix.x1", "address": [0] * 32, "arch": "sm_80"}, "needs sm_90"),
        ({"op": "ldmatrix.x2", "address": [0] * 8 + [None] * 24}, "lane 8 has none"),
        ({"op": "cp.async.ca.8", "address": [0] * 32, "source": [4] * 32}, "source: lane 0 has 4"),
        ({"op": "cp.async.ca.8", "address": [0] * 32, "source": [0] * 31 + [None]}, "needs a source too"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(bad, words, tmp_path):
    error = lines(tmp_path, GOOD, "", bad, GOOD, code=4)
    assert "patterns.jsonl, line 3: " in error
    assert words in error
    assert len(error) < 2000


@given(st.text(max_size=80))
def test_any_line_is_judged_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "patterns.jsonl"
    path.write_text(text, encoding="utf-8", newline="")
    done = CliRunner().invoke(main, ["banks", "--patterns", str(path), "--json"])
    assert done.exit_code in (0, 4)
    assert done.exit_code == 4 or not text.strip()


FIELDS = st.sampled_from(["op", "address", "source", "arch"])


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=33) | st.dictionaries(FIELDS, inner),
)


@given(DATA)
def test_any_data_is_judged_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "patterns.jsonl"
    for row in (
        data,
        GOOD | {"address": data},
        GOOD | {"arch": data},
        {"op": "cp.async.ca.4", "address": [0] * 32, "source": data},
    ):
        path.write_text(json.dumps(row))
        done = CliRunner().invoke(main, ["banks", "--patterns", str(path), "--json"])
        assert done.exit_code in (0, 4), done.exception


def test_files_that_are_no_patterns(tmp_path):
    path = tmp_path / "patterns.jsonl"
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in tcprobe("banks", "--patterns", path, code=4).stderr
    assert "cannot be read" in tcprobe("banks", "--patterns", tmp_path / "none", code=4).stderr
    path.write_text("")
    assert tcprobe("banks", "--patterns", path, "--json").stdout.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of --tile, --address, --patterns and --rule"),
        (["--rule", "--propose"], "--propose cannot be combined with --rule"),
        (["--address", "lane*4", "--tile", "8x8", "--with", "ld.shared.b32"], "give one of"),
        (["--address", "lane*4"], "needs exactly one access"),
        (["--address", "lane*4", "--with", "ld.shared.b32", "st.shared.b32"], "got 2"),
        (["--address", "lane", "--with", "ld.shared.b32"], "lane 1 has 1"),
        (["--address", "lane*", "--with", "ld.shared.b32"], "column 6"),
        (["--address", "lane*4", "--with", "ld.shared.b33"], "unknown access"),
        (
            ["--address", "lane*4", "--with", "ld.shared.b32", "--propose"],
            "--propose cannot be combined with --address",
        ),
        ([A + ".a", "--address", "lane*4", "--with", "ld.shared.b32"], "FRAGMENT cannot be combined with --address"),
        (["--address", "lane*4", "--with", "stmatrix.x4", "--arch", "sm_80"], "lane 1 has 4"),
        (["--address", "lane*16", "--with", "stmatrix.x4", "--arch", "sm_80"], "needs sm_90"),
        (["--tile", "8x8", "--type", "f32"], "no accesses are given"),
        (["--tile", "8x8", "--with", "ld.shared.b32@rows"], "needs the type"),
        (["--tile", "8by8", "--type", "f32", "--with", "ld.shared.b32@rows"], "not ROWSxCOLS"),
        (["--tile", "0x8", "--type", "f32", "--with", "ld.shared.b32@rows"], "not ROWSxCOLS"),
        (["--tile", "8x8", "--type", "f33", "--with", "ld.shared.b32@rows"], "unknown element type"),
        (["--tile", "999x999", "--type", "f32", "--with", "ld.shared.b32@rows"], "largest shared memory"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32"], "give a FRAGMENT"),
        (["--tile", "8x8", "--type", "f32", "--with", "cp.async.4", "--arch", "sm_75"], "needs sm_80"),
        (["--tile", "224x256", "--type", "f32", "--with", "cp.async.4", "--shared", "pad:64"], "243712 bytes with 64"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@lanes"], "after @"),
        (["--tile", "8x8", "--type", "f32", "--with", "cp.async.16@cols"], "only @rows"),
        (["--tile", "8x3", "--type", "f16", "--with", "ld.shared.b32@rows"], "whole number of 4-byte pieces"),
        (["--tile", "8x3", "--type", "s4", "--with", "ld.shared.b32@rows"], "not whole bytes"),
        (["--tile", "9x8", "--type", "f16", "--with", "ldmatrix.x4@rows"], "not a multiple of 32"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@rows", "--shared", "odd"], "is not plain"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@rows", "--shared", "sw:3,4,2"], "at least B"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@rows", "--shared", "pad:2"], "multiples of 4"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b128@rows", "--shared", "sw:2,3,3"], "splits"),
        ([A + ".a", "--tile", "64x24", "--with", "ldmatrix.x4"], "not a whole number of them"),
        ([A + ".a", "--tile", "64x64", "--type", "f32", "--with", "ldmatrix.x4"], "elements of 16 bits"),
        ([A + ".a", "--tile", "64x64", "--with", "ld.shared.b64"], "are not adjacent"),
        ([A + ".b", "--tile", "64x64", "--global", "row", "--with", "ld.shared.b32"], "are not adjacent"),
        ([A + ".d", "--tile", "64x64", "--with", "stmatrix.x4"], "not an 8 x 8 matrix"),
        ([A + ".a", "--tile", "64x64", "--with", "ld.shared.b8"], "which do not divide"),
        ([A + ".b", "--tile", "16x8", "--global", "col", "--with", "ldmatrix.x4"], "2 matrices"),
        (
            ["m16n8k32.row.col.s32.s8.s8.s32.a", "--tile", "64x64", "--global", "col", "--with", "ldmatrix.x4.trans"],
            "16 bytes",
        ),
        (["m8n8k4.row.col.f32.f16.f16.f32.a", "--tile", "64x64", "--with", "ld.shared.b64"], "4 products"),
        (["m8n8k4.row.col.f64.f64.f64.f64.a", "--tile", "64x64", "--with", "ldmatrix.x4"], "elements of 64 bits"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments, words):
    assert words in tcprobe("banks", *arguments, code=2).stderr


def tile(*arguments):
    return json.loads(tcprobe("banks", *arguments, "--json").stdout)


@pytest.mark.parametrize("passes", ["words", "lanes", "order"])
def test_patterns_do_not_depend_on_their_neighbours(passes):
    """Any rule says the same of a pattern alone and among others that join or do not."""
    row, rng = access("cp.async.ca.8"), random.Random(1)
    rows = [random_pattern(row.name, rng) for _ in range(200)]
    address, source = (as_array([r[key] for r in rows]) for key in ("address", "source"))
    judging = Judge(row, BankRule(16, 32, passes))
    together = judging.costs(address, source)
    assert len({len(cost.phases) for cost in together}) == 2
    for j, cost in enumerate(together):
        assert judging.costs(address[j : j + 1], source[j : j + 1]) == [cost]


def test_accesses_are_taken_however_they_are_given():
    head = [A + ".a", "--tile", "64x64", "--global", "row"]
    ways = (
        ["--with", "cp.async.16", "ldmatrix.x4"],
        ["--with", "cp.async.16", "--with", "ldmatrix.x4"],
        ["--with", "cp.async.16,ldmatrix.x4"],
        ["--with=cp.async.16", "ldmatrix.x4"],
    )
    for way in ways:
        assert tile(*head, *way)["accesses"] == ["cp.async.16", "ldmatrix.x4"]
    after = tile("--tile", "64x64", "--with", "cp.async.16", "ldmatrix.x4", A + ".a")
    assert after["wavefronts"] == [64, 512]
    with pytest.raises(UsageError, match="unknown access"):
        access("nothing")


@pytest.mark.parametrize("name", ["wgmma", "wgmma.mma_async", "TMA", "cp.async.bulk", "tcgen05.mma"])
def test_of_what_is_not_measured_the_command_says_what_to_ask_instead(name):
    done = CliRunner().invoke(main, ["banks", "--tile", "64x64", "--type", "f16", "--with", name])
    assert done.exit_code == 2
    assert f"how '{name}' meets in banks is not measured" in done.output
    for other in ("st.shared.b128@rows", "stmatrix.x4", "ldmatrix.x4"):
        assert f"--with {other}" in done.output
        assert CliRunner().invoke(main, ["banks", "--tile", "64x64", "--type", "f16", "--with", other]).exit_code == 0
