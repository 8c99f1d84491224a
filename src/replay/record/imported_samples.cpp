#include "src/replay/record/imported_samples.h"

#include <algorithm>
#include <optional>
#include <set>

#include "format/foreign/framework.h"
#include "format/group_io.h"
#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kTopP = "--rollout-top-p";

/// The last value that the words give --rollout-top-p; one that only a shell knows is none.
std::optional<double> top_p_of(const JsonValue& words) {
  std::optional<double> out;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words.at(i).string();
    if (!word.starts_with(kTopP)) continue;
    word.remove_prefix(kTopP.size());
    if (word.empty() && i + 1 < words.size()) word = words.at(i + 1).string();
    if (word.starts_with('=')) word.remove_prefix(1);
    const auto value = parse_number<double>(word);
    if (value && *value > 0 && *value <= 1) out = value;
  }
  return out;
}

/// Adds the options of the objective among words, but those whose value only a shell knows.
void add_objective_flags(const JsonValue& words, std::vector<Setting>& out) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word(words.at(i).string());
    if (!word.starts_with("--")) continue;
    const size_t equals = word.find('=');
    const Option* option = find_option(std::string_view(word).substr(2, equals - 2));
    if (option == nullptr || option->section != Section::kObjective) continue;
    const bool flag = std::holds_alternative<bool RunOptions::*>(option->field);
    std::string text = flag ? "true" : "";
    if (equals != word.npos) text = word.substr(equals + 1);
    if (equals == word.npos && !flag && i + 1 < words.size()) text = words.at(i + 1).string();
    try {
      RunOptions checked;
      set_option(checked, *option, text);
    } catch (const Error&) {
      continue;  // another program's value of an option of this name: not ours to judge
    }
    out.emplace_back(option->name, text);
  }
}

/// The words of a wrapped launch, its script's and then its command's.
template <class Use>
void for_launch_words(const RecordedRun& record, Use use) {
  const JsonDocument meta = JsonDocument::parse(record.dump().meta(), record.path());
  const auto launch = meta.root().find("launch");
  for (const char* said_in : {"script", "command"}) {
    const auto words = launch ? launch->find(said_in) : std::nullopt;
    if (words) use(*words);
  }
}

}  // namespace

RunOptions options_of(std::string_view framework) {
  RunOptions out;
  if (framework == to_string(foreign::Framework::kMiles)) out.dialect = framework;
  return out;
}

RunOptions imported_options(const RecordedRun& record, const std::string& vendor) {
  RunOptions out = options_of(vendor);
  for_launch_words(record, [&](const JsonValue& words) {
    if (const auto top_p = top_p_of(words)) out.rollout_top_p = *top_p;
  });
  return out;
}

std::vector<Setting> launched_objective(const RecordedRun& record) {
  std::vector<Setting> out;
  for_launch_words(record, [&](const JsonValue& words) { add_objective_flags(words, out); });
  return out;
}

bool needs_nuclei(const RunOptions& options) {
  return options.rollout_top_p < 1 && dialect(options) == engine::Dialect::kSlime;
}

void check_nuclei(std::span<const Sample> samples, const std::string& where) {
  const auto lacks = [](const Sample& s) { return !s.nuclei && s.response_length() > 0; };
  const auto found = std::ranges::find_if(samples, lacks);
  if (found == samples.end()) return;
  throw Error(ErrorCode::kIncomplete,
              "the samples were drawn with --rollout-top-p below 1, and slime takes "
              "log-probabilities over the ids that it kept: the dump does not say which they are "
              "for sample " +
                  std::to_string(found->id) +
                  ". The rollout dump does: import it together with the train dump",
              where);
}

std::set<uint64_t> samples_with_inputs(const format::DumpReader& dump, const std::string& rollout) {
  std::set<uint64_t> out;
  for (const format::UnitRecord* unit : dump.find(kInputsKind, rollout)) {
    const format::UnitReader reader = dump.open_unit(*unit);
    const format::GroupReader values(dump, reader, rollout);
    const format::StoredDataset* ids = values.find("sample_id");
    if (ids == nullptr) continue;
    const auto read = values.read<uint64_t>(*ids);
    out.insert(read.begin(), read.end());
  }
  return out;
}

void check_inputs(const RecordedRun& record, int64_t rollout, std::span<const Sample> samples) {
  const std::string group = std::to_string(rollout);
  const std::set<uint64_t> others = samples_with_inputs(record.dump(), group);
  std::string named;
  size_t count = 0;
  for (const Sample& s : samples) {
    if (!others.contains(s.id) || ++count > 4) continue;
    named += (named.empty() ? "" : ", ") + std::to_string(s.id);
  }
  if (count == 0) return;
  throw Error(ErrorCode::kUnsupported,
              "samples of rollout " + group + " were made from more than their tokens (images, " +
                  "sound), which this version's models do not read: " + named +
                  (count > 4 ? " and " + std::to_string(count - 4) + " more" : ""),
              record.path());
}

}  // namespace rlreplay::replay
