"""What a file says must be possible, also where its checksum fits: else it is refused, by name, with exit code 4."""

import json
import re

import crafted
import pytest
from click.testing import CliRunner
from crafted import LOAD, MMA, MULTIPLY, filled, put, resealed, rewrite
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import DataError, NewerSchemaError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS
from tcprobe.layout.table import slot_table
from tcprobe.references import Claim, references
from tcprobe.store import acceptance
from tcprobe.store.cell import load
from tcprobe.store.documents import seal
from tcprobe.store.finding import Measurement
from tcprobe.store.results import Results, published


@pytest.fixture
def root(tmp_path):
    return crafted.filled(tmp_path)


def refusal(root, experiment):
    results = Results(root)
    with pytest.raises(DataError) as caught:
        results.measurement("sm_90", "live", experiment)
    assert str(results.path("sm_90", "live", experiment)) in str(caught.value) or "layouts" in str(caught.value)
    return str(caught.value)


def replaced(table, **columns):
    return slot_table(table.threads, table.elements, {**table.values, **columns})


def wrong_tables():
    """(name, fragment's experiment, operand, table): tables that are sound in themselves, and not of the fragment."""
    a = load(LOAD, "sm_90").table
    product = published().measurement("sm_90", "live", MMA).tables["a"]
    row, col = a.values["row"], a.values["col"]
    yield "another fragment's", load("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "sm_90").table, LOAD, "elements"
    fewer = slot_table(16, 16, {name: column[:256] for name, column in a.values.items()})
    yield "fewer threads", fewer, LOAD, "16 threads x 16 elements, not 32 threads x 16"
    yield (
        "one element twice, one missing",
        replaced(a, row=(row[1], *row[1:]), col=(col[1], *col[1:])),
        LOAD,
        "are held",
    )
    yield "a slot unused", replaced(a, row=(None, *row[1:]), col=(None, *col[1:])), LOAD, "are held 2 times"
    yield "nothing at all", replaced(a, row=(None,) * 512, col=(None,) * 512), LOAD, "0 of 256 elements"
    yield "a row outside", replaced(a, row=(16, *row[1:])), LOAD, "row 16 is outside 0 to 15"
    yield "a column outside", replaced(a, col=(65535, *col[1:])), LOAD, "col 65535 is outside"
    yield "a product too much", replaced(a, product=(0,) * 512), LOAD, "it gives row, col, product"
    without = slot_table(32, product.elements, {n: c for n, c in product.values.items() if n != "product"})
    yield "no product", without, MMA, "it gives row, col of a slot, not row, col, product"
    yield "one product", replaced(product, product=(0,) * product.points), MMA, "are held"
    yield "a fifth product", replaced(product, product=(4, *product.values["product"][1:])), MMA, "product 4 is outside"


@pytest.mark.parametrize(("name", "table", "experiment", "words"), list(wrong_tables()), ids=lambda x: str(x)[:30])
def test_a_table_that_cannot_be_the_fragments_is_refused(root, name, table, experiment, words):
    id_ = put(root, table)
    path = Results(root).path("sm_90", "live", experiment)
    rewrite(path, lambda content: content["fragments"].update(a=id_))
    assert words in refusal(root, experiment)
    row = inventory.of_experiment(experiment)[0]
    assert acceptance.misfit(row, table)
    with pytest.raises(UsageError, match="cannot be a table of"):
        acceptance.require_fit(row, table)


def first(content):
    return content["unread"]["a"][0]


CHANGES = [
    (LOAD, lambda c: c["fragments"].clear(), "status measured contradicts"),
    (MULTIPLY, lambda c: c["fragments"].pop("c"), "it needs the tables of a, b, c, d, not of a, b, d"),
    (LOAD, lambda c: c["fragments"].update(b=c["fragments"]["a"]), "it needs the tables of a, not of a, b"),
    (LOAD, lambda c: c["fragments"].update(a="0" * 12), "missing"),
    (LOAD, lambda c: c["fragments"].update(a="../../x"), "fragments layouts as values"),
    (LOAD, lambda c: c["fragments"].update(a=7), "fragments layouts as values"),
    (LOAD, lambda c: c.update(experiment="wmma.m16n16k16.a.col.f16"), "renamed or copied"),
    (LOAD, lambda c: c.update(arch="sm_80"), "renamed or copied"),
    (LOAD, lambda c: c.update(structure={"triples": 4096, "sha256": "0" * 64}), "of a multiply, but is not one"),
    (MULTIPLY, lambda c: c.update(structure=None), "a multiply's structure is missing"),
    (MULTIPLY, lambda c: c["structure"].update(triples=4095), "4095 triples; wmma.mma.*forms 4096"),
    (MULTIPLY, lambda c: c["structure"].update(triples=-4096), "a number above 0"),
    (MULTIPLY, lambda c: c["structure"].update(triples=True), "a number above 0"),
    (MULTIPLY, lambda c: c["structure"].update(triples=4096.0), "a number above 0"),
    (MULTIPLY, lambda c: c["structure"].update(sha256="0" * 63), "and sha256"),
    (MULTIPLY, lambda c: c["structure"].update(sha256="G" * 64), "and sha256"),
    (MMA, lambda c: c["structure"].update(triples=256), "256 triples; mma.*forms 1024"),
    (LOAD, lambda c: c.update(unread={"a": [[]] * 32}), "is not a factor of a multiply"),
    (MULTIPLY, lambda c: c["unread"].update(d=[[]] * 32), "d is not a factor of a multiply"),
    (MULTIPLY, lambda c: c["unread"].update(x=[[]] * 32), "not a factor"),
    (MULTIPLY, lambda c: c["unread"]["a"].pop(), "a needs 32 lanes of ascending numbers below 16"),
    (MULTIPLY, lambda c: c["unread"]["a"].append([]), "a needs 32 lanes"),
    (MULTIPLY, lambda c: first(c).reverse(), "ascending"),
    (MULTIPLY, lambda c: first(c).append(first(c)[-1]), "ascending"),
    (MULTIPLY, lambda c: first(c).append(16), "ascending"),
    (MULTIPLY, lambda c: first(c).insert(0, -1), "ascending"),
    (MULTIPLY, lambda c: first(c).append(True), "not a number"),
    (MULTIPLY, lambda c: first(c).append("1"), "not a number"),
    (MULTIPLY, lambda c: c["unread"].update(a=[list(range(16))] * 32), "have no holder that is read"),
    (MULTIPLY, lambda c: first(c).insert(0, 0), "have no holder that is read"),
    (MMA, lambda c: c.update(unread={"a": [[0]] + [[]] * 31}), "have no holder that is read"),
    (LOAD, lambda c: c.update(words="why"), "status measured contradicts"),
    (LOAD, lambda c: c.update(status="refused"), "status refused contradicts"),
    (LOAD, lambda c: c.update(status="wonderful"), "keys, status or method are not those"),
    (LOAD, lambda c: c.update(numbering=None), "status measured contradicts"),
    (LOAD, lambda c: c.update(more=1), "keys, status or method are not those"),
    (LOAD, lambda c: c["provenance"].pop("driver"), "provenance needs the keys"),
    (LOAD, lambda c: c["provenance"].update(driver=5), "each with a text"),
    (LOAD, lambda c: c["provenance"].update(compiler="x\ny"), r"compiler: the text 'x\\ny' has characters"),
    (LOAD, lambda c: c["provenance"].update(compiler="x" * 501), "or more than 500"),
    (LOAD, lambda c: c.update(numbering="\x1b[2J"), "numbering: the text"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("experiment", "change", "words"), CHANGES)
def test_what_does_not_go_with_the_inventory_is_refused(root, experiment, change, words):
    rewrite(Results(root).path("sm_90", "live", experiment), change)
    assert re.search(words, refusal(root, experiment))
    done = CliRunner().invoke(main, ["pages", "--results", str(root)])
    assert done.exit_code == 4
    assert str(root) in done.stderr


@pytest.mark.parametrize("schema", ["0", "-1", "true", "1.0", '"1"', "null", "[1]", "9" * 5000])
def test_only_schema_one_is_read(root, schema):
    path = Results(root).path("sm_90", "live", LOAD)
    path.write_text(resealed(path.read_text().replace('"schema": 1', f'"schema": {schema}')))
    assert re.search("not a tcprobe measurement|not JSON", refusal(root, LOAD))
    path.write_text(resealed(path.read_text().replace(f'"schema": {schema}', '"schema": 2')))
    with pytest.raises(NewerSchemaError):
        Results(root).measurement("sm_90", "live", LOAD)


@pytest.mark.parametrize(
    ("key", "twice"),
    [
        ("status", '"status": "refused",\n "status": "measured"'),
        ("a", '"a": "000000000000",\n  "a": "111111111111"'),
        ("schema", '"schema": 1,\n "schema": 1'),
        ("driver", '"driver": "1",\n  "driver": "2"'),
    ],
)
def test_a_key_that_stands_twice_is_refused(root, key, twice):
    path = Results(root).path("sm_90", "live", LOAD)
    path.write_text(resealed(re.sub(rf'"{key}": [^,\n]+', lambda _: twice, path.read_text(), count=1)))
    assert f"the key '{key}' appears twice" in refusal(root, LOAD)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_is_refused(root, number):
    path = Results(root).path("sm_90", "live", MULTIPLY)
    path.write_text(resealed(path.read_text().replace('"triples": 4096', f'"triples": {number}')))
    assert re.search("is not a number|a number above 0", refusal(root, MULTIPLY))


def test_what_a_later_tcprobe_wrote_is_left_alone_unless_it_is_asked_for(root):
    """Experiments and archs that are not known yet: other files go on being read, and theirs stay."""
    path = Results(root).path("sm_90", "live", LOAD)
    later = "mma.xx.m16n8k32.row.col.f32.f16.f16.f32"
    content = json.loads(path.read_text())
    body = {k: v for k, v in content.items() if k not in ("kind", "schema", "sha256")} | {"experiment": later}
    unknown = path.with_name(f"{later}.json")
    unknown.write_text(seal("measurement", body))
    (root / "sm_999" / "live").mkdir(parents=True)
    (root / "sm_999" / "live" / path.name).write_text("?")
    results = Results(root)
    assert results.archs() == ["sm_90"]
    assert {m.experiment for m in results.measurements("sm_90", "live")} == {LOAD, MULTIPLY, MMA}
    assert "is not known to this tcprobe" in refusal(root, later)
    before = unknown.read_bytes()
    assert CliRunner().invoke(main, ["pages", "--results", str(root)]).exit_code == 0
    assert CliRunner().invoke(main, ["show", LOAD, "--results", str(root)]).exit_code == 0
    assert unknown.read_bytes() == before


def test_everything_that_is_stated_or_published_can_belong(sample):
    for fragment in sample(inventory.fragments().values(), 11):
        assert fragment in inventory.of_experiment(fragment.experiment)
        for row in ARCHS:
            for claim in (reference.claim(fragment, row) for reference in references()):
                assert not isinstance(claim, Claim) or acceptance.misfit(fragment, claim.meant) is None
    assert not inventory.of_experiment("mma.m1n1k1.row.col.f16.f16.f16.f16")


MOVE = "ldmatrix.m8n8.x1.trans.shared.b16"
ROWS = tuple(range(8)) + (None,) * 24


def move(tmp_path, method="live", **address):
    """A folder with a measurement of a move, and its path; the columns of its addresses may be others."""
    fragments = {f.operand: f for f in inventory.of_experiment(MOVE)}
    tables = {"d": load(f"{MOVE}.d", "sm_90").table}
    if address:
        tables["address"] = slot_table(len(address["row"]), 1, address)
    provenance = published().measurement("sm_90", "live", LOAD).provenance
    found = Measurement(MOVE, "sm_90", method, "measured", provenance, tables, "memory addresses")
    assert set(fragments) == {"address", "d"}
    results = Results(tmp_path)
    results.write(found)
    return results.path("sm_90", method, MOVE), found


def test_a_move_is_accepted_with_the_addresses_that_count(tmp_path):
    _, found = move(tmp_path, row=ROWS)
    assert Results(tmp_path).measurement("sm_90", "live", MOVE) == found


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ({"row": (*ROWS[:7], None, *ROWS[8:])}, "7 of 8 elements are held 1 times"),
        ({"row": (*ROWS[:9], 7, *ROWS[10:])}, "7 of 8 elements are held 1 times"),
        ({"row": (*ROWS[:7], 8, *ROWS[8:])}, "row 8 is outside 0 to 7"),
        ({"row": ROWS[:16]}, "16 threads x 1 elements, not 32 threads x 1"),
        ({"row": ROWS, "col": (0,) * 8 + (None,) * 24}, "it gives row, col of a slot, not row"),
    ],
)
def test_addresses_that_cannot_be_a_moves_are_refused(tmp_path, address, words):
    move(tmp_path, **address)
    assert words in refusal(tmp_path, MOVE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(structure={"triples": 64, "sha256": "0" * 64}), "of a multiply, but is not one"),
        (lambda c: c.update(unread={"d": [[]] * 32}), "d is not a factor of a multiply"),
        (lambda c: c["fragments"].pop("address"), "it needs the tables of address, d, not of d"),
        (lambda c: c["fragments"].update(address=c["fragments"]["d"]), "32 threads x 2 elements, not 32 threads x 1"),
    ],
)
def test_what_only_a_multiply_has_no_move_has(tmp_path, change, words):
    path, _ = move(tmp_path, row=ROWS)
    rewrite(path, change)
    assert words in refusal(tmp_path, MOVE)


def test_only_code_may_leave_addresses_open(tmp_path):
    _, found = move(tmp_path, "derived")
    assert Results(tmp_path).measurement("sm_90", "derived", MOVE) == found
    move(tmp_path, "live")
    assert "it needs the tables of address, d" in refusal(tmp_path, MOVE)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.sampled_from(["a", "measured", "refused", "live", LOAD, "0" * 12, "0" * 64, 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()):
    """Every place in a JSON value: the keys that lead there."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*path, key))


def put_at(value, path, new):
    """A JSON value with another one at a place."""
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = put_at(value[path[0]], path[1:], new)
    return copied


@pytest.mark.full
@examples(120)
@given(data=st.data())
def test_any_value_anywhere_is_refused_or_read_by_every_command(data, tmp_path_factory):
    """Under a right checksum: never another exception than the tool's own, and never a table that cannot be."""
    root = tmp_path_factory.mktemp("any")
    crafted.filled(root)
    results = Results(root)
    paths = [results.path("sm_90", "live", e) for e in (LOAD, MULTIPLY, MMA)]
    paths += [results.opcodes_path("sm_90"), results.lowering_path("sm_90"), *sorted((root / "layouts").iterdir())[:2]]
    path = data.draw(st.sampled_from(paths))
    content = json.loads(path.read_text())
    kind, body = content["kind"], {k: v for k, v in content.items() if k not in ("kind", "schema", "sha256")}
    place = data.draw(st.sampled_from([p for p in places(body) if p]))
    changed = put_at(body, place, data.draw(JSON))
    try:
        path.write_text(seal(kind, changed))
    except (TypeError, UnicodeEncodeError):  # keys of several kinds, or a surrogate: no canonical text
        return
    for command in (["show", LOAD], ["trace", MMA, "--row", "0", "--col", "0", "--product", "0"], ["fit", str(root)]):
        folder = [] if command[0] == "fit" else ["--results", str(root)]
        done = CliRunner().invoke(main, [*command, *folder])
        assert isinstance(done.exception, SystemExit | None), (command, place, done.exception)
        assert done.exit_code in (0, 1, 4)
    for m in refusing(lambda: list(Results(root).measurements("sm_90", "live"))):
        for fragment in inventory.of_experiment(m.experiment):
            assert acceptance.misfit(fragment, m.tables[fragment.operand]) is None
    refusing(lambda: [Results(root).opcodes("sm_90").values()])
    refusing(lambda: [Results(root).lowering("sm_90")])


def refusing(read):
    """What is read, nothing where it is refused."""
    try:
        return read()
    except DataError:
        return []


def test_fit_names_a_measurement_that_it_cannot_trust(tmp_path):
    """Its layouts are fitted all the same."""
    root = filled(tmp_path / "r")
    rewrite(Results(root).path("sm_90", "live", LOAD), lambda c: c.pop("fragments"))
    done = CliRunner().invoke(main, ["fit", str(root)])
    assert (done.exit_code, done.stderr.startswith("Left out: "), LOAD in done.stderr) == (0, True, True)
