// Sums over the rows of a matrix: the gradient of a bias. In two steps, without atomics, so that the result
// is the same every time.
#pragma once

#include <cstddef>

namespace dtfm::kernels {

/// sums[c] = Σ_r x[r][c], or sums[c] += that. `columns` is a multiple of 16 / sizeof(T); rows lie
/// `row_stride` apart, a multiple of the same. `workspace` holds column_sum_workspace(rows, columns) floats.
template <class T>
void column_sum(const T* x, int rows, int columns, int row_stride, T* sums, bool accumulate,
                float* workspace);

std::size_t column_sum_workspace(int rows, int columns);

/// The second step: first[c] (+)= Σ_p parts[p][c] over the first part_count rows of parts, and, if `second`
/// is not null, second[c] (+)= the same over the next part_count rows.
template <class T>
void add_parts(const float* parts, int part_count, int columns, T* first, T* second, bool accumulate);

}  // namespace dtfm::kernels
