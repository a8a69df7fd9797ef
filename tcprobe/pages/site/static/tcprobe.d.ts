/** What the scripts of the site share: types that their JSDoc names, and `tcprobe`, which they fill one after the other. */

/** A map from inputs to outputs: GF(2) bases and what bit 0 of all gives, or the values themselves. */
interface Layout {
  id: string;
  in: [string, number][];
  out: string[];
  bases?: Record<string, number[][]>;
  zero?: number[];
  unused?: [number, number][];
  values?: (number | null)[][];
  formula?: Record<string, string>;
}

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

/** A thread and one of its elements. */
type Slot = [number, number];

/** Elements of a row side by side that the same threads hold. */
interface Piece {
  col: number;
  span: number;
  holders: Slot[];
}

/** A matrix: holders by "row,col", elements by "thread,i". */
interface Block {
  title: string;
  holders: Map<string, Slot[]>;
  slots: Map<string, Slot>;
  flat: boolean;
  columns: number;
  pieces: Piece[][];
  lanes?: number[];
}

/** Everything of every page: which of it is there depends on the scripts that a page has. */
interface Tcprobe {
  // site.js
  one(selector: string, from?: ParentNode): any;
  all(selector: string, from?: ParentNode | null): any[];
  make(name: string, content?: string, of?: string): any;
  data: any;
  home: string;
  ARROWS: Record<string, number[]>;
  load(name: string): Promise<void>;
  select(words: string, values: string[], act: (at: number) => void): { label: any; box: any };
  go(query: URLSearchParams, hash: string, step?: boolean): void;
  carry(arch: string): void;
  thumbnails(place: any): void;
  page?: () => void;
  // maps.js
  expand(layout: Layout): (number[] | null)[];
  blocks(layout: Layout, size: Size): Block[];
  matrixRows(block: Block, only?: number[]): string;
  laneRows(block: Block, size: Size, only?: number[]): string;
  holding(block: Block): number[];
  rowsOf(block: Block, warp: number): number[];
  colour(thread: number): number;
  classes(piece: { holders: number[][] }): string;
  texts(piece: Piece): string;
  // grid.js
  fill(table: any, rows: string): void;
  clear(table: any, of: string): void;
  Grid: new (table: any, block: Block, size: Size, rows?: number[]) => any;
  cellOf(event: Event): any;
  onCells(table: any, choose: (td: any) => void, over?: (td: any) => void, out?: () => void): void;
  focusable(table: any, td: any): void;
  archs(of: Record<string, any>): Record<string, any>;
  sized(layout: Layout, n?: any): Layout;
  onPaper(places: string, draw: () => void): void;
  // explore.js, picture.js
  explore(page: { place: any; reach: (thread: number) => void; changed: () => void }): {
    drawn(grids: any[]): void;
    hash(): string;
    read(hash: URLSearchParams, threads: number): number | undefined;
  };
  picture(place: any, grids: any[], shades: (slots: Slot[], span: number, size: Size) => number[], plain: boolean): void;
  svg(grid: any, shades: (slots: Slot[], span: number, size: Size) => number[]): string;
  // find.js
  find(): void;
  search: any;
  // diagnose.js
  readCsv(text: string, rules: any): any;
  against(stated: any, fragment: any, measured: any, rules: any, elsewhere: string[]): any;
  sameSlots(stated: any, measured: any, rules: any): any;
  filled(words: string, ...values: unknown[]): string;
  // what pages compute, for the tests, too
  banks: any;
  way: any;
  wgmma: any;
}

declare var tcprobe: Tcprobe;
/** words.js: the table of words. */
declare var tcprobeWords: any;
/** search.js: [prefix, last parts] of the ids of fragments. */
declare var tcprobeNames: [string, string][];
