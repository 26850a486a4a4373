// Benchmark cases, each for one model's shape and one number format.
#pragma once

#include "kernels/bench/report.hpp"
#include "kernels/transformer.hpp"

namespace dtfm::kernels {

/// Measures a large copy on the device and prints it. Returns bytes per second, counting reads and writes.
double copy_bandwidth(Report& report, int runs);

template <class T>
void benchmark_pointwise(Report& report, const TransformerShape& shape, int runs, double copy_bandwidth);

/// Benchmarks the matrix products of a block by cuBLAS, and attention against batched cuBLAS products of the
/// same tiles that write out the full matrices.
template <class T>
void benchmark_products(Report& report, const TransformerShape& shape, int runs);

/// Benchmarks whole layers by measure(), the block twice to check repeatability.
void benchmark_layers(Report& report, const TransformerShape& shape, int runs);

}  // namespace dtfm::kernels
