#include <algorithm>

#include "src/base/error.h"
#include "src/replay/record/chosen_ids.h"
#include "src/replay/referee/referee.h"

namespace rlreplay::replay {
namespace {

/// One sample of the dump with what the selection looks at.
struct Candidate {
  Sample sample;
  int64_t rollout = 0;
  std::vector<float> train;
  std::vector<int64_t> versions;
};

std::vector<float> train_log_probs(const RecordedStep& step, size_t i) {
  const auto column = starting_column(step, i);
  return column == nullptr ? std::vector<float>() : narrowed((*(step.*column))[i]);
}

/// The versions of the weights that wrote a sample, in their order; empty where not recorded.
std::vector<int64_t> versions_of(const RecordedRollout& rollout, uint64_t id) {
  const auto row = rollout.rows.find(id);
  if (row == rollout.rows.end() || !rollout.data->versions) return {};
  const format::Versions& v = *rollout.data->versions;
  return {v.versions.begin() + static_cast<ptrdiff_t>(v.offsets[row->second]),
          v.versions.begin() + static_cast<ptrdiff_t>(v.offsets[row->second + 1])};
}

bool selected(const RefereeSelection& selection, const Sample& s, bool has_group) {
  if (!selection.samples && !selection.groups) return true;
  if (selection.samples && selection.samples->contains(s.id)) return true;
  return selection.groups && has_group && selection.groups->contains(s.group);
}

/// The ids that may be chosen, of samples and of groups, in the selected steps.
struct There {
  std::set<uint64_t> samples, groups;
};

std::vector<Candidate> candidates(const RecordedRun& run, const RefereeSelection& selection,
                                  There& there) {
  std::vector<Candidate> out;
  const std::vector<StepId> steps = steps_of_rollouts(run);
  if (!steps.empty()) check_steps(selection.steps, steps.size(), run.path());
  for (const int64_t id : recorded_rollouts(run)) {
    if (!selection.steps.holds_of(id, steps)) continue;
    RecordedRollout rollout = read_recorded_rollout(run, id);
    const size_t begin = out.size();
    for (RecordedStep& step : rollout.steps) {
      const auto place = std::ranges::lower_bound(steps, step.id) - steps.begin();
      if (!selection.steps.holds(place)) continue;
      for (size_t i = 0; i < step.samples.size(); ++i) {
        there.samples.insert(step.samples[i].id);
        if (step.fields[i].group) there.groups.insert(step.samples[i].group);
        if (!selected(selection, step.samples[i], step.fields[i].group)) continue;
        std::vector<int64_t> versions = versions_of(rollout, step.samples[i].id);
        out.push_back(
            {std::move(step.samples[i]), id, train_log_probs(step, i), std::move(versions)});
      }
    }
    std::sort(out.begin() + static_cast<ptrdiff_t>(begin), out.end(),
              [](const Candidate& a, const Candidate& b) { return a.sample.id < b.sample.id; });
  }
  return out;
}

std::string list(const std::set<int64_t>& values) {
  std::string out;
  for (const int64_t value : values) out += (out.empty() ? "" : ", ") + std::to_string(value);
  return out;
}

bool wholly_of(const Candidate& c, int64_t version) {
  return !c.versions.empty() &&
         std::ranges::all_of(c.versions, [&](int64_t v) { return v == version; });
}

/// The version by which the dump's own weights wrote their rollout.
std::optional<int64_t> own_version(const std::vector<Candidate>& all,
                                   const RefereeSelection& selection) {
  if (!selection.own) return std::nullopt;
  const auto at = std::ranges::find(all, *selection.own, &Candidate::rollout);
  if (at == all.end() || at->versions.empty()) return std::nullopt;
  return at->versions.front();
}

/// The version that is judged; nothing where all samples are.
std::optional<int64_t> choose_version(const std::vector<Candidate>& all,
                                      const std::set<int64_t>& versions,
                                      const RefereeSelection& selection, const std::string& path) {
  const auto refuse = [&](const std::string& message) {
    throw Error(ErrorCode::kUsage, message, path);
  };
  if (selection.version) {
    if (versions.empty()) refuse("no weight versions were recorded: leave --weights-version out");
    const bool any = std::ranges::any_of(
        all, [&](const Candidate& c) { return wholly_of(c, *selection.version); });
    if (!any) {
      refuse("no sample is wholly of weight version " + std::to_string(*selection.version) +
             "; there are versions " + list(versions));
    }
    return selection.version;
  }
  if (versions.size() > 1) {
    if (const auto own = own_version(all, selection)) return own;
    refuse("the samples are of weight versions " + list(versions) +
           ": say with --weights-version which of them --model holds");
  }
  std::set<int64_t> rollouts;
  for (const Candidate& c : all) rollouts.insert(c.rollout);
  if (versions.empty() && rollouts.size() > 1) {
    refuse("no weight versions were recorded, and the samples are of rollouts " + list(rollouts) +
           ", between which weights change: choose one with --steps A..B");
  }
  return std::nullopt;
}

void add(RefereeCase& out, Candidate& c) {
  out.samples.push_back(std::move(c.sample));
  out.train.push_back(std::move(c.train));
  out.rollouts.push_back(c.rollout);
}

bool has_side(const RefereeCase& given) {
  for (size_t i = 0; i < given.samples.size(); ++i) {
    if (!given.train[i].empty() || !given.samples[i].rollout_log_probs.empty()) return true;
  }
  return false;
}

}  // namespace

RefereeCase select_case(const RecordedRun& run, const RefereeSelection& selection) {
  There there;
  std::vector<Candidate> all = candidates(run, selection, there);
  const std::set<uint64_t> none;
  check_chosen("sample", selection.samples.value_or(none), there.samples, run.path());
  check_chosen("group", selection.groups.value_or(none), there.groups, run.path());
  if (all.empty()) {
    throw Error(ErrorCode::kUsage, "no sample of the dump is selected", run.path());
  }
  std::set<int64_t> versions;
  for (const Candidate& c : all) versions.insert(c.versions.begin(), c.versions.end());
  RefereeCase out;
  out.version = choose_version(all, versions, selection, run.path());
  int64_t tokens = 0;
  for (Candidate& c : all) {
    if (out.version && !wholly_of(c, *out.version)) {
      ++out.other_version;
      continue;
    }
    tokens += static_cast<int64_t>(c.sample.tokens.size());
    const bool fits = !selection.max_tokens || tokens <= *selection.max_tokens;
    if (!fits && !out.samples.empty()) {
      ++out.beyond_max_tokens;
      continue;
    }
    add(out, c);
  }
  if (!has_side(out)) {
    throw Error(ErrorCode::kIncomplete,
                "neither the trainer's nor the rollout's log-probabilities of these samples were "
                "recorded: there is nothing to judge",
                run.path());
  }
  return out;
}

}  // namespace rlreplay::replay
