"""What is asked of a path: a fragment's table, a tile of it, where the tile lies, and what moves it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tcprobe.ask.bank_access import Slots, TileAccess, parse_access, slots_of
from tcprobe.ask.bank_rules import BankRules
from tcprobe.ask.tile import Shared, Tile
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.isa.operand import WHOLE
from tcprobe.store.cell import Cell

MOST_LD = 1 << 32  # elements
MOVES = ("ldmatrix", "stmatrix", "ld", "st")  # first parts of the names of what moves a fragment's registers
FILLS = ("cp.async", "tma", "plain")
_FILL = re.compile(r"(cp\.async|tma|plain)(?:\.(1|2|4|8|16))?")


@dataclass(frozen=True)
class TileRequest:
    """A tile between global and shared memory: `ld` elements from line to line in global memory.

    `fill` is one of FILLS, perhaps with a width: cp.async.8. `boxes`: what is known of boxes of tensor maps, in words.
    """

    tile: Tile
    ld: int
    shared: Shared
    fill: str
    rules: BankRules
    boxes: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        match = _FILL.fullmatch(self.fill)
        if not match or (match[1] == "tma" and match[2]):
            raise UsageError(f"`fill` {self.fill[:30]!r} is not one of {', '.join(FILLS)}; cp.async.8 moves 8 bytes.")
        if not self.tile.length <= self.ld <= MOST_LD:
            raise UsageError(
                f"`ld` {self.ld}: lines are {self.tile.length} elements long, and at most {MOST_LD} apart."
            )
        if self.ld * self.tile.bits % 8:
            raise UsageError(
                f"`ld` {self.ld}: a line of {self.ld} elements of {self.tile.bits} bits is not whole bytes."
            )

    @property
    def loads(self) -> bool:
        """Whether the tile goes from global to shared memory."""
        return True

    @property
    def ends(self) -> tuple[str, str]:
        """What has the tile in the end, and what reaches it there."""
        raise NotImplementedError

    @property
    def ld_bytes(self) -> int:
        """Bytes from line to line in global memory."""
        return self.ld * self.tile.bits // 8

    @property
    def fill_kind(self) -> str:
        """cp.async, tma or plain."""
        return self.fill.removesuffix(f".{self.fill_width}")

    @property
    def fill_width(self) -> int | None:
        """Bytes that a lane is to move at a time, if they are asked for."""
        match = _FILL.fullmatch(self.fill)
        return int(match[2]) if match and match[2] else None


@dataclass(frozen=True)
class PathRequest(TileRequest):
    """On its way into the registers of a fragment, or back."""

    cell: Cell
    access: TileAccess

    def __post_init__(self) -> None:
        if self.cell.fragment.role not in WHOLE:
            role = self.cell.fragment.role.value
            raise UsageError(f"{self.cell.fragment.id} is {role}, not a matrix: there is no tile of it.")
        super().__post_init__()
        if self.move not in MOVES or self.access.order != "slots":
            raise UsageError(
                f"`access` {self.access.name} is not one of ldmatrix, stmatrix, ld.shared and st.shared, which "
                "move a fragment's registers."
            )

    @property
    def loads(self) -> bool:
        """Whether the tile goes from memory into registers."""
        return self.access.row.name.startswith("ld")

    @property
    def ends(self) -> tuple[str, str]:
        """The fragment, and the access."""
        return self.cell.fragment.id, self.access.name

    @property
    def move(self) -> str:
        """The first part of the access's name: ldmatrix, st."""
        return self.access.name.partition(".")[0]

    @property
    def warps(self) -> int:
        """Warps that share a fragment."""
        return self.cell.table.threads // WARP

    @property
    def slots(self) -> Slots:
        """The fragment's slots, of as many bits as in memory; its copies follow each other along k outermost."""
        slots = slots_of(self.cell)._replace(outer=self.cell.fragment.depth or "row")
        return slots._replace(bits=slots.bits // self.access.row.wider)

    @property
    def widens(self) -> bool:
        """Whether elements take more bits in registers than in memory."""
        return self.access.row.wider > 1

    @property
    def words(self) -> str:
        """What of it can be varied."""
        return f"`ld` {self.ld} `placed` {self.shared.spelling} `fill` {self.fill} `access` {self.access.name}"

    def having(self, access: str | None = None, **changed: object) -> PathRequest:
        """This request with other options."""
        if access:
            changed["access"] = parse_access(access)
        return replace(self, **changed)  # type: ignore[arg-type]
