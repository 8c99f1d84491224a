#include "src/events/event_rows.h"

#include <algorithm>

namespace rlreplay::engine {
namespace {

bool of_response(const EventSpec& spec) {
  if (spec.phase == Phase::kObjective || spec.op == Op::kSample) return true;
  return spec.phase == Phase::kForward && spec.op == Op::kLogProb;
}

}  // namespace

std::vector<SampleShape> sample_shapes(std::span<const Sample> samples) {
  std::vector<SampleShape> out;
  for (const Sample& s : samples) {
    out.push_back({s.id, s.prompt_length, static_cast<int64_t>(s.tokens.size())});
  }
  return out;
}

RowSet event_rows(const EventSpec& spec, std::span<const SampleShape> samples) {
  std::vector<SampleShape> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted, {}, &SampleShape::id);
  RowSet out;
  for (const SampleShape& s : sorted) {
    RowRun run{s.id, 0, s.length};
    if (of_response(spec)) {
      run = {s.id, s.prompt_length, s.length - s.prompt_length};
    } else if (spec.phase == Phase::kRollout) {
      // The last token is drawn, and goes through no layer.
      run.count -= 1;
    }
    if (run.count > 0) out.push_back(run);
  }
  return out;
}

int64_t row_count(const RowSet& rows) {
  int64_t count = 0;
  for (const RowRun& run : rows) count += run.count;
  return count;
}

std::optional<Element> row_at(const RowSet& rows, int64_t index) {
  if (index < 0) return {};
  for (const RowRun& run : rows) {
    if (index < run.count) return Element{run.sample, run.position + index, 0};
    index -= run.count;
  }
  return {};
}

int64_t index_of(const RowSet& rows, uint64_t sample, int64_t position) {
  int64_t first = 0;
  for (const RowRun& run : rows) {
    if (run.sample == sample && position >= run.position && position < run.position + run.count) {
      return first + position - run.position;
    }
    first += run.count;
  }
  return -1;
}

}  // namespace rlreplay::engine
