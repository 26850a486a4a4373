// Benchmark cases, each for one model's shape and one number format.
#pragma once

#include "kernels/bench/report.hpp"
#include "kernels/transformer.hpp"

namespace dtfm::kernels {

/// Times copies on the device of three sizes, up to 1 GiB read and written, and prints them.
void benchmark_copies(Report& report, int runs);

/// Benchmarks the memory-bound kernels against a copy that moves as many bytes.
template <class T>
void benchmark_pointwise(Report& report, const TransformerShape& shape, int runs);

/// Benchmarks the matrix products of a block by cuBLAS, and attention against batched cuBLAS products of the
/// same tiles that write out the full matrices.
template <class T>
void benchmark_products(Report& report, const TransformerShape& shape, int runs);

/// Benchmarks whole layers by measure(), the block five times to check repeatability.
void benchmark_layers(Report& report, const TransformerShape& shape, int runs);

}  // namespace dtfm::kernels
