#include "src/engine/row_batch.h"

#include <algorithm>

#include "kernels/order.h"
#include "src/base/error.h"
#include "src/engine/shard.h"

namespace rlreplay::engine {
namespace {

using kernels::Range;

/// Each context-parallel rank has two runs of every sample, one from either half, so that all
/// attend to as much; `runs` says where its rows stand among those of whole samples.
ContextRows context_rows(std::span<const Sample* const> samples, int64_t leaf, int size) {
  ContextRows out;
  for (const Sample* s : samples) {
    const auto length = static_cast<int64_t>(s->tokens.size());
    out.samples.push_back({out.rows, out.rows + length});
    out.rows += length;
  }
  for (int cp = 0; cp < size; ++cp) {
    auto& runs = out.runs.emplace_back();
    int64_t own = 0;
    for (const Range& sample : out.samples) {
      const ContextRuns cut = context_runs(sample.size(), leaf, cp, size);
      for (const Range& run : {cut.low, cut.high}) {
        if (run.size() == 0) continue;
        runs.push_back({own, sample.begin + run.begin, run.size()});
        own += run.size();
      }
    }
    out.longest = std::max(out.longest, own);
  }
  return out;
}

}  // namespace

RowBatch make_row_batch(std::span<const Chunk> chunks, int64_t leaf) {
  RowBatch out;
  for (const Chunk& chunk : chunks) {
    const int64_t first = out.rows();
    const int64_t count = static_cast<int64_t>(chunk.tokens.size());
    out.ids.insert(out.ids.end(), chunk.tokens.begin(), chunk.tokens.end());
    for (int64_t i = 0; i < count; ++i) {
      out.positions.push_back(static_cast<int32_t>(chunk.position + i));
    }
    out.samples.insert(out.samples.end(), chunk.tokens.size(), chunk.sample);
    out.chunks.push_back({first, first + count});
    if (leaf > 0) {
      check(chunk.position % leaf == 0, "a chunk with gradients must begin on a leaf border");
      kernels::append_token_leaves(first, count, leaf, out.leaves);
    }
  }
  return out;
}

RowBatch batch_of_samples(std::span<const Sample* const> samples, int64_t leaf, int cp, int size) {
  const int64_t border = leaf > 0 ? leaf : kernels::kTokenLeaf;
  std::vector<Chunk> chunks;
  for (const Sample* s : samples) {
    const std::span<const int32_t> tokens = s->tokens;
    const auto add = [&](Range run) {
      chunks.push_back(
          {s->id, run.begin,
           tokens.subspan(static_cast<size_t>(run.begin), static_cast<size_t>(run.size()))});
    };
    // Empty runs too: chunk i is of sample i / chunks_a_sample.
    const ContextRuns runs = context_runs(std::ssize(tokens), border, cp, size);
    add(runs.low);
    if (size > 1) add(runs.high);
  }
  RowBatch out = make_row_batch(chunks, leaf);
  if (size == 1) return out;
  out.chunks_a_sample = 2;
  out.context = context_rows(samples, border, size);
  return out;
}

}  // namespace rlreplay::engine
