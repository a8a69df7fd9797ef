/** What the scripts of the site share: all types that their JSDoc names, and `tcprobe`, which they fill one after the other. */

// ---- elements by what selects them

/** The element that the last part of a selector names by its tag: of `#n a` a link, of `.on` any element. */
type Selected<S extends string> = S extends `${infer One},${infer Other}` ? Selected<One> | Selected<Other>
  : S extends `${string} ${infer Rest}` ? Selected<Rest>
  : S extends `${infer Before}${"#" | "." | "[" | ":"}${string}` ? Tagged<Before>
  : Tagged<S>;
type Tagged<T extends string> = T extends `${infer Name}${"#" | "." | "[" | ":"}${string}` ? Tagged<Name>
  : T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : HTMLElement;

interface ParentNode {
  querySelector<S extends string>(selector: S): Selected<S> | null;
  querySelectorAll<S extends string>(selector: S): NodeListOf<Selected<S>>;
}
interface Element {
  closest<S extends string>(selector: S): Selected<S> | null;
}

/** A box to choose from, with its label. */
interface Choice {
  label: HTMLLabelElement;
  box: HTMLSelectElement;
}

// ---- layouts and matrices

/** A map from inputs to outputs: GF(2) bases and what bit 0 of all gives, or the values themselves by output. */
interface Mapped {
  id: string;
  in: [name: string, size: number][];
  out: string[];
  unused?: [first: number, count: number][];
  formula?: Record<string, string | null>;
}
interface Linear extends Mapped {
  bases: Record<string, number[][]>;
  zero: number[];
}
interface Listed extends Mapped {
  values: (number | null)[][];
}
type Layout = Linear | Listed;

/** What a layout gives for one point of its inputs; null where that leads to nothing. */
type Point = number[] | null;

/** Sizes of a fragment; `place` is where it is that is in no register. */
interface Size {
  name: string;
  rows: number;
  cols: number;
  threads: number;
  elements: number;
  bits: number;
  register: number;
  place?: string;
}
/** What depends on N. */
type OfN = [n: number, cols: number, elements: number, layout: string];

/** A thread and one of its elements. */
type Slot = [thread: number, i: number];
type At = [row: number, col: number];
interface Place {
  row: number;
  col: number;
}

/** Elements of a row side by side that the same threads hold. */
interface Piece {
  col: number;
  span: number;
  holders: Slot[];
}

/** A matrix: holders by "row,col", elements by "thread,i"; `lanes` are the threads whose registers are drawn. */
interface Block {
  title: string;
  holders: Map<string, Slot[]>;
  slots: Map<string, At>;
  flat: boolean;
  columns: number;
  pieces: Piece[][];
  lanes: number[];
}

/** A block as a table on the page; `rows` are those drawn, `lanes` the table of its registers. */
interface Grid {
  table: HTMLTableElement;
  block: Block;
  size: Size;
  rows: number[];
  axis: string;
  lanes?: HTMLTableElement;
  cell(row: number, col: number): HTMLTableCellElement | null;
  element(td: HTMLTableCellElement): Place;
  mark(of: string, elements: At[]): void;
  has(place: Place): boolean;
  holders(row: number, col: number): Slot[];
  where(row: number, col: number): string;
  named(row: number, col: number): string;
  place(i: number): string;
}
/** With its registers: threads that hold anything, and how many of them are drawn at a time. */
type Paired = Grid & { lanes: HTMLTableElement; every: number[]; shown: number };
/** `hidden` counts rows that are not drawn. */
type Compared = Grid & { hidden: number };

/** The colours of some slots, of which each goes on for `span` elements. */
type Shades = (slots: Slot[], span: number, size: Size) => number[];
/** All cells of a lane, a register, a quad, a warp. */
interface Group {
  kind: string;
  number: number;
}
interface Explored {
  drawn(grids: Grid[]): void;
  hash(): string;
  read(hash: URLSearchParams, threads: number): number | undefined;
}

// ---- tcprobe

type Act = () => void;
type OnCell = (td: HTMLTableCellElement) => void;

/** Everything of every page: which of it is there depends on the scripts that a page has. */
interface Tcprobe {
  // site.js
  one<S extends string>(selector: S, from?: ParentNode): Selected<S>;
  all<S extends string>(selector: S, from?: ParentNode): Selected<S>[];
  make<K extends keyof HTMLElementTagNameMap>(name: K, content?: string, of?: string): HTMLElementTagNameMap[K];
  why(error: unknown): string;
  offers(box: HTMLInputElement | HTMLSelectElement, value: string): boolean;
  home: string;
  ARROWS: Record<string, [down: number, right: number]>;
  load(name: string): Promise<void>;
  words(): Promise<Search>;
  select(words: string, values: string[], act: (at: number) => void): Choice;
  go(query: URLSearchParams, hash: string, step?: boolean): void;
  carry(arch: string): void;
  thumbnails(place: ParentNode): void;
  pages: { [K in keyof Datas]?: (data: Datas[K]) => void };
  // maps.js
  expand(layout: Layout): Point[];
  sized(layout: Layout, elements?: number): Layout;
  blocks(layout: Layout, size: Size): Block[];
  matrixRows(block: Block, only?: number[]): string;
  laneRows(block: Block, size: Size, only?: number[]): string;
  holding(block: Block): number[];
  rowsOf(block: Block, warp: number): number[];
  colour(thread: number): number;
  classes(threads: number[]): string;
  texts(piece: Piece): string;
  // grid.js
  fill(table: HTMLTableElement, rows: string): void;
  clear(table: HTMLTableElement, of: string): void;
  Grid: new (table: HTMLTableElement, block: Block, size: Size, rows?: number[]) => Grid;
  cellOf(event: Event): HTMLTableCellElement | null;
  lineOf(td: HTMLTableCellElement): number;
  onCells(table: HTMLTableElement, choose: OnCell, over?: OnCell, out?: Act): void;
  onArrows(table: HTMLTableElement, choose: OnCell): void;
  focusable(table: HTMLTableElement, td: HTMLTableCellElement): void;
  sizeOf(id: string, layout: Layout, of: { bits: number; register: number }): Size;
  formulas(layout: Layout, none?: string): string;
  // explore.js, picture.js
  archs<T>(of: Record<string, T>): Record<string, T>;
  onPaper(places: string, draw: Act): void;
  explore(page: { place: Element; reach: (thread: number) => void; changed: Act }): Explored;
  picture(place: Element, grids: Grid[], shades: Shades, plain: boolean): void;
  svg(grid: Grid, shades: Shades): string;
  // find.js
  search(words: Words): Search;
  find(search: Search): void;
  // diagnose.js
  readCsv(text: string, rules: CsvRules): Stated;
  against(stated: Stated, fragment: Held, measured: Stated, rules: Rules, elsewhere: string[]): Against;
  sameSlots(stated: Stated, measured: Stated, rules: Rules): Agreed;
  filled(words: string, ...values: unknown[]): string;
  // what pages compute, for the tests, too
  banks: {
    parse(given: URLSearchParams, data: BanksData): Tile;
    cost(tile: Tile, data: BanksData): Cost;
    best(tile: Tile, data: BanksData): { swizzle: number[]; wavefronts: number };
    phases(rule: Rule, at: (number | null)[]): Phase[];
  };
  way: { said(kernel: WayData, operand: string, at: number[]): string[] };
  wgmma: {
    encode(fields: Fields): bigint;
    decode(bits: bigint): Fields;
    tile(asked: WantedTile, data: WgmmaData): Described;
    hex(bits: bigint): string;
  };
}

declare var tcprobe: Tcprobe;
declare var tcprobeWords: Words;
/** search.js: [prefix, last parts] of the ids of fragments. */
declare var tcprobeNames: [string, string][];
