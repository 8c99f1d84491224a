#include "src/engine/torch/key_cache.h"

#include <algorithm>
#include <limits>

namespace rlreplay::aten {

KeyCache::KeyCache(const ModelConfig& c, at::ScalarType type, int64_t samples, int64_t capacity)
    : type_(type) {
  for (int64_t l = 0; l < c.layers; ++l) {
    for (std::vector<at::Tensor>* all : {&keys_, &values_}) {
      all->push_back(at::zeros({samples, capacity, c.kv_heads, c.head_dim}, type));
    }
  }
}

void KeyCache::fill(int64_t layer, int64_t first, const std::vector<int64_t>& lengths,
                    const at::Tensor& k, const at::Tensor& v) {
  int64_t begin = 0;
  for (const int64_t n : lengths) {
    const auto copy = [&](const std::vector<at::Tensor>& cache, const at::Tensor& rows) {
      cache[static_cast<size_t>(layer)].select(0, first).narrow(0, 0, n).copy_(
          rows.narrow(0, begin, n));
    };
    copy(keys_, k);
    copy(values_, v);
    begin += n;
    ++first;
  }
}

DecodeRows KeyCache::rows(std::span<const int64_t> positions) const {
  const auto count = std::ssize(positions);
  DecodeRows out;
  out.slots = at::arange(count, at::kLong);
  out.positions = at::tensor(at::ArrayRef<int64_t>(positions.data(), positions.size()), at::kLong);
  const int64_t keys = *std::max_element(positions.begin(), positions.end()) + 1;
  const auto hidden = at::arange(keys, at::kLong).unsqueeze(0) > out.positions.unsqueeze(1);
  out.mask = at::zeros({count, keys}, type_)
                 .masked_fill_(hidden, -std::numeric_limits<double>::infinity())
                 .view({count, 1, 1, keys});
  return out;
}

at::Tensor KeyCache::attend(int64_t layer, const DecodeRows& rows, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v) {
  const int64_t count = q.size(0), heads = q.size(1), dim = q.size(2), groups = k.size(1);
  const auto extend = [&](const std::vector<at::Tensor>& cache, const at::Tensor& added) {
    const at::Tensor& all = cache[static_cast<size_t>(layer)];
    all.index_put_({rows.slots, rows.positions}, added);
    return all.narrow(0, 0, count).narrow(1, 0, rows.mask.size(3)).transpose(1, 2);
  };
  // The query heads of a group as queries of one head: no key is copied or read twice.
  const auto queries = q.view({count, groups, heads / groups, dim});
  return at::scaled_dot_product_attention(queries, extend(keys_, k), extend(values_, v), rows.mask)
      .reshape({count, heads * dim});
}

void KeyCache::move(int64_t from, int64_t to) {
  for (size_t l = 0; l < keys_.size(); ++l) {
    for (const std::vector<at::Tensor>* all : {&keys_, &values_}) {
      (*all)[l].select(0, to).copy_((*all)[l].select(0, from));
    }
  }
}

}  // namespace rlreplay::aten
