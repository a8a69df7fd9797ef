"""The playground says what `tcprobe banks` says: passes, instructions, the ideal; and refuses what that refuses."""

import json
import random
import shutil
import subprocess
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from site_pages import data_of, facts

from tcprobe.cli import main
from tcprobe.pages.site import shared_memory_pages
from tcprobe.pages.site.build import asset
from tcprobe.pages.site.markup import render

NODE = shutil.which("node") or shutil.which("nodejs")
pytestmark = pytest.mark.skipif(not NODE, reason="no Node.js to run the script in; a browser test runs it too")
STATES = 2000

RUN = """
const { readFileSync } = require("fs");
require("vm").runInThisContext(readFileSync(process.argv[1], "utf8"));
const { data, states } = JSON.parse(readFileSync(0, "utf8"));
const { parse, cost, best } = tcprobe.banks;
console.log(JSON.stringify(states.map(([query, proposes]) => {
  try {
    const tile = parse(new URLSearchParams(query), data), found = cost(tile, data);
    const one = [found.wavefronts, found.instructions, found.ideal];
    return proposes ? [...one, best(tile, data)] : one;
  } catch (error) {
    return error.message;
  }
})));
"""


def run(tmp_path, states):
    """What the published script makes of addresses."""
    script = tmp_path / "banks.js"
    script.write_text(asset("banks.js"))
    given = {"data": data_of(render(shared_memory_pages.playground(facts()))), "states": states}
    done = subprocess.run(
        [NODE, "-e", RUN, str(script)], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def states(count):
    """(address, options of the command), most of them possible, some not."""
    pick = random.Random(27)
    accesses = [one for one in shared_memory_pages.playground(facts()).shows["accesses"] if "source" not in one]
    for _ in range(count):
        type_ = pick.choice(["f16", "bf16", "f32", "f64", "e4m3", "s8", "b16", "tf32", "e2m1", "b64"])
        rows, cols = (pick.choice([1, 4, 8, 16, 24, 32, 64, 100, 128]) for _ in range(2))
        lines = pick.choice(["row", "col"])
        bits = {"f32": 32, "tf32": 32, "f64": 64, "b64": 64, "e4m3": 8, "s8": 8, "e2m1": 4}.get(type_, 16)
        line = (cols if lines == "row" else rows) * bits // 8
        access = pick.choice(accesses)
        query = {"tile": f"{rows}x{cols}", "type": type_, "global": lines, "access": access}
        how = pick.choice(["plain", "pad", "sw", "sw", "boxes"])
        if how == "pad":
            padding = pick.choice([4, 8, 16, 32, 12, 16, 16])
            query["line"], shared = str(line + padding), f"pad:{padding}"
        elif how == "sw":
            b = pick.randint(1, 5)
            three = (b, pick.choice([2, 3, 4, 4, 4]), pick.choice([b, 3, 4, -3, 5]))
            query["swizzle"] = ",".join(map(str, three))
            shared = f"sw:{query['swizzle']}"
        elif how == "boxes":
            width = pick.choice([32, 64, 128])
            query["swizzle"], shared = f"{width}B", f"boxes:{width}"
        else:
            query["line"], shared = str(line or 1), "plain"
        yield (
            urlencode(query),
            ["--tile", query["tile"], "--type", type_, "--global", lines, "--shared", shared, "--with", access],
        )


def asked(options):
    """What the command says; None where it refuses."""
    done = CliRunner().invoke(main, ["banks", *options, "--json"])
    if done.exit_code:
        assert done.exit_code == 2, done.output
        return None
    said = json.loads(done.stdout)
    return [said[key][0] for key in ("wavefronts", "instructions", "ideal")]


def test_the_playground_says_what_the_command_says(tmp_path, sample):
    chosen = sample(list(states(STATES)), 12)
    found = run(tmp_path, [(query, False) for query, _ in chosen])
    refused = 0
    for (query, options), here in zip(chosen, found, strict=True):
        there = asked(options)
        refused += there is None
        assert (here if isinstance(here, list) else None) == there, (query, here, options)
    assert refused < len(chosen) / 2


def test_the_best_swizzle_is_the_command_s(tmp_path):
    cases = [
        ("64x64", "f16", "ldmatrix.x4"),
        ("32x32", "f32", "ld.shared.b32@cols"),
        ("64x32", "f16", "st.shared.b64@rows"),
    ]
    found = run(tmp_path, [(urlencode({"tile": t, "type": y, "access": a}), True) for t, y, a in cases])
    for (tile, type_, access), (*_, best) in zip(cases, found, strict=True):
        options = ["banks", "--tile", tile, "--type", type_, "--with", access, "--propose", "--json"]
        said = json.loads(CliRunner().invoke(main, options).stdout)["swizzle"]
        assert (best["swizzle"], best["wavefronts"]) == (said["swizzle"], said["wavefronts"][0])


def test_the_published_address(tmp_path):
    """What other programs rely on."""
    address = "tile=64x64&type=f16&line=128&swizzle=3,4,3&access=ldmatrix"
    plain = "tile=64x64&type=f16&line=128&access=ldmatrix"
    padded = "tile=64x64&type=f16&line=144&access=ldmatrix"
    assert run(tmp_path, [(one, False) for one in (address, plain, padded)]) == [
        [64, 16, 64],
        [512, 16, 64],
        [64, 16, 64],
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "query",
    [
        "tile=0x64",
        "tile=64",
        "tile=999999x999999",
        "type=<b>",
        "type=__proto__",
        "line=1",
        "line=x",
        "swizzle=9",
        "swizzle=3,4",
        "swizzle=3,4,99",
        "swizzle=3,4,1",
        "access=toString",
        "access=ldmatrix@up",
        "line=144&swizzle=3,4,3",
        "access=ld.shared.b32",
        "access=wgmma",
        "access=TMA",
        "access=cp.async.bulk",
    ],
)
def test_a_wrong_address_is_refused_in_words(tmp_path, query):
    (said,) = run(tmp_path, [(query, False)])
    assert isinstance(said, str)
    assert said
