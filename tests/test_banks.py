"""Bank conflicts: the rule against its wording, the worked figures, the commands, and hostile input."""

import json
import random

import bank_reference as reference
import pytest
from bank_commands import KEYS, A, lines, tile
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.banks import patterns
from tcprobe.ask.banks.patterns import check_pattern, judge_patterns, rules_for
from tcprobe.errors import UsageError
from tcprobe.isa.shared_memory import access, accesses
from tcprobe.layout.banks import BankRule, Judge, as_array, designed_rules, judge
from tcprobe.store.results import published


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
    phases = patterns.phases(checked, by.rule(checked.row))
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
    assert "read" in tcprobe("banks", "--address", "@/no/such", "--with", "ld.shared.b64", code=4).stderr


def test_explained_phases_are_objects_whose_wavefronts_add_up():
    text = tcprobe("banks", "--address", "lane * 32", "--with", "ld.shared.b64", "--json", "--explain").stdout
    answer = json.loads(text)
    assert [phase["wavefronts"] for phase in answer["phases"]] == [4, 4]
    assert answer["phases"][0]["lanes"] == list(range(16))
    assert answer["phases"][0]["collisions"][0] == {"memory": "shared", "banks": [0, 1], "lanes": [[0], [4], [8], [12]]}


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
