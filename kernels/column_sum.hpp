// Sums over the rows of a matrix (the gradient of a bias), computed in two steps without atomics so that the
// result is reproducible.
#pragma once

#include <cstddef>

namespace dtfm::kernels {

/// sums[c] = Σ_r x[r][c], or sums[c] += that if `accumulate`. `columns` and the distance `row_stride` between
/// rows must be multiples of 16 / sizeof(T). `workspace` holds column_sum_workspace(rows, columns) floats.
template <class T>
void column_sum(const T* x, int rows, int columns, int row_stride, T* sums, bool accumulate,
                float* workspace);

std::size_t column_sum_workspace(int rows, int columns);

/// The second step of column_sum: first[c] (+)= Σ_p parts[p][c] over the first part_count rows of `parts`
/// and, if `second` is not null, second[c] (+)= the same sum over the next part_count rows.
template <class T>
void add_parts(const float* parts, int part_count, int columns, T* first, T* second, bool accumulate);

}  // namespace dtfm::kernels
