"""wgmma's operands and tensor memory on the site: the script and the pictures say what the library says."""

import json
import random
import re
import shlex
import shutil
import subprocess
from html import unescape

import pytest
from click.testing import CliRunner
from site_pages import data_of, facts, pages

from tcprobe.ask.descriptor import TYPES, tile, tma
from tcprobe.ask.tensor_memory import OperandVariant, operands, placement
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.layout.descriptor import decode
from tcprobe.pages.site import tensor_memory_pages

NODE = shutil.which("node") or shutil.which("nodejs")
needs_node = pytest.mark.skipif(not NODE, reason="no Node.js to run the script in; a browser test runs it too")
PAGE = "play/wgmma.html"

RUN = """
const { readFileSync } = require("fs");
require("vm").runInThisContext(readFileSync(process.argv[1], "utf8"));
const { data, tiles, fields, bits } = JSON.parse(readFileSync(0, "utf8"));
const { tile, encode, decode, hex } = tcprobe.wgmma;
const attempt = (act) => { try { return act(); } catch (error) { return "not possible: " + error.message; } };
console.log(JSON.stringify({
  tiles: tiles.map(([asked, places]) => attempt(() => {
    const { offset, ...found } = tile(asked, data);
    return { ...found, descriptor: hex(encode(found.fields)), offsets: places.map(([line, k]) => offset(line, k)) };
  })),
  fields: fields.map((one) => attempt(() => hex(encode(one)))),
  bits: bits.map((one) => attempt(() => decode(BigInt(one)))),
}));
"""


def ran(tmp_path, **asked):
    script = tmp_path / "wgmma.js"
    script.write_text(pages()["wgmma.js"])
    given = json.dumps({"data": data_of(pages()[PAGE]), "tiles": [], "fields": [], "bits": [], **asked})
    done = subprocess.run([NODE, "-e", RUN, str(script)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def states(count):
    """Tiles, possible ones and others, with elements that are asked for."""
    pick = random.Random(11)
    for _ in range(count):
        lines, k = 8 * pick.choice([1, 3, 8, 12, 16, 24, 32, 33]), 8 * pick.choice([1, 2, 4, 8, 12, 16, 32, 64])
        asked = {
            "lines": lines,
            "k": k,
            "type": pick.choice(TYPES),
            "major": pick.choice(["k", "k", "mn"]),
            "swizzle": pick.choice([0, 32, 64, 128]),
            "block": pick.choice([64, 64, 8, 24, 96, 128, 256]),
        }
        yield asked, [[pick.randrange(lines), pick.randrange(k)] for _ in range(6)]


def attempted(size, asked):
    """The library's tile, or why there is none."""
    try:
        return tile(size, asked["type"], asked["major"], asked["swizzle"], (asked["block"], 32))
    except UsageError as error:
        return str(error)


@needs_node
def test_the_script_describes_tiles_as_the_library_does(tmp_path, sample):
    asked = list(states(len(sample(range(3000), 5))))
    found = ran(tmp_path, tiles=asked)["tiles"]
    possible = 0
    for (one, places), said in zip(asked, found, strict=True):
        size = one["lines"], one["k"]
        expected = attempted(size, one)
        if isinstance(expected, str):
            assert said.startswith("not possible: "), (one, said)
            assert said.removeprefix("not possible: ")[:24] == expected[:24], one
            continue
        possible += 1
        assert said["descriptor"] == f"{expected.descriptor.encode():#018x}", one
        assert (said["reasons"], said["bytes"]) == (expected.reasons, expected.bytes)
        assert (said["alignment"], said["perK"], said["perBlock"]) == (
            expected.alignment,
            expected.per_k,
            expected.per_block,
        )
        box = tma(expected)
        assert (said["box"], said["boxes"], said["boxBytes"]) == (box["box"], box["boxes"], box["box_bytes"])
        assert said["offsets"] == [int(expected.offset(line, k)) for line, k in places], one
    assert possible > len(asked) // 20


@needs_node
def test_the_script_turns_descriptors_both_ways_as_the_library_does(tmp_path):
    pick = random.Random(3)
    known = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62
    bits = [pick.getrandbits(64) & (known if number % 4 else -1) for number in range(200)]
    said = ran(tmp_path, bits=[hex(one) for one in bits])["bits"]
    for value, found in zip(bits, said, strict=True):
        try:
            assert found == decode(value)._asdict(), hex(value)
        except UsageError:
            assert "field" in found, hex(value)
    there = [one for one in said if isinstance(one, dict)]
    back = ran(tmp_path, fields=there)["fields"]
    assert [int(text, 16) for text in back] == [value for value, one in zip(bits, said, strict=True) if one in there]
    wrong = [
        {**there[0], name: value} for name, value in (("lbo", 8), ("sbo", 1 << 18), ("start", -16), ("swizzle", 48))
    ]
    assert all(text.startswith("not possible: ") for text in ran(tmp_path, fields=wrong)["fields"])


def test_the_page_of_wgmma_has_what_its_command_says():
    """The tile that stands there; and every type's form is one that `descriptor` takes."""
    text = unescape(pages()[PAGE])
    (command,) = re.findall(r'<pre id="command">(.*?)</pre>', text)
    said = CliRunner().invoke(main, shlex.split(command)[1:])
    assert said.exit_code == 0, said.output
    (shown,) = re.findall(r'<output id="descriptor"[^>]*>(.*?)</output>', text)
    assert shown in said.output
    types = data_of(pages()[PAGE])["types"]
    assert list(types) == list(TYPES)
    for one in types.values():
        form = f"{one['form'].replace('{n}', '96')}.b_smem"
        done = CliRunner().invoke(main, ["descriptor", "--tile", "96x256", "--instruction", form, "--swizzle", "32"])
        assert done.exit_code == 0, done.output
        assert one["page"] in pages()


def test_pictures_of_tensor_memory_are_the_documented_places(sample):
    """Every rectangle's cells hold the rows that it says, and no cell outside holds an element."""
    for id_, vector in sample(tensor_memory_pages.FORMS, 3):
        form = inventory.instructions()[id_]
        for m in map(int, form.stated["m_values"]):
            n = max(n for n in map(int, form.stated["n_values"]) if n <= tensor_memory_pages.MOST_N)
            for operand in operands(form):
                wanted = OperandVariant(m, n, 0, vector if operand.name.startswith("scale") else 0)
                try:
                    found = placement(operand, wanted)
                except UsageError:
                    continue
                drawn = {
                    (one.cta, one.lane + down, one.column + across): one.row + down
                    for one in tensor_memory_pages._regions(found)
                    for down in range(one.lanes)
                    for across in range(one.columns)
                }
                held: dict[tuple[int, int, int], int] = {}
                for row in range(found.statement.rows):
                    for col in range(found.statement.cols):
                        line = col if operand.name == "scale_b" else row
                        for place in found.places(row, col):
                            at = place.cta, place.lane, place.column
                            held[at] = min(line, held.get(at, line))
                assert drawn == held, (id_, m, operand.name)


def test_tensor_memory_is_marked_as_documented():
    text = pages()["tensor-memory.html"]
    assert "All of this is documented, none of it measured." in text
    heads = re.findall(r"<h3>(mma\.[^<]+)</h3>", text)
    assert len(heads) == len(set(heads)) >= len(tensor_memory_pages.FORMS)
    assert {row[0][0][0] for row in tensor_memory_pages.load_rows(facts())} >= {
        "tcgen05.ld.32x32b.d",
        "tcgen05.ld.16x256b.d",
    }
