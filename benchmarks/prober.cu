// A hand-written prober of one fragment, as people write them: which element each lane's x[i] holds.
#include <cstdio>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void probe(const float* memory, int* row, int* col) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    wmma::load_matrix_sync(f, memory, 16, wmma::mem_row_major);
    for (int i = 0; i < f.num_elements; i++) {
        row[threadIdx.x * f.num_elements + i] = int(f.x[i]) / 16;
        col[threadIdx.x * f.num_elements + i] = int(f.x[i]) % 16;
    }
}

int main() {
    float memory[256], *m;
    int row[256], col[256], *r, *c;
    for (int i = 0; i < 256; i++) memory[i] = float(i);
    cudaMalloc(&m, sizeof memory);
    cudaMalloc(&r, sizeof row);
    cudaMalloc(&c, sizeof col);
    cudaMemcpy(m, memory, sizeof memory, cudaMemcpyHostToDevice);
    probe<<<1, 32>>>(m, r, c);
    cudaMemcpy(row, r, sizeof row, cudaMemcpyDeviceToHost);
    cudaMemcpy(col, c, sizeof col, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 256; i++) printf("lane %d i %d: %d %d\n", i / 8, i % 8, row[i], col[i]);
}
