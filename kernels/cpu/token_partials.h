#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/token_sum.h"
#include "src/base/thread_pool.h"

namespace rlreplay::kernels::cpu {

/// An integer sum of `size` elements for every worker of a pool, zero at first: which worker adds
/// what cannot be seen in their total. Lives in the pool's shared scratch.
class TokenPartials {
 public:
  TokenPartials(ThreadPool& pool, int64_t size)
      : size_(size),
        stride_((size + kPad - 1) / kPad * kPad + kPad),
        workers_(pool.threads()),
        data_(reinterpret_cast<int64_t*>(pool.shared_scratch(bytes()))) {
    std::memset(data_, 0, bytes());
  }

  /// The sum of one worker. A whole vector may be read and written from its last element on.
  int64_t* of(int worker) const { return data_ + worker * stride_; }

  void add_to(int64_t* sum) const {
    for (int worker = 0; worker < workers_; ++worker) {
      const int64_t* partial = of(worker);
      for (int64_t i = 0; i < size_; ++i) sum[i] = add_wrapping(sum[i], partial[i]);
    }
  }

 private:
  static constexpr int64_t kPad = 64;  // 512 bytes: no line, nor one fetched beside it, is shared

  size_t bytes() const { return static_cast<size_t>(workers_ * stride_) * sizeof(int64_t); }

  int64_t size_;
  int64_t stride_;
  int64_t workers_;
  int64_t* data_;
};

}  // namespace rlreplay::kernels::cpu
