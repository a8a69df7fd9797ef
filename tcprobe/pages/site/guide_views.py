"""Pages of words: the guide with the method, and how to contribute."""

from __future__ import annotations

from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import Links, Part, View

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
WMMA = "wmma.m16n16k16.d.f32"
COUNTED = "A lane is 0 to 31; i counts its elements from the low bits of its first register."


def views(facts: Facts) -> list[View]:
    """Guide and contributing."""
    return [_guide(facts), _contribute()]


def _guide(facts: Facts) -> View:
    known = facts.facts | facts.instructions
    parts = [part for needs, part in QUESTIONS if not needs or needs in known]
    return View("method.html", "list", "Guide and method", "Questions and where they are answered; how layouts are measured",
                {"paragraphs": [COUNTED], "parts": [*parts, *METHOD]})  # fmt: skip


def _part(head: str, words: str, links: Links, code: str = "") -> Part:
    return Part(head, addresses.slug(head), words, links=links, code=code)


QUESTIONS = [
    (WMMA, _part("Where is x[i]?", "The page of a fragment has a table by lane; choose a register, or give lane and i in the address.",
          [(f"{WMMA}, lane 5, i 2", f"{addresses.fact(WMMA)}#lane=5&i=2")], f"tcprobe where {WMMA} --lane 5")),
    (f"{MMA}.a", _part("Who holds A[3][9]?", "Choose the element in the matrix, or give row and column in the address.",
          [(f"{MMA}.a, row 3, column 9", f"{addresses.fact(MMA + '.a')}#r=3&c=9")],
          f"tcprobe where {MMA}.a --row 3 --col 9")),
    (MMA, _part("Which A slots feed D[3][5]?", "The page of a multiply has A left, B above and D lower right; choose an element of D.",
          [(MMA, addresses.instruction(MMA))], f"tcprobe trace {MMA} --row 3 --col 5")),
    ("", _part("Who shares a layout?", "The page of a layout lists every fragment that has the very same map, and on which archs.",
          [("All layouts", "index.html#layouts")])),
    ("", _part("What differs between two archs?", "Choose both; documented tables count where nothing is measured, and say so on their page.",
          [("sm_75 and sm_80", "diff.html?a=sm_75&b=sm_80"), ("sm_70 and sm_75", "diff.html?a=sm_70&b=sm_75")])),
    ("", _part("What is documented only, and why?", "The page of an arch lists its layouts by evidence; what nobody measured there is documented.",
          [("All archs", "index.html#archs")])),
    (f"{MMA}.d", _part("Softmax over rows, masks, P as A", "A row of a 16 × 8 accumulator lies in the four lanes of a quad; convert finds the way from an accumulator to the next operand.",
          [(f"{MMA}.d", addresses.fact(f"{MMA}.d"))], f"tcprobe convert {MMA}.d {MMA}.a")),
]  # fmt: skip
METHOD = [
    _part("How it is measured", "Live: memory holds the number of every element, wmma.load brings it into registers, which are stored raw. "
          "Of a multiply the whole structure tensor is measured: which slot of A meets which slot of B in which slot of D. "
          "Matrix moves: every bit spells its own number under several patterns of addresses.", []),
    _part("Machine code", "Where a wmma fragment's elements go is decided by the compiler, so its code shows it: ptxas assembles the probes for any arch, "
          "and an interpreter runs them for the lanes of a warp. It models each opcode exactly or refuses the probe. "
          "Derived: a form of mma.sync that becomes the same machine instruction has that layout.", []),
    _part("Formulas", "GF(2)-linear maps, written as the shortest sum of mask-and-shift terms; each is compared with every slot before it is printed. "
          "The script of these pages gets the same map as bases, and builds the tables from them.", []),
    _part("Limits", "Row, column and k numbers of mma are a convention: no measurement can tell a layout from the same one renumbered consistently. "
          "wmma layouts are a property of the GPU and of the compiler. Documented means what it says: somebody's statement.", []),
]  # fmt: skip


def _contribute() -> View:
    parts = [
        _part("Measure your GPU", "One command, one folder, one pull request. Nothing else of your machine is recorded than GPU, driver and CUDA version.", [],
              "pip install 'tcprobe[cuda13]'\ntcprobe run --method live --results mine\ntcprobe merge mine --contributor 'your name' --results results"),
        _part("My GPU says otherwise", "Open an issue with the file that tcprobe wrote: results/sm_XX/live/EXPERIMENT.json. It says device, driver, compiler and the whole table.", []),
        _part("Add a form, a family, a reference", "A row of facts, an experiment and what sources state are a file each; CONTRIBUTING.md says which and how they are checked.", []),
        _part("Check somebody's table", "A CSV of lane,i,row,col against what is measured.", [], f"tcprobe compare theirs.csv {MMA}.a"),
    ]  # fmt: skip
    return View("contribute.html", "list", "Contribute", "Measure your GPU, report a difference, add a form",
                {"paragraphs": [], "parts": parts})  # fmt: skip
