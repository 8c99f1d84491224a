#include "src/replay/compare/run_difference.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "format/dump_content.h"
#include "format/logical_group.h"
#include "format/rule.h"
#include "src/base/same_value.h"
#include "src/replay/record/event_units.h"

namespace rlreplay::replay {
namespace {

using Units = std::vector<const format::UnitRecord*>;

Hash hash_of_bytes(std::span<const std::byte> bytes) { return rlreplay::hash_of(bytes); }

/// The units of a step, and of the rollout whose first step it is: those that may hold its events.
Units units_of(const RecordedRun& run, const StepId& step) {
  Units units = run.dump().find("train", step.group());
  if (step.step != 0) return units;
  for (const auto* unit : run.dump().find("rollout", std::to_string(step.rollout))) {
    units.push_back(unit);
  }
  return units;
}

/// All elements of a tensor; nothing of one whose units contradict each other, or do not hold all.
std::optional<Buffer<std::byte>> read_sound(format::LogicalGroup& logical,
                                            const std::string& name) {
  try {
    return logical.read(name);
  } catch (const format::FormatError& error) {
    if (error.rule() != format::Rule::kMeaning) throw;
    return std::nullopt;
  }
}

/// The hash of a tensor's elements, f64 as f32 where that holds them; nothing of one that is torn.
std::optional<Hash> hash_of(format::LogicalGroup& logical, const std::string& name,
                            const format::LogicalGroup::Tensor& tensor) {
  // A whole tensor's hash is stored: nothing is decoded for it.
  if (tensor.is_plainly_one() && tensor.dtype != DType::kF64) return tensor.parts.front().stored;
  const std::optional<Buffer<std::byte>> read = read_sound(logical, name);
  if (!read) return std::nullopt;
  const Buffer<std::byte>& bytes = *read;
  if (tensor.dtype != DType::kF64) return hash_of_bytes(bytes);
  Buffer<float> narrow(bytes.size() / sizeof(double));
  for (size_t i = 0; i < narrow.size(); ++i) {
    const auto value = load_as<double>(bytes.data() + i * sizeof(double));
    narrow.data()[i] = static_cast<float>(value);
    if (!same_value(narrow.data()[i], value)) return hash_of_bytes(bytes);
  }
  return hash_of_bytes(std::as_bytes(std::span<const float>(narrow.data(), narrow.size())));
}

using StateHashes = std::map<std::pair<engine::Op, std::string>, std::optional<Hash>>;

/// The tensors of a recorded state by the hashes of what they hold, whichever units hold parts.
StateHashes state_hashes(const RecordedRun& run, const StepId& step) {
  constexpr std::pair<std::string_view, engine::Op> kFolders[] = {
      {"parameters/", engine::Op::kWeight},
      {"exp_avg/", engine::Op::kExpAvg},
      {"exp_avg_sq/", engine::Op::kExpAvgSq}};
  StateHashes out;
  const auto records = run.dump().find("weights", step.group());
  const auto opened = format::opened_units(run.dump(), records);
  format::LogicalGroup logical(run.dump(), "weights", step.group(), records.size(), opened);
  for (const auto& [name, tensor] : logical.tensors()) {
    for (const auto& [folder, op] : kFolders) {
      if (!name.starts_with(folder)) continue;
      out.emplace(std::pair(op, name.substr(folder.size())), hash_of(logical, name, tensor));
    }
  }
  return out;
}

/// Goes from place to place and stops at the first that differs. All before it were identical,
/// equal by their hashes, or skipped.
class RunComparer {
 public:
  RunComparer(const RecordedRun& a, const RecordedRun& b, EqualContent equal)
      : a_(a), b_(b), equal_(equal) {}

  RunDifference run() {
    // A rollout's place is its first step, whether or not it was trained on.
    std::set<StepId> places(a_.steps().begin(), a_.steps().end());
    for (const int64_t rollout : a_.rollouts()) places.insert({rollout, 0});
    for (const StepId& place : places) {
      compare(place);
      if (!made_.step.identical()) break;
    }
    return std::move(made_);
  }

 private:
  void compare(const StepId& place) {
    const Units in_a = units_of(a_, place), in_b = units_of(b_, place);
    if (in_b.empty()) return;
    if (equal_ == EqualContent::kSkip && format::same_content(in_a, in_b)) {
      ++made_.equal;
      known_ = true;
      return;
    }
    // After a step that was identical the state needs no comparison.
    const bool known = std::exchange(known_, false);
    if (!has_one_rank(a_, place) || !has_one_rank(b_, place)) return;
    Pair events = {a_.step_events(place), b_.step_events(place)};
    if (place.step == 0) add_rollout(place, events);
    if (!note_missing(place, events)) return;
    ++made_.compared;
    made_.step =
        compare_steps(events.first, events.second,
                      {nullptr, nullptr, known ? StateTensors() : differing_state(a_, b_, place)});
    known_ = true;
  }

  using Pair = std::pair<engine::StepEvents, engine::StepEvents>;

  void add_rollout(const StepId& place, Pair& events) {
    Pair rollout = {a_.rollout_events(place.rollout), b_.rollout_events(place.rollout)};
    if (rollout.first.events.empty() || rollout.second.events.empty()) return;
    const bool trained = !events.first.events.empty() && !events.second.events.empty();
    if (!trained) {
      events = std::move(rollout);
      return;
    }
    events.first.prepend(std::move(rollout.first));
    events.second.prepend(std::move(rollout.second));
  }

  /// Whether all of the events are in one place: those of several ranks are not put together.
  bool note_missing(const StepId& place, const Pair& events) {
    if (events.first.events.empty()) return skip(a_, place, "holds no events");
    return !events.second.events.empty() || skip(b_, place, "holds no events");
  }

  bool has_one_rank(const RecordedRun& run, const StepId& place) {
    return run.dump().find("train", place.group()).size() <= 1 ||
           event_units(run.dump(), "train", place.group()).size() <= 1 ||
           skip(run, place, "has events of several ranks");
  }

  bool skip(const RecordedRun& run, const StepId& place, const std::string& why) {
    if (!made_.skipped.empty()) return false;
    made_.skipped = "step " + place.name() + " " + why;
    made_.skipped_in = run.path();
    return false;
  }

  const RecordedRun& a_;
  const RecordedRun& b_;
  const EqualContent equal_;
  bool known_ = false;  // whether the state that comes is known to agree
  RunDifference made_;
};

}  // namespace

StateTensors differing_state(const RecordedRun& a, const RecordedRun& b, const StepId& step) {
  const StepId* last = nullptr;
  for (const StepId& state : a.states()) {
    if (state <= step && b.has_state(state)) last = &state;
  }
  if (last == nullptr) return {};
  StateTensors out;
  const auto in_a = state_hashes(a, *last), in_b = state_hashes(b, *last);
  for (const auto& [tensor, hash] : in_b) {
    const auto at = in_a.find(tensor);
    // Two that are torn agree in nothing.
    if (at == in_a.end() || !hash || at->second != hash) out.insert(tensor);
  }
  return out;
}

RunDifference compare_runs(const RecordedRun& a, const RecordedRun& b, EqualContent equal) {
  return RunComparer(a, b, equal).run();
}

}  // namespace rlreplay::replay
