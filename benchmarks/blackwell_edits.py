"""One edit of each text of a kernel for Blackwell, by kind and what it is about: what stands there, what instead.

A text is spoilt in its first place; "re:" begins a pattern. @GROUP@ is the kernel's cta_group.
"""

Edits = dict[str, dict[str, tuple[str, str]]]

TCGEN05: Edits = {
    "wait": {
        "the producer's for an empty stage": ("wait(empty + 8 * stage, tile / STAGES % 2 ^ 1);", ";"),
        "the multiply's for a full stage": ("wait(full + 8 * stage, tile / STAGES % 2);", ";"),
        "for the second block's stage": ("wait(second + 8 * stage, tile / STAGES % 2);", ";"),
        "the second block's for its stage": ("wait(full + 8 * (tile % STAGES), tile / STAGES % 2);", ";"),
        "for D": ("wait(done, 0);", ";"),
        "of a load of D": (" tcgen05.wait::ld.sync.aligned;", ""),
        "for stores of D": ('asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");', ""),
        "commit of an empty stage": ("commit(empty + 8 * stage);", ";"),
        "commit of D": ("commit(done);", ";"),
        "commit of D before the last multiplies": (
            r"re:(      fence_after\(\);\n)(.*?)    commit\(done\);",
            r"\1      if (tile + 1 == tiles) commit(done);\n\2",
        ),
        "the second block's arrival": ("arrive_first(second + 8 * (tile % STAGES));", ";"),
        "the bytes that are expected": ("expect(barrier, BYTES_AB", "expect(barrier, 0 * BYTES_AB"),
        "16 bytes fewer are expected": ("expect(barrier, BYTES_AB", "expect(barrier, BYTES_AB - 16"),
        "commit to one block": ("const unsigned short both = 3;", "const unsigned short both = 1;"),
        "an empty stage's arrivals": ('mbarrier.init.shared.b64 [%0], 1;"', 'mbarrier.init.shared.b64 [%0], 2;"'),
    },
    "fence": {
        "before threads meet": ("inline void meet() {\n  fence_before();", "inline void meet() {"),
        "after threads have met": ("  fence_after();\n}", "}"),
        "after a stage is full": ("      fence_after();\n", ""),
        "after D is complete": ("  __syncwarp();\n  fence_after();", "  __syncwarp();"),
        "of the proxy, before stores of D": ('asm volatile("fence.proxy.async.shared::cta;" : : : "memory");', ""),
        "of the warp, before stores of D": ("    __syncwarp();\n    if (lane == 0) {", "    if (lane == 0) {"),
        "threads meet at the start": ("  meet();\n  const unsigned tmem", "  const unsigned tmem"),
        "threads meet at the end": ("  meet();\n  if (warp == 2)", "  if (warp == 2)"),
        "the barrier's wait": ("barrier.cluster.wait.acquire.aligned;", ""),
        "the barrier's release": ("barrier.cluster.arrive.release.aligned;", "barrier.cluster.arrive.relaxed.aligned;"),
        "the pair's release": ("mbarrier.arrive.release.cluster", "mbarrier.arrive.relaxed.cluster"),
    },
    "phase": {
        "of an empty stage": ("tile / STAGES % 2 ^ 1);", "tile / STAGES % 2);"),
        "of a full stage": (
            "wait(full + 8 * stage, tile / STAGES % 2);",
            "wait(full + 8 * stage, tile / STAGES % 2 ^ 1);",
        ),
        "of a full stage, always 0": ("wait(full + 8 * stage, tile / STAGES % 2);", "wait(full + 8 * stage, 0);"),
        "of an empty stage, always 1": ("tile / STAGES % 2 ^ 1);", "1);"),
        "of a ring that is longer": (
            "wait(empty + 8 * stage, tile / STAGES % 2 ^ 1);",
            "wait(empty + 8 * stage, tile / (STAGES + 1) % 2 ^ 1);",
        ),
        "of the second block's stage": (
            "wait(second + 8 * stage, tile / STAGES % 2);",
            "wait(second + 8 * stage, tile / STAGES % 2 ^ 1);",
        ),
        "of D": ("wait(done, 0);", "wait(done, 1);"),
        "the first multiply adds": ("tile);", "1);"),
        "every tile starts anew": ("tile);", "0);"),
        "the stage that is multiplied": (
            "stage = tile % STAGES, at = shared + stage * STAGE;\n      wait(full",
            "stage = (tile + 1) % STAGES, at = shared + stage * STAGE;\n      wait(full",
        ),
    },
    "swizzle": {
        "of D in shared memory": ("place_d(lane, first", "place_d(lane ^ 1, first"),
        "none of D": (r"re:(return \(.*?\)) \^ .*; }", r"\1; }"),
        "D's pieces": ('i)), "r"(words[4 * i])', '(i ^ 1))), "r"(words[4 * i])'),
    },
    "address": {
        "A's line": (", m0);", ", m0 + 1);"),
        "A's k": ("map_a, barrier, k0 + 0", "map_a, barrier, k0 + 16"),
        "B's line": (r"re:(map_b, barrier, .*?, n0)", r"\1 + 8"),
        "B's k": ("map_b, barrier, k0 + 0", "map_b, barrier, k0 + 16"),
        "A in its stage": ("load(at + 0, map_a", "load(at + 1024, map_a"),
        "B in its stage": ("load(at + BYTES_A + 0, map_b", "load(at + BYTES_A + 1024, map_b"),
        "half of B": ("rank * (TILE_N / 2)", "rank * (TILE_N / 4)"),
        "A's second step": ("multiply(tmem, a + ", "multiply(tmem, a + 1 + "),
        "B of the multiply": ("((at + BYTES_A) & 0x3ffff)", "((at + BYTES_A + 32) & 0x3ffff)"),
        "a stage": ("shared + stage * STAGE;", "shared + stage * (STAGE - 1024);"),
        "lanes of D": ("(warp * 32 << 16)", "(warp * 32 << 15)"),
        "columns of D": ("+ first, d);", "+ first + 1, d);"),
        "rows of D": ("first_row = m0 + warp * 32", "first_row = m0 + warp * 31"),
        "columns of D in memory": ("map_d, n0 + 0", "map_d, n0 + 8"),
        "D at the edge": ("n0 + first + i < n", "n0 + first + i <= n"),
        "D in shared memory": ("const unsigned at = shared + warp * ", "const unsigned at = shared + 64 + warp * "),
        "D of the multiply": ("multiply(tmem, ", "multiply(tmem + 8, "),
        "columns that are not given back": (r're:if \(warp == 2\)\n    asm volatile\("tcgen05.dealloc.*?\);\n', ""),
        "half of the columns": (': "r"(tmem), "n"(COLUMNS)', ': "r"(tmem), "n"(COLUMNS > 32 ? COLUMNS / 2 : 64)'),
        "too few columns": (
            r"re:constexpr unsigned COLUMNS = \d+",
            "constexpr unsigned COLUMNS = 32 * (TILE_N < 64) + 32 * (TILE_N >= 64)",
        ),
        "columns after the permit": (
            '    asm volatile("tcgen05.alloc',
            '    asm volatile("tcgen05.relinquish_alloc_permit.@GROUP@.sync.aligned;" : : : "memory");\n'
            '    asm volatile("tcgen05.alloc',
        ),
        "scales of A in tensor memory": ("copy_atom(sa + 0", "copy_atom(sa + 4"),
        "scales of B in tensor memory": ("copy_atom(sb + 4 * (0", "copy_atom(sb + 4 * (1"),
        "scales of A in shared memory": (", scales + 0 * ATOM)", ", scales + 16 + 0 * ATOM)"),
        "scales of B are A's": ("scales + ((1 + i) * GROUPS", "scales + ((0 + i) * GROUPS"),
        "scales of another line": ("atoms(sfa, m0, m)", "atoms(sfa, m0 + 128, m)"),
        "scales of another tile": ("tile * GROUPS * ATOM, barrier", "(tile ? tile - 1 : 0) * GROUPS * ATOM, barrier"),
        "how long a line of scales is": ("(k + 4 * BLOCK - 1) / (4 * BLOCK)", "k / (4 * BLOCK)"),
        "scales among D": ("SCALES = TILE_N,", "SCALES = TILE_N - 4,"),
        "scales for one warp": (".32x128b.warpx4 ", ".64x128b.warpx2::02_13 "),
    },
}

MMA_SYNC: Edits = {
    "wait": {
        "for a stage": (r're:asm volatile\("cp.async.wait_group \d+;" : : : "memory"\);', ""),
        "one group fewer": (r"re:cp.async.wait_group (\d+);", "cp.async.wait_group 1;"),
        "commit": ('asm volatile("cp.async.commit_group;" : : : "memory");', ""),
    },
    "fence": {
        "before the first tile": ("  __syncthreads();\n  unsigned stage = shared;", "  unsigned stage = shared;"),
        "between tiles": ("        __syncthreads();  // the next", "        // the next"),
        "before D takes the stages": ("  __syncthreads();  // all have read the last tile", ""),
        "before D leaves": ("  __syncthreads();\n  for (int piece", "  for (int piece"),
    },
    "phase": {
        "the next stage": ("stage = after(stage);", "stage = shared;"),
        "the stage that is filled": ("into = after(into);", "into = shared;"),
        "the step that is loaded": ("load(stage, step + 1);", "load(stage, step);"),
        "the tile that is filled": ("fill(tile + STAGES - 1);", "fill(tile + STAGES);"),
        "scales of the next word": ("* STEPS + step) * ", "* STEPS + step + 1) * "),
    },
    "swizzle": {
        "of A": (r"re:lane & 16", "lane & 8"),
    },
    "address": {
        "A's rows": ("m0 * lda", "(m0 + 1) * lda"),
        "B's columns": ("n0 * ldb", "(n0 + 1) * ldb"),
        "the next tile of A": ("next_a += TILE_K", "next_a += 16 + TILE_K"),
        "the next tile of B": ("next_b += TILE_K", "next_b += 16 + TILE_K"),
        "scales of A's rows": ("m0 + down * WARP_M + i * 16", "m0 + down * WARP_M + i * 8"),
        "scales of B's columns": ("n0 + across * WARP_N + j * 8", "n0 + across * WARP_N + j * 16"),
        "scales of A in lanes": ("((lane & 1) << 3)", "((lane & 2) << 2)"),
        "scales of an atom": ("line % 32 * 16", "line % 32 * 4"),
        "the byte of the scales": ("step % PER_WORD * ", "0 * "),
        "how much there is of a line": ("(n - n0) * ", "(n - n0 + 1) * "),
        "rows of D": ("if (m0 + line >= m) break;", ""),
        "k that there is": ("k - k0", "k - k0 + 16"),
    },
}
