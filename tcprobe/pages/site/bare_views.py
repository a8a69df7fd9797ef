"""Pages of what has no table: instructions without registers, and fragments that no source describes."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.ask.absent import reason
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.pages.site import addresses, instruction_words, tmem_view, words
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import ListPart, View
from tcprobe.pages.tables import spans

HEADS = ["Operand", "Role", "Where", "At most", "Type"]


def views(facts: Facts) -> Iterator[View]:
    """A page each, and the page that leads to them."""
    if facts.bare or facts.without_source:
        yield _all(facts)
    yield from (_form(facts, row) for row in facts.bare.values())
    yield from (_fragment(facts, fragment) for fragment in facts.without_source)


def _all(facts: Facts) -> View:
    heads = ["Load", "A warp takes", "Registers", "Formula", "Drawn"]
    loads = tmem_view.loads(facts)
    parts = [
        ListPart("Into registers and back", "loads", "Documented, as CuTe has them.", links=_loads(facts)),
        ListPart("Shapes of loads", "shapes", "", heads if loads else (), loads),
        ListPart(
            "Instructions without registers", "bare", links=[(id_, addresses.instruction(id_)) for id_ in facts.bare]
        ),
        ListPart(
            "Fragments without a table", "untold", links=[(f.id, addresses.fact(f.id)) for f in facts.without_source]
        ),
    ]
    about = (
        "Tensor memory has 128 lanes of 512 columns of 32 bits; warp w of a warpgroup reaches lanes 32 w to "
        "32 w + 31. None of this is measured: no GPU with tensor memory was available, and machine code shows no "
        "layout."
    )
    return View(
        addresses.TENSOR_MEMORY,
        "tmem",
        "Tensor memory",
        "tcgen05: what is documented, and what is not",
        {
            "paragraphs": [about],
            "parts": [part for part in parts if part.links or part.rows],
            "figures": list(tmem_view.figures(facts)),
        },
    )


def _form(facts: Facts, instruction: Instruction) -> View:
    what = f"{instruction_words.what(instruction)} Needs {instruction_words.targets(instruction)}."
    operands = [
        [[(o.name, "")], [(o.role.value, "")], [(o.place.value, "")], [(f"{o.rows} x {o.cols}", "")], [(o.type, "")]]
        for o in instruction.operands
    ]
    fragment_links = [(words.name(f), addresses.fact(f.id)) for f in instruction.fragments]
    parts = [
        ListPart(
            "Operands",
            "operands",
            f"Sizes are the largest that PTX documents; {instruction.unprobed}.",
            HEADS,
            operands,
            fragment_links,
        ),
        ListPart(
            "What varies",
            "varies",
            heads=["What", "Values"],
            rows=[[[(name, "")], [(values, "")]] for name, values in instruction_words.variants(instruction)],
        ),
        ListPart(
            "What it becomes in machine code",
            "code",
            heads=["Archs", "Instructions"],
            rows=[[[(archs, "")], [(text, "")]] for archs, text, _ in instruction_words.lowerings(facts, instruction)],
        ),
        ListPart(
            "Tensor memory",
            "memory",
            "128 lanes of 512 columns of 32 bits; warp w of a warpgroup reaches lanes "
            "32 w to 32 w + 31. What reads it into registers:",
            links=_loads(facts),
        ),
        ListPart("In the shell", "shell", code=f"tcprobe list {instruction.id} --json\ntcprobe lower {instruction.id}"),
    ]
    context = {
        "paragraphs": [what, f"PTX: {instruction.name}"],
        "parts": [part for part in parts if part.rows or part.links or part.code],
    }
    return View(
        addresses.instruction(instruction.id),
        "list",
        instruction.id,
        f"{instruction.id}: documented, not measured",
        context,
    )


def _loads(facts: Facts) -> list[tuple[str, str]]:
    ids = [name for name in facts.instructions if name.startswith("tcgen05.")]
    return [(id_, addresses.instruction(id_)) for id_ in ids]


def _fragment(facts: Facts, fragment: Fragment) -> View:
    """Why it has no table on each arch."""
    by_reason: dict[str, list[str]] = {}
    for name in facts.archs:
        why = reason(fragment, name, facts.layers, None).replace(f"{name} ", "").replace(f" on {name}", "")
        by_reason.setdefault(why, []).append(name)
    each = f"{words.lane_contents(fragment)} in each {words.axis(fragment)}"
    size = f"{fragment.rows} x {fragment.cols} of {fragment.type}; {each}."
    parts = [
        ListPart(
            "Archs",
            "archs",
            heads=["Archs", "Why there is no table"],
            rows=[[[(spans(archs), "")], [(why, "")]] for why, archs in by_reason.items()],
        ),
        ListPart(
            "Instruction", "instruction", links=[(fragment.experiment, addresses.instruction(fragment.experiment))]
        ),
    ]
    return View(
        addresses.fact(fragment.id),
        "list",
        fragment.id,
        f"{fragment.id}: no table",
        {"paragraphs": [size], "parts": parts},
    )
