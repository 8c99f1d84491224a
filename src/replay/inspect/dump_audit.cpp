#include "src/replay/inspect/dump_audit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "format/foreign/dump_check.h"
#include "format/group_name.h"
#include "format/record.h"
#include "format/train_ranks.h"
#include "format/unit.h"
#include "src/base/error.h"
#include "src/base/first_problems.h"
#include "src/base/same_value.h"
#include "src/base/words.h"
#include "src/replay/exchange/export_torch.h"
#include "src/replay/exchange/kept_file.h"
#include "src/replay/inspect/rollout_check.h"
#include "src/replay/inspect/unit_audit.h"
#include "src/replay/record/event_units.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/partial_steps.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/record/run_gaps.h"

namespace rlreplay::replay {
namespace {

using foreign::Problem;
using format::GroupName;
using format::RolloutData;
using format::TokenFloats;
using format::TrainData;
using format::UnitRecord;

/// recorded_config(), or nothing where the dump says nothing sound: audit_records tells that.
std::optional<RecordedConfig> sound_config(const format::DumpReader& dump) {
  try {
    return recorded_config(dump);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The imported rollouts whose samples have other ids than their files say, by which steps name
/// them: what an import keeps of that names the first file, and its indices that occur twice.
std::set<int64_t> replaced_rollouts(const format::DumpReader& dump) {
  std::set<std::string> files;
  for (const Problem& found : replaced_ids(dump)) {
    files.insert(found.where.substr(0, found.where.rfind(", and ")));
  }
  for (const Problem& found : recorded_findings(dump)) {
    if (found.code != "duplicate-index") continue;
    files.insert(found.where.substr(0, found.where.find(": sample ")));
  }
  std::set<int64_t> out;
  for (const UnitRecord& record : dump.units()) {
    const std::string_view kind = format::kind_of(record.path);
    const bool kept = kind.starts_with("x-") && kind != kInputsKind && kind != kFindingsKind;
    if (files.empty() || !kept || !files.contains(kept_name(dump.open_unit(record)))) continue;
    for (const std::string& group : record.groups) {
      if (const auto name = GroupName::parse(group)) out.insert(name->rollout);
    }
  }
  return out;
}

/// Does what reads a rollout, where it is to be read.
using Guard = std::function<void(int64_t rollout, const std::function<void()>& work)>;

/// Values of each rollout and evaluation, then of each step against its rollout, whose data stays
/// loaded until another is asked for. Beyond the first 100 findings are counted only.
class Auditor {
 public:
  /// `extensions`: their units can be read.
  Auditor(const format::DumpReader& dump, const Guard& guard, bool extensions)
      : dump_(dump), guard_(guard), config_(sound_config(dump)) {
    if (extensions) replaced_ = replaced_rollouts(dump);
  }

  std::vector<Problem> run() {
    std::set<int64_t> judged;  // a rollout may lie in several units
    for (const UnitRecord& record : dump_.units()) {
      const bool rollout = format::kind_of(record.path) == "rollout";
      if (!rollout && !(replaced_ && keeps_evaluation(record.path))) continue;
      for (const std::string& group : record.groups) {
        const auto name = GroupName::parse(group);
        if (!name || (rollout && !judged.insert(name->rollout).second)) continue;
        guard_(name->rollout,
               [&] { rollout ? check_rollout(name->rollout) : check_evaluation(record, group); });
      }
    }
    std::set<std::string> absent;  // what some ranks alone came to is no step that is there
    for (const PartialStep& partial : partial_steps(dump_)) absent.insert(partial.step.group());
    for (const auto& step : ranks_by_group(dump_)) {
      const std::string& group = step.first;
      if (absent.contains(group)) continue;
      const auto name = GroupName::parse(group);
      name ? guard_(name->rollout, [&] { check_step(group); }) : check_step(group);
    }
    return std::move(problems_).take();
  }

 private:
  void report(const char* code, uint64_t sample, const std::string& message) {
    problems_.add({code, message, where_, sample});
  }

  const RolloutData* rollout(int64_t id) {
    if (loaded_ != id) {
      data_ = find_rollout_data(dump_, id);
      loaded_ = id;
    }
    return data_ ? &*data_ : nullptr;
  }

  void check_rollout(int64_t id) {
    const RolloutData* data = rollout(id);
    if (data == nullptr) return;  // events alone
    where_ = "rollout/" + std::to_string(id);
    for (size_t s = 0; s < data->size(); ++s) {
      check_tokens(*data, s);
      check_finish(*data, s);
      check_versions(*data, s);
      check_version_number(*data, s, id);
      const uint64_t prompt = data->prompt_length ? (*data->prompt_length)[s] : 0;
      check_mask(*data, data->loss_mask, s, prompt);
      check_floats(*data, "log_probs", data->log_probs, data->loss_mask, s, prompt);
      check_reward(*data, s);
    }
  }

  /// Its numbers: samples that training does not get are held to nothing else.
  void check_evaluation(const UnitRecord& record, const std::string& group) {
    const format::UnitReader unit = dump_.open_unit(record);
    if (unit.find(group + "/tokens") == nullptr) return;  // another's file of this name
    where_ = record.path + ": " + group;
    const RolloutData data = read_rollout_data(dump_, unit, group);
    for (size_t s = 0; s < data.size(); ++s) {
      const uint64_t prompt = data.prompt_length ? (*data.prompt_length)[s] : 0;
      check_response(data, "log_probs", data.log_probs, data.loss_mask, s, prompt);
      check_reward(data, s);
    }
  }

  template <class Data>
  void check_reward(const Data& data, size_t s) {
    if (!data.rewards || !data.rewards->has(s) || std::isfinite(data.rewards->values[s])) return;
    report("non-finite", data.sample_id[s],
           "the reward of sample " + std::to_string(data.sample_id[s]) + " is " +
               std::to_string(data.rewards->values[s]));
  }

  /// Against the model, where the dump names it.
  void check_tokens(const RolloutData& data, size_t s) {
    if (!config_) return;
    const ModelConfig& model = config_->model;
    const uint64_t length = data.offsets[s + 1] - data.offsets[s];
    const std::string name = "sample " + std::to_string(data.sample_id[s]);
    if (length > static_cast<uint64_t>(model.max_positions)) {
      report("too-long", data.sample_id[s],
             name + " has " + std::to_string(length) + " tokens, the model " +
                 std::to_string(model.max_positions) + " positions");
    }
    for (uint64_t t = 0; t < length; ++t) {
      const int32_t id = data.tokens[data.offsets[s] + t];
      if (id < model.vocab) continue;
      return report("bad-token", data.sample_id[s],
                    "token " + std::to_string(t) + " of " + name + " is " + std::to_string(id) +
                        ", the vocabulary has " + std::to_string(model.vocab) + " ids");
    }
  }

  /// Reports, of a captured run, a sample whose finish is not what its last token says: a response
  /// that stopped ends with a stop id, any other with none.
  void check_finish(const RolloutData& data, size_t s) {
    if (!config_ || !data.finish || data.offsets[s] == data.offsets[s + 1]) return;
    const int32_t last = data.tokens[data.offsets[s + 1] - 1];
    const bool stops = std::ranges::count(config_->model.stop_ids, last) > 0 ||
                       std::ranges::count(config_->options.rollout_stop_token_ids, last) > 0;
    if ((*data.finish)[s] == (stops ? format::Finish::kStop : format::Finish::kLength)) return;
    report("bad-finish", data.sample_id[s],
           "the last token of sample " + std::to_string(data.sample_id[s]) + ", " +
               std::to_string(last) + ", is " + (stops ? "a" : "no") +
               " stop id, which its finish does not say");
  }

  void check_versions(const RolloutData& data, size_t s) {
    if (!data.versions || !data.versions->starts) return;
    const uint64_t length = data.offsets[s + 1] - data.offsets[s];
    const format::Versions& all = *data.versions;
    for (uint64_t v = all.offsets[s]; v < all.offsets[s + 1]; ++v) {
      const uint32_t start = (*all.starts)[v];
      const bool follows = v == all.offsets[s] || start > (*all.starts)[v - 1];
      const bool placed = !config_ || !data.prompt_length || v > all.offsets[s] ||
                          start == (*data.prompt_length)[s];
      if (follows && placed && start <= length) continue;
      const std::string why =
          placed ? " do not begin one after the other within it"
                 : " begin at its token " + std::to_string(start) + ", not with its response";
      return report("bad-version", data.sample_id[s],
                    "versions of sample " + std::to_string(data.sample_id[s]) + why);
    }
  }

  /// Reports, of a captured run, versions that are not one, the optimizer steps before its rollout.
  void check_version_number(const RolloutData& data, size_t s, int64_t id) {
    if (!config_ || !data.versions) return;
    const RunOptions& options = config_->options;
    int64_t before = 0;
    if (!options.rollout_only && __builtin_mul_overflow(id, steps_per_rollout(options), &before)) {
      return;  // no run comes so far
    }
    const format::Versions& all = *data.versions;
    const uint64_t count = all.offsets[s + 1] - all.offsets[s];
    const std::string name = "sample " + std::to_string(data.sample_id[s]);
    if (count != 1) {
      return report("bad-version", data.sample_id[s],
                    name + " has weights of " + counted(count, "version") + ", captured is one");
    }
    const int64_t version = all.versions[all.offsets[s]];
    if (version == before) return;
    report("bad-version", data.sample_id[s],
           name + " has weights of version " + std::to_string(version) +
               ", and the run's options have " + counted(before, "optimizer step") +
               " taken before its rollout");
  }

  void check_step(const std::string& group) {
    const auto step = GroupName::parse(group);
    const RolloutData* of = step && step->step ? rollout(step->rollout) : nullptr;
    format::HeldBytes held;
    for (const format::TrainRank& rank : read_train_ranks(dump_, group, held)) {
      where_ = rank.unit->path + ": " + group;
      check_rank(rank.data, of);
    }
  }

  void check_rank(const TrainData& data, const RolloutData* of) {
    for (size_t s = 0; s < data.size(); ++s) {
      uint64_t prompt = data.prompt_length ? (*data.prompt_length)[s] : 0;
      if (of != nullptr) prompt = std::max(prompt, prompt_of(data, s, *of));
      check_mask(data, data.loss_mask, s, prompt);
      check_reward(data, s);
      for (const format::TokenColumnField& field : format::kTokenColumnFields) {
        check_floats(data, field.name, data.*field.column, data.loss_mask, s, prompt);
      }
    }
  }

  /// The length of the prompt of a row's sample, by the rollout.
  uint64_t prompt_of(const TrainData& data, size_t s, const RolloutData& of) {
    const auto at = std::ranges::lower_bound(of.sample_id, data.sample_id[s]);
    if (at == of.sample_id.end() || *at != data.sample_id[s]) {
      if (!replaced_ || (loaded_ && replaced_->contains(*loaded_))) return 0;
      report("sample-unknown", data.sample_id[s],
             "the step trains on sample " + std::to_string(data.sample_id[s]) +
                 ", which its rollout does not have");
      return 0;
    }
    const auto row = static_cast<size_t>(at - of.sample_id.begin());
    return of.prompt_length ? (*of.prompt_length)[row] : 0;
  }

  template <class Data>
  void check_mask(const Data& data, const std::optional<format::Column<uint8_t>>& mask, size_t s,
                  uint64_t prompt) {
    if (!mask || !mask->has(s)) return;
    for (uint64_t t = 0; t < prompt && data.offsets[s] + t < data.offsets[s + 1]; ++t) {
      if (mask->values[data.offsets[s] + t] == 0) continue;
      return report("bad-mask", data.sample_id[s],
                    "the loss mask of sample " + std::to_string(data.sample_id[s]) +
                        " is 1 at token " + std::to_string(t) + " of its prompt");
    }
  }

  template <class Data>
  void check_floats(const Data& data, std::string_view name,
                    const std::optional<TokenFloats>& column,
                    const std::optional<format::Column<uint8_t>>& mask, size_t s, uint64_t prompt) {
    if (!column || !column->has(s)) return;
    for (uint64_t t = data.offsets[s]; t < std::min(data.offsets[s] + prompt, data.offsets[s + 1]);
         ++t) {
      if (same_value(column->at(t), 0.0)) continue;
      report("prompt-value", data.sample_id[s],
             std::string(name) + " of sample " + std::to_string(data.sample_id[s]) +
                 " is not +0 at token " + std::to_string(t - data.offsets[s]) + " of its prompt");
      break;
    }
    check_response(data, name, column, mask, s, prompt);
  }

  template <class Data>
  void check_response(const Data& data, std::string_view name,
                      const std::optional<TokenFloats>& column,
                      const std::optional<format::Column<uint8_t>>& mask, size_t s,
                      uint64_t prompt) {
    if (!column || !column->has(s)) return;
    const bool log_probs = name.ends_with("log_probs");
    for (uint64_t t = data.offsets[s] + prompt; t < data.offsets[s + 1]; ++t) {
      if (mask && mask->has(s) && mask->values[t] == 0) continue;
      const double x = column->at(t);
      if (std::isfinite(x) && !(log_probs && x > foreign::kMostLogProb)) continue;
      return report(std::isfinite(x) ? "bad-log-prob" : "non-finite", data.sample_id[s],
                    std::string(name) + " of sample " + std::to_string(data.sample_id[s]) + " is " +
                        std::to_string(x) + " at token " + std::to_string(t - data.offsets[s]));
    }
  }

  const format::DumpReader& dump_;
  const Guard& guard_;
  std::optional<RecordedConfig> config_;
  std::optional<std::set<int64_t>> replaced_;  // nothing where what says it cannot be read
  FirstProblems<Problem> problems_;
  std::string where_;
  std::optional<int64_t> loaded_;
  std::optional<RolloutData> data_;
};

/// Sees that a rank's events of a rollout or a step lie in one unit. Errors: FormatError.
void check_event_units(const RecordedRun& run, const Guard& guard) {
  const auto check = [&](int64_t rollout, const char* kind, const std::string& group) {
    if (run.dump().find(kind, group).size() < 2) return;
    guard(rollout, [&] { static_cast<void>(event_units(run.dump(), kind, group)); });
  };
  for (const int64_t rollout : run.rollouts()) check(rollout, "rollout", std::to_string(rollout));
  for (const StepId& step : run.steps()) check(step.rollout, "train", step.group());
}

/// Rollouts that are not there, and those and steps of an import that nothing is there to be held
/// against.
void note_unheld(const RecordedRun& run, std::vector<std::string>& notes) {
  std::ranges::move(partial_notes(run.dump()), std::back_inserter(notes));
  if (!run.is_imported()) {
    std::ranges::move(rollout_gap_notes(run.dump()), std::back_inserter(notes));
    return;
  }
  std::set<int64_t> trained;
  for (const StepId& step : run.steps()) trained.insert(step.rollout);
  const std::set<int64_t> generated(run.rollouts().begin(), run.rollouts().end());
  for (const auto& problems :
       {find_unheld(generated, trained), find_rollout_gaps(generated, trained)}) {
    for (const Problem& found : problems) notes.push_back(found.where + ": " + found.message);
  }
}

}  // namespace

std::vector<Problem> audit_values(const RecordedRun& run, std::vector<std::string>* notes,
                                  UnreadRollouts* unread) {
  const Guard guard = [unread](int64_t rollout, const std::function<void()>& work) {
    unread == nullptr ? work() : unread->guard(rollout, work);
  };
  const bool extensions = unread == nullptr || !unread->lacks_extensions();
  check_event_units(run, guard);
  std::vector<Problem> problems = Auditor(run.dump(), guard, extensions).run();
  if (extensions) {
    std::ranges::move(recorded_findings(run.dump()), std::back_inserter(problems));
    std::ranges::move(check_kept_files(run.dump()), std::back_inserter(problems));
    if (notes != nullptr) std::ranges::move(unjudged(run.dump()), std::back_inserter(*notes));
  }
  if (notes != nullptr) note_unheld(run, *notes);
  // Which samples an import's steps name may be said by one that cannot be read.
  if (!extensions && run.is_imported()) return problems;
  const auto replaced = run.is_imported() ? replaced_rollouts(run.dump()) : std::set<int64_t>();
  for (const int64_t rollout : recorded_rollouts(run)) {
    RecordFindings found;
    guard(rollout, [&] { found = check_recorded_rollout(run, rollout); });
    if (replaced.contains(rollout)) name_replaced(run, rollout, found);
    for (RecordProblem& problem : found.problems) {
      problems.push_back({std::move(problem.code), std::move(problem.message),
                          std::move(problem.unit), problem.sample});
    }
    if (notes != nullptr) std::ranges::move(found.not_checked, std::back_inserter(*notes));
  }
  return problems;
}

}  // namespace rlreplay::replay
