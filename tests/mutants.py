"""Changed operands and opcodes of one line of machine code."""

import re

from tcprobe.sass.meaning import MEANINGS
from tcprobe.sass.opcodes import OPCODES


def mutants(step, rng):
    """The instruction with another register, immediate, opcode, modifier, guard, sign or order of operands: texts."""
    for match in re.finditer(r"\b(?:R|UR|P)\d+\b|0x[0-9a-f]+", step.text):
        token = match[0]
        if token.startswith("0x"):
            new = hex(int(token, 16) ^ 1 << rng.randrange(max(1, int(token, 16).bit_length())))
        else:
            kind = token.rstrip("0123456789")
            new = f"{kind}{(int(token[len(kind) :]) + rng.choice([1, 2])) % (7 if kind == 'P' else 60)}"
        yield step.text[: match.start()] + new + step.text[match.end() :]
    yield step.text.replace(step.opcode, rng.choice(sorted({*OPCODES, *MEANINGS})), 1)
    yield step.text.replace(step.opcode, "MOV" if step.opcode != "MOV" else "MOVM.16.MT88", 1)
    yield step.text.replace(step.opcode, f"{step.opcode}.X2", 1)
    plain = step.text.split(" ", 1)[1] if step.guard else step.text
    yield f"@!PT {plain}"
    yield f"@{rng.choice(['P0', '!P0', 'P1', '!UP0'])} {plain}"
    opcode, _, rest = plain.partition(" ")
    operands = rest.split(", ")
    j = rng.randrange(len(operands))
    yield f"{opcode} {', '.join([*operands[:j], f'-{operands[j]}', *operands[j + 1 :]])}"
    order = operands[:]
    rng.shuffle(order)
    yield f"{opcode} {', '.join(order)}"
