#include "src/replay/record/content_root.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "format/dump_content.h"
#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/replay/launch/recorded_command.h"
#include "src/replay/options/config_file.h"
#include "src/replay/options/options.h"
#include "src/replay/record/import_findings.h"

namespace rlreplay::replay {
using Options = std::map<std::string, std::string>;

namespace {

/// Options that no content root has: where a run took place and how long, and what its data say
/// themselves: prompts and rewards, samples of a rollout and of a step, which weights and events.
constexpr std::string_view kLeftOut[] = {"model",
                                         "ref-load",
                                         "save",
                                         "prompts",
                                         "input-key",
                                         "label-key",
                                         "apply-chat-template",
                                         "reward",
                                         "reward-command",
                                         "reward-time-limit",
                                         "rollout-batch-size",
                                         "n-samples-per-prompt",
                                         "rollout-slots",
                                         "num-rollout",
                                         "steps",
                                         "num-steps-per-rollout",
                                         "global-batch-size",
                                         "micro-batch-size",
                                         "recompute",
                                         "threads",
                                         "layout",
                                         "ranks-as",
                                         "rank-timeout",
                                         "device",
                                         "record",
                                         "weights",
                                         "rollout-only"};

constexpr char kNotGiven[] = "none";  // an option that was not given

Options defaults() {
  Options out;
  for (const Option& option : option_table()) {
    out[std::string(option.name)] = recorded_text(RunOptions(), option);
  }
  return out;
}

/// How long a rate decays is the length of the run, where nothing else is said.
void resolve_decay(Options& options, const std::string& config, const std::string& where) {
  if (options["lr-decay-style"] == "constant") {
    options.erase("lr-decay-iters");
    options.erase("min-lr");
    return;
  }
  if (options["lr-decay-iters"] != kNotGiven) return;
  try {
    RunOptions run;
    apply_settings(run, parse_options_json(config, where));
    check_options(run);
    options["lr-decay-iters"] = std::to_string(planned_steps(run));
  } catch (const Error&) {
    // Options that no run can have count as they are.
  }
}

/// A member of `meta` that is an object, or nothing.
std::optional<JsonValue> object_of(const JsonDocument& meta, const char* name) {
  const auto value = meta.root().find(name);
  return value && value->is_object() ? value : std::nullopt;
}

bool counts(const std::string& name) {
  return std::ranges::find(kLeftOut, name) == std::end(kLeftOut);
}

}  // namespace

Options run_options(const std::string& meta, const std::string& where) {
  const JsonDocument document = JsonDocument::parse(meta, where);
  const auto config = object_of(document, "config");
  if (!config) return {};
  Options options = defaults();
  for (const auto& [name, value] : config->members()) {
    options[std::string(name)] = value.is_string() ? value.string() : value.dump();
  }
  if (options["eps-clip-high"] == options["eps-clip"]) options["eps-clip-high"] = kNotGiven;
  resolve_decay(options, config->dump(), where);
  return options;
}

Options content_options(const std::string& meta, const std::string& where) {
  Options options = run_options(meta, where);
  const Options unset = defaults();
  std::erase_if(options, [&](const auto& option) {
    const auto at = unset.find(option.first);
    return !counts(option.first) || (at != unset.end() && at->second == option.second);
  });
  const JsonDocument document = JsonDocument::parse(meta, where);
  for (const char* name : {"model", "contract"}) {
    const auto value = document.root().find(name);
    if (value) options[name] = value->is_string() ? value->string() : value->dump();
  }
  return options;
}

Hash content_root(const format::DumpReader& dump) {
  std::string text = "rlreplay content root\n";
  for (const auto& [name, value] : content_options(dump.meta(), "meta")) {
    text += "option " + name + " " + hash_of(value).hex() + "\n";
  }
  for (const auto& [group, hash] : format::group_contents(dump)) {
    text += group.first + " " + group.second + " " + hash.hex() + "\n";
  }
  std::string found;
  for (const std::string& line : contradictions(dump)) found += line + "\n";
  if (!found.empty()) text += "findings " + hash_of(found).hex() + "\n";
  return hash_of(text);
}

std::optional<Hash> recorded_content_root(const format::DumpReader& dump) {
  for (const auto& [kind, group] : format::content_groups(dump)) {
    const auto holders = dump.find(kind, group);
    if (holders.size() != 1 || !holders[0]->group_contents.contains(group)) return std::nullopt;
  }
  return content_root(dump);
}

Hash content_root(const std::string& path) { return content_root(format::DumpReader::open(path)); }

}  // namespace rlreplay::replay
