// Loss of a language model (cross-entropy) and its gradient.
#pragma once

namespace dtfm::kernels {

/// For each of `rows` rows of logits, `row_stride` apart (a multiple of 16 / sizeof(T), at least `classes`):
///   loss[r] = log Σ e^logits[r] − logits[r][label[r]]
///   logits[r] ← (softmax(logits[r]) − onehot(label[r])) · scale, in place; zero from `classes` to
///   row_stride.
/// Labels outside 0 … classes − 1 belong to another rank's shard of the vocabulary and subtract nothing. An
/// online softmax reads the row once; as much of the row as fits stays in shared memory for the gradient, and
/// the rest is read again.
template <class T>
void cross_entropy(int rows, int classes, int row_stride, T* logits, const int* labels, float scale,
                   float* loss);

}  // namespace dtfm::kernels
