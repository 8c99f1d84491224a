#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/dtype.h"

namespace rlreplay {

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
[[nodiscard]] Digest digest_block(const TensorId& tensor, std::span<const uint64_t> coordinates,
                                  std::span<const std::byte> bytes);

/// Where the last axis of a tensor is cut into blocks: the columns, 0 not among them, at which one
/// begins: floor(i n / segments) for i = 1 ... segments - 1, repetitions dropped.
[[nodiscard]] std::vector<int64_t> segment_cuts(int64_t n, int64_t segments);

}  // namespace rlreplay
