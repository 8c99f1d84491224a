#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/rows_view.h"

namespace rlreplay {

class ThreadPool;

/// What a tensor contains, wherever its parts lie (docs/numerics.md section 8): the sum modulo
/// 2^128 of a hash of each of its blocks. Parts of a tensor are digested apart, on any rank and in
/// any order, and their digests added.
struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  Digest& operator+=(const Digest& other);
  friend bool operator==(const Digest&, const Digest&) = default;

  /// 32 lower-case hexadecimal digits, the high half first.
  std::string hex() const;
};

/// Whose digest: the seed of all blocks of one tensor.
class TensorId {
 public:
  /// dims: those of the whole tensor, also where a part of it is digested; a tensor with a row or a
  /// scalar per token leaves the count of tokens out.
  TensorId(std::string_view name, DType dtype, std::span<const int64_t> dims);

  DType dtype() const { return dtype_; }
  /// The last axis: 1 for a scalar.
  int64_t row_length() const { return row_length_; }
  uint64_t seed() const { return seed_; }

 private:
  DType dtype_;
  int64_t row_length_;
  uint64_t seed_;
};

/// One block: `bytes` at the coordinates (row and first column; sample and position; ...).
Digest digest_block(const TensorId& tensor, std::span<const uint64_t> coordinates,
                    std::span<const std::byte> bytes);

/// Where the last axis of a tensor is cut: the columns, counted in the whole tensor, at which a
/// block begins, ascending, 0 not among them. Empty: a block is a whole row.
using Cuts = std::span<const int64_t>;

/// floor(i n / segments) for i = 1 ... segments - 1, repetitions dropped.
std::vector<int64_t> segment_cuts(int64_t n, int64_t segments);

/// A part of a tensor: rows from `first_row`, of each the columns from `first_column`. A vector is
/// one row.
/// Errors: kInternal where the part's dtype is not the tensor's or it begins or ends inside a
/// block.
struct Part {
  RowsView view;
  int64_t first_row = 0;
  int64_t first_column = 0;
};
Digest digest_part(const TensorId& tensor, const Part& part, Cuts cuts, ThreadPool& pool);

/// Consecutive tokens of one sample: rows `row`, `row + 1`, ... of a batch are its positions
/// `position`, `position + 1`, ...
struct TokenRun {
  uint64_t sample = 0;
  int64_t position = 0;
  int64_t row = 0;
  int64_t count = 0;
};

/// A tensor with a row per token, whatever the order of the batch; rows in no run are padding.
/// `first_column` and `cuts` as in digest_part.
Digest digest_tokens(const TensorId& tensor, const RowsView& view, std::span<const TokenRun> runs,
                     int64_t first_column, Cuts cuts, ThreadPool& pool);

/// A tensor with a scalar per token (view.cols is 1, view.stride 1): a block is a leaf, `chunk`
/// positions of a sample.
/// Errors: kInternal where a run does not begin at a leaf.
Digest digest_token_scalars(const TensorId& tensor, const RowsView& view,
                            std::span<const TokenRun> runs, int64_t chunk, ThreadPool& pool);

}  // namespace rlreplay
