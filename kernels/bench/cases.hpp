// What is benchmarked, for one model's shape and one number format each.
#pragma once

#include "kernels/bench/report.hpp"
#include "kernels/transformer.hpp"

namespace dtfm::kernels {

/// Bytes per second of a large copy on the device, read and written counted; prints it.
double copy_bandwidth(Report& report, int runs);

template <class T>
void benchmark_pointwise(Report& report, const TransformerShape& shape, int runs, double copy_bandwidth);

/// The products of a block by cuBLAS; attention against cuBLAS' batched products of the same tiles, written
/// out in full.
template <class T>
void benchmark_products(Report& report, const TransformerShape& shape, int runs);

/// Whole layers by measure(), the block twice.
void benchmark_layers(Report& report, const TransformerShape& shape, int runs);

}  // namespace dtfm::kernels
