#include "src/events/event_record.h"

#include <algorithm>
#include <iterator>

#include "src/base/error.h"

namespace rlreplay::engine {

const EventRecord* StepEvents::find(const Event& event) const {
  const auto it = std::ranges::find(events, event, &EventRecord::event);
  return it == events.end() ? nullptr : &*it;
}

Digest StepEvents::total(Op op) const {
  Digest out;
  for (const EventRecord& r : events) {
    if (r.event.op == op) out += r.digest;
  }
  return out;
}

void StepEvents::prepend(StepEvents rollout) {
  // The rollout's row sets come first: the own ones get higher numbers.
  const auto shift = static_cast<int>(rollout.row_sets.size());
  for (EventRecord& r : events) {
    if (r.row_set >= 0) r.row_set += shift;
  }
  std::ranges::move(row_sets, std::back_inserter(rollout.row_sets));
  std::ranges::move(events, std::back_inserter(rollout.events));
  row_sets = std::move(rollout.row_sets);
  events = std::move(rollout.events);
}

RecordOptions parse_record_options(std::string_view text) {
  const auto fail = [&] {
    throw Error(ErrorCode::kUsage, "--record " + std::string(text) +
                                       ": write steps, tensors or ops, and +stats or +values "
                                       "behind it if they are wanted");
  };
  RecordOptions out;
  size_t begin = 0;
  for (bool first = true; begin <= text.size(); first = false) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (first && word == "steps") {
      out.granularity = Granularity::kSteps;
    } else if (first && word == "tensors") {
      out.granularity = Granularity::kTensors;
    } else if (first && word == "ops") {
      out.granularity = Granularity::kOps;
    } else if (!first && word == "stats") {
      out.stats = true;
    } else if (!first && word == "values") {
      out.values = true;
    } else {
      fail();
    }
    begin = end + 1;
  }
  return out;
}

std::string to_string(const RecordOptions& options) {
  std::string out(name(options.granularity));
  if (options.stats) out += "+stats";
  if (options.values) out += "+values";
  return out;
}

}  // namespace rlreplay::engine
