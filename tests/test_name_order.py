"""Names with dots keep their order: parts that are exchanged or doubled mean nothing, or another's very name."""

import random
from collections import Counter
from pathlib import Path

import pytest
from command import tcprobe

from tcprobe.ask.cost import costs
from tcprobe.errors import answer_or_none
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.store.choose import alone
from tcprobe.store.results import Results

COSTS = Path(__file__).parent / "data" / "costs"


def spelled():
    """Every name of a row with dots, and the row's id: its id, and PTX's own name."""
    rows = [*inventory.fragments().values(), *inventory.instructions().values()]
    yield from ((row.id, row.id) for row in rows)
    yield from ((row.name, row.id) for row in inventory.instructions().values() if "{" not in row.name)
    yield from (
        (f.instruction if f.shared else f"{f.instruction}.{f.operand}", f.id)
        for f in inventory.fragments().values()
        if "{" not in f.instruction
    )


def mutated(name, chance):
    """The name with two parts exchanged, one dropped, or one doubled somewhere."""
    parts, how = name.split("."), chance.choice(["exchanged", "dropped", "doubled"])
    first, second = chance.sample(range(len(parts)), 2)
    if how == "exchanged":
        parts[first], parts[second] = parts[second], parts[first]
    elif how == "dropped":
        del parts[first]
    else:
        parts.insert(second, parts[first])
    return how, ".".join(parts)


def mutations(count):
    """How many mutated names were refused, meant what they came from, or are names of others; and those that are not,
    and mean others all the same.
    """
    chance, pool, counts, silent = random.Random(19), list(spelled()), Counter(), []
    known = {name for name, _ in pool}
    for _ in range(count):
        name, id_ = chance.choice(pool)
        how, text = mutated(name, chance)
        meaning = resolve(text)
        ids = {row.id for row in (*meaning.fragments, *meaning.instructions)}
        ids |= {row.id.rpartition(".")[0] for row in meaning.fragments if not row.shared}
        if text in known:
            counts[how, "a name as it stands"] += 1
        elif not ids:
            counts[how, "refused"] += 1
        elif how == "dropped" and id_ in ids:
            counts[how, "what it was, and others" if len(meaning.fragments) > 1 else "what it was"] += 1
        else:
            counts[how, "silently another"] += 1
            silent.append((name, text, sorted(ids)[:3]))
    return counts, silent


def test_a_dotted_name_keeps_its_order():
    """A sample of 400; a name with parts exchanged or doubled means nothing unless it is another's very name."""
    assert mutations(400)[1] == []


@pytest.mark.full
def test_a_dotted_name_keeps_its_order_in_full(capsys):
    counts, silent = mutations(10_000)
    with capsys.disabled():
        print("", *(f"{how}: {what}: {count}" for (how, what), count in sorted(counts.items())), sep="\n")
    assert silent == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mma.m16n8k16.row.col.f32.f32.bf16.bf16.d", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.d"),
        ("mma.m16n8k16.col.row.f32.bf16.bf16.f32.a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("wmma.wmma.m16n16k16.a.row.f16", "wmma.m16n16k16.a.row.f16"),
        ("mma.aligned.sync.m16n8k16.row.col.f32.bf16.bf16.f32.a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("mma.m16n8k16.col.row.f32.bf16.bf16.f32 a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
    ],
)
def test_parts_in_another_order_are_refused_with_the_name_that_was_meant(name, meant):
    for command in (["where", name, "--lane", 0], ["show", name], ["load", name], ["why-not", name, "--arch", "sm_90"]):
        assert f"keep their order. Did you mean {meant}?" in tcprobe(*command, code=2).stderr


if __name__ == "__main__":
    for (how, what), count in sorted(mutations(10_000)[0].items()):
        print(f"{how}: {what}: {count}")


@pytest.mark.full
def test_costs_are_found_by_names_that_keep_their_order():
    """`cost` looks in what is measured, not among all forms: there, too, exchanged or doubled parts mean nothing."""
    chance, layers = random.Random(7), alone(Results(COSTS))
    subjects = [row.name for row in inventory.instructions().values() if row.id in layers.findings("cost", "sm_90")]
    taken = []
    for name in subjects * 8:
        how, text = mutated(name, chance)
        if how != "dropped" and text != name and answer_or_none(lambda text=text: costs([text], "sm_90", layers)):
            taken.append(text)
    assert (taken, len(subjects)) == ([], 4)
