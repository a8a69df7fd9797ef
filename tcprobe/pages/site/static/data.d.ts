/** Data of pages, by their kind; of the table of words; of what the search and a comparison find. */

/** By arches with a space between them: the number of a layout, and of what it rests on. */
type ByArch = Record<string, [layout: number, rests: number]>;

interface Drawn extends Size {
  main: string;
  archs: ByArch;
  layouts: Layout[];
  sizes?: OfN[];
  picks?: string[];
}
type Verdict = [source: string, said: string, detail: string, erratum: string];
interface FactData extends Drawn {
  kind: "fact";
  known: { measured: boolean; evidence: string; verdicts: number; numbering: string; made: [string, string][]; command: string }[];
  verdicts: Verdict[][];
  emulated: Record<string, string>;
  page: string;
}
/** An element of a block, or a slot. */
type Chosen = { block: number } & (Place | { lane: number; i: number });

/** An element of an operand, of one of several products. */
type Picked = { number: number; key: string } & Place;
/** What meets in a multiply: a row of A, its stored column, the row of B that this is, a column of B. */
type Step = [m: number, stored: number, k: number, n: number];
type Registers = Drawn & { evidence: string[]; formulas: string[] };
/** A factor in shared memory: a picture has `piece` columns of it as one cell. */
type Remote = Size & { place: string; piece: number };
interface InstructionData {
  kind: "instruction";
  main: string;
  operands: Record<string, Registers | Remote>;
  products: number;
  drawn: string[];
  sparsity?: { fields: number; positions: number; span: number; legal: number[]; k: number };
}

interface Live {
  id: string;
  arch: string;
  bits: number;
  layout: Layout;
  query?: string;
}
interface HomeData {
  kind: "home";
  first: Live;
  archs: string[];
  examples: [words: string, text: string][];
}

interface DiffData {
  kind: "diff";
  archs: string[];
  groups: [runs: [first: number, count: number][], layouts: number[]][];
  formulas: string[];
}

/** `documented` and `on` have a bit for each arch; `sizes` are [N, elements of a thread]. */
interface Kind {
  bits: number;
  register: number;
  conventional: boolean;
  documented: number;
  sizes: [n: number, elements: number][];
}
interface CompareData {
  kind: "compare";
  first: [id: string, arch: string][];
  archs: string[];
  rules: Rules;
  csv: CsvRules;
  kinds: Kind[];
  runs: [kind: number, count: number][];
}
interface Side {
  id: string;
  arch: string;
  page: string;
  layout: Layout;
  size: Size;
  kind: Kind;
  block: Block;
  archs: string[];
  titles: string[];
  measured: boolean;
}

/** What an access costs: its bytes and lanes, and how its phases meet in banks. */
interface Rule {
  bytes: number;
  lanes: number;
  phase: number;
  joined: number;
  passes: string;
  idle: boolean;
}
interface BanksData {
  kind: "banks";
  types: Record<string, number>;
  rules: Record<string, Rule>;
}
interface Tile {
  rows: number;
  cols: number;
  bits: number;
  column: boolean;
  padding: number;
  swizzle: number[];
  block: number;
  access: string;
}
/** Line and byte of every lane of every instruction. */
interface Walk {
  rule: Rule;
  lines: number;
  bytes: number;
  places: (At | null)[][];
}
/** `banks` has by bank the words with their lanes. */
interface Phase {
  first: number;
  size: number;
  unit: number;
  banks: Map<number, Map<number, number[]>>;
  passes: number;
}
interface Cost {
  instructions: number;
  wavefronts: number;
  ideal: number;
  worst: number;
  rule: Rule;
  at: (number | null)[];
  phases: Phase[];
  lines: number;
  bytes: number;
}

/** Fields of a descriptor of wgmma, in bytes. */
interface Fields {
  lbo: number;
  sbo: number;
  swizzle: number;
  base_offset: number;
  start: number;
}
interface WgmmaData {
  kind: "wgmma";
  types: Record<string, { bits: number; map: string; form: string; page: string }>;
}
/** lines x k; a multiply takes `block` lines. */
interface WantedTile {
  lines: number;
  k: number;
  type: string;
  major: string;
  swizzle: number;
  block: number;
}
interface Described {
  fields: Fields;
  reasons: Reasons;
  bits: number;
  bytes: number;
  box: number[];
  boxes: number;
  boxBytes: number;
  alignment: number;
  perK: number[];
  perBlock: number | null;
  offset(line: number, depth: number): number;
}
type Reasons = Record<"lbo" | "sbo", string>;

/** A number that bits of (row, col, k) make. */
interface Made {
  op: "xor" | "sum";
  zero: number;
  images: number[][];
}
type Part = string | Made | { global: string };
interface WayData {
  kind: "way";
  tile: number[];
  stages: number;
  ways: Record<string, { bytes: number; lines: string; steps: Part[][] }>;
  command: string;
}

/** The data of a page by its kind; a page without data is `plain`. */
interface Datas {
  fact: FactData;
  instruction: InstructionData;
  home: HomeData;
  diff: DiffData;
  compare: CompareData;
  banks: BanksData;
  wgmma: WgmmaData;
  way: WayData;
  plain: { kind: "plain" };
}

// ---- the table of words, words.js

type Of = Record<string, string[]>;
interface Words {
  schema: number;
  stems: string[];
  meant: Record<string, string>;
  noise: string[];
  apart: Of;
  gpus: [arch: string, said: string, pattern: string][];
  ids: [prefix: string, lasts: string, layouts: number[], on: number, main: number][];
  instructions: string[];
  opcodes: Of;
  others: Record<string, Record<string, number>>;
  layouts: Layout[];
  archs: string[];
  modes: Record<string, number>;
  pages: [title: string, page: string, more: string][];
}

/** An id of a fragment (f) or an instruction (m): its parts; `on` has a bit for each arch. */
interface Entry {
  id: string;
  kind: string;
  layout: number;
  on: number;
  main: number;
  parts: string[];
}
/** A fragment, the archs that have a table of it, and which of them is shown first. */
type Known = Omit<Entry, "main"> & { archs: string[]; main: string };
type Ranked = Entry & { score: number; rank: number };
/** `whole`: of a fragment or an instruction, whether it has all that is asked. */
interface Hit {
  text: string;
  page: string;
  note?: string;
  whole?: boolean;
}
/** Of a page how much of what is asked it has, and whether its own words have all of it. */
type Listing = Hit & { rank: number; covers: number; own: boolean };
/** Words as parts of ids, an arch, an N, an element or a slot. */
interface Question {
  topics: number;
  topic: string;
  wants: string[][];
  archs: string[];
  arch: string;
  gpu: string;
  n: string;
  element: At | null;
  slot: Slot | null;
  words: string[];
  shaped: boolean;
  had: number;
}
interface Search {
  find(text: string): Hit[];
  most: number;
  fragment(text: string): { known: Known; query: URLSearchParams } | null;
  unknown(text: string): string;
  entry(page: string): Known | null;
  layoutOn(found: Known, arch: string, n: string | null): Layout;
}

// ---- somebody's table against a fragment's

interface CsvRules {
  inputs: string[];
  outputs: string[];
  also: Record<string, string>;
  delimiters: string;
  most: { bytes: number; lines: number; index: number; slots: number };
  words: Record<string, string>;
}
/** What is tried: from what lanes and elements are counted, then rows and columns. */
interface Rules {
  slots: At[];
  cells: At[];
  most: number;
  first: number;
  words: Record<string, string>;
}
/** A slot's number is thread * elements + i. */
interface Stated {
  threads: number;
  elements: number;
  outputs: string[];
  cells: Point[];
}
/** What is asked of a fragment. */
interface Held {
  bits: number;
  register: number;
  conventional: boolean;
}
interface Against {
  agreed: number;
  given: number;
  notStated: number;
  first: string[];
  renumbered: boolean;
  diagnosis: string[];
  elsewhere: string[];
  holes: string[];
}
interface Agreed {
  agreed: number;
  given: number;
  first: string[];
  wrong: Slot[];
}
type Row = [line: number, cells: string[]];
type Order = Map<number, number>;
/** Of lanes, of elements. */
type Orders = [Order, Order];
/** What slots hold, by "thread,i". */
type Given = Map<string, number[]>;
type Filled = [lane: number, i: number, cell: number[]];
