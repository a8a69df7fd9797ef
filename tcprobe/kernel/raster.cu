// Which tile a block makes: blocks that run side by side share rows of A and columns of B in the L2 cache, so tiles are
// taken in bands of 8 rows of tiles, a band column by column; blocks of a cluster lie below each other.
__device__ inline void place(unsigned& row, unsigned& col) {
  constexpr unsigned CLUSTER = ${gemm.cluster}, BAND = 8 / CLUSTER;
  const unsigned block = blockIdx.y / CLUSTER * gridDim.x + blockIdx.x, first = block / (BAND * gridDim.x) * BAND;
  const unsigned below = gridDim.y / CLUSTER - first, rows = below < BAND ? below : BAND;
  row = (first + block % (BAND * gridDim.x) % rows) * CLUSTER + blockIdx.y % CLUSTER;
  col = block % (BAND * gridDim.x) / rows;
}

