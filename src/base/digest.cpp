#include "src/base/digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/thread_pool.h"

namespace rlreplay {
namespace {

static_assert(std::endian::native == std::endian::little, "coordinates are hashed as they lie");

// An item of a job: enough bytes to be worth handing out.
constexpr int64_t kItemBytes = 1 << 17;

std::string described(std::string_view name, DType dtype, std::span<const int64_t> dims) {
  std::string text(name);
  text.append("|").append(to_string(dtype)).append("|");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != 0) text.append(",");
    text.append(std::to_string(dims[i]));
  }
  return text;
}

struct Block {
  int64_t begin = 0;  // columns of the whole tensor
  int64_t end = 0;
};

// The blocks of the columns [first, first + count); all of them must be whole.
std::vector<Block> blocks_of(const TensorId& tensor, int64_t first, int64_t count, Cuts cuts) {
  const int64_t last = first + count;
  std::vector<int64_t> borders(cuts.begin(), cuts.end());
  borders.insert(borders.begin(), 0);
  borders.push_back(tensor.row_length());
  check(std::is_sorted(borders.begin(), borders.end()), "cuts of an axis must be in it, ascending");
  check(std::ranges::binary_search(borders, first) && std::ranges::binary_search(borders, last),
        "a digested part of a tensor begins or ends inside a block");
  std::vector<Block> blocks;
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const bool inside = borders[i] >= first && borders[i + 1] <= last;
    if (inside && borders[i] < borders[i + 1]) blocks.push_back({borders[i], borders[i + 1]});
  }
  return blocks;
}

// The sum of digest_of(item) over `count` items of about `bytes` bytes each.
template <class DigestOf>
Digest sum(int64_t count, int64_t bytes, ThreadPool& pool, DigestOf digest_of) {
  const int64_t each = std::max<int64_t>(1, kItemBytes / std::max<int64_t>(1, bytes));
  Digest total;
  std::mutex mutex;
  pool.run((count + each - 1) / each, [&](int64_t item, int) {
    Digest part;
    for (int64_t i = item * each; i < std::min(count, (item + 1) * each); ++i) part += digest_of(i);
    const std::lock_guard lock(mutex);
    total += part;
  });
  return total;
}

std::span<const std::byte> bytes_at(const RowsView& view, int64_t row, int64_t col, int64_t count) {
  return {view.at(row, col), static_cast<size_t>(count) * size_of(view.dtype)};
}

int64_t row_bytes(const RowsView& view) {
  return view.cols * static_cast<int64_t>(size_of(view.dtype));
}

void check_runs(const RowsView& view, std::span<const TokenRun> runs) {
  for (const TokenRun& run : runs) {
    check(run.count >= 0 && run.position >= 0 && run.row >= 0 && run.row + run.count <= view.rows,
          "a run of tokens lies outside its batch");
  }
}

}  // namespace

Digest& Digest::operator+=(const Digest& other) {
  low += other.low;
  high += other.high + (low < other.low ? 1 : 0);
  return *this;
}

std::string Digest::hex() const { return Hash{high, low}.hex(); }

TensorId::TensorId(std::string_view name, DType dtype, std::span<const int64_t> dims)
    : dtype_(dtype), row_length_(dims.empty() ? 1 : dims.back()) {
  const auto text = described(name, dtype, dims);
  seed_ = seed_of(std::as_bytes(std::span(text)));
}

Digest digest_block(const TensorId& tensor, std::span<const uint64_t> coordinates,
                    std::span<const std::byte> bytes) {
  std::array<uint64_t, 4> key{tensor.seed()};
  check(coordinates.size() < key.size(), "a block has at most three coordinates");
  std::ranges::copy(coordinates, key.begin() + 1);
  const uint64_t seed = seed_of(std::as_bytes(std::span(key).first(1 + coordinates.size())));
  const Hash hash = hash_of(bytes, seed);
  return {hash.high, hash.low};
}

std::vector<int64_t> segment_cuts(int64_t n, int64_t segments) {
  std::vector<int64_t> cuts;
  for (int64_t i = 1; i < segments; ++i) {
    const int64_t cut = n * i / segments;
    if (cut > (cuts.empty() ? 0 : cuts.back()) && cut < n) cuts.push_back(cut);
  }
  return cuts;
}

Digest digest_part(const TensorId& tensor, const Part& part, Cuts cuts, ThreadPool& pool) {
  const RowsView& view = part.view;
  check(view.dtype == tensor.dtype(), "a digested part has another dtype than its tensor");
  const auto blocks = blocks_of(tensor, part.first_column, view.cols, cuts);
  return sum(view.rows, row_bytes(view), pool, [&](int64_t row) {
    Digest out;
    for (const Block& block : blocks) {
      const uint64_t at[] = {static_cast<uint64_t>(part.first_row + row),
                             static_cast<uint64_t>(block.begin)};
      out += digest_block(
          tensor, at,
          bytes_at(view, row, block.begin - part.first_column, block.end - block.begin));
    }
    return out;
  });
}

Digest digest_tokens(const TensorId& tensor, const RowsView& view, std::span<const TokenRun> runs,
                     int64_t first_column, Cuts cuts, ThreadPool& pool) {
  check(view.dtype == tensor.dtype(), "a digested part has another dtype than its tensor");
  check_runs(view, runs);
  const auto blocks = blocks_of(tensor, first_column, view.cols, cuts);
  const size_t coordinates = cuts.empty() ? 2 : 3;
  Digest total;
  for (const TokenRun& run : runs) {
    total += sum(run.count, row_bytes(view), pool, [&](int64_t i) {
      Digest out;
      for (const Block& block : blocks) {
        const std::array<uint64_t, 3> at{run.sample, static_cast<uint64_t>(run.position + i),
                                         static_cast<uint64_t>(block.begin)};
        out += digest_block(
            tensor, std::span(at).first(coordinates),
            bytes_at(view, run.row + i, block.begin - first_column, block.end - block.begin));
      }
      return out;
    });
  }
  return total;
}

Digest digest_token_scalars(const TensorId& tensor, const RowsView& view,
                            std::span<const TokenRun> runs, int64_t chunk, ThreadPool& pool) {
  check(view.dtype == tensor.dtype(), "a digested part has another dtype than its tensor");
  check(view.cols == 1 && view.stride == 1, "scalars per token must be adjacent");
  check_runs(view, runs);
  return sum(static_cast<int64_t>(runs.size()), kItemBytes, pool, [&](int64_t i) {
    const TokenRun& run = runs[static_cast<size_t>(i)];
    check(run.count == 0 || run.position % chunk == 0, "a run of scalars must begin at a leaf");
    Digest out;
    for (int64_t at = 0; at < run.count; at += chunk) {
      const uint64_t leaf[] = {run.sample, static_cast<uint64_t>((run.position + at) / chunk)};
      const int64_t count = std::min(chunk, run.count - at);
      out += digest_block(
          tensor, leaf,
          {view.at(run.row + at, 0), static_cast<size_t>(count) * size_of(view.dtype)});
    }
    return out;
  });
}

}  // namespace rlreplay
