#include "src/replay/launch/launch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "format/canonical.h"
#include "src/base/error.h"
#include "src/base/redact.h"
#include "src/base/shell.h"
#include "src/replay/launch/launch_flags.h"
#include "src/replay/launch/launch_script.h"
#include "src/replay/launch/provenance.h"
#include "src/replay/launch/recorded_command.h"

namespace rlreplay::replay {
namespace {

struct Rule {
  const char* name;
  const char* value;  // null: a flag without one
  const char* reason;
};

constexpr Rule kVariables[] = {
    {"NCCL_ALGO", "Ring", "collectives add in one order"},
    {"NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0", "no attention kernels that add in any order"},
    {"CUBLAS_WORKSPACE_CONFIG", ":4096:8", "products with a fixed workspace"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1", "kernels start in the order of their calls"},
};

constexpr Rule kFlags[] = {
    {"--sglang-enable-deterministic-inference", nullptr, "no batch changes a sample's numbers"},
    {"--sglang-attention-backend", "flashinfer", "the engine's attention that keeps to that"},
    {"--deterministic-mode", nullptr, "the trainer refuses kernels that add in any order"},
    {"--attention-backend", "flash", "the trainer's attention that keeps to that"},
    {"--attention-dropout", "0.0", "no dropout"},
    {"--hidden-dropout", "0.0", "no dropout"},
    {"--accumulate-allreduce-grads-in-fp32", nullptr, "gradients are added in binary32"},
    {"--attention-softmax-in-fp32", nullptr, "softmax in binary32"},
    {"--seed", "1234", "the trainer's seed"},
    {"--rollout-seed", "42", "the sampler's seed"},
};

constexpr Rule kDumps[] = {
    {"--dump-details", nullptr, "rollouts and training data are saved"},
    {"--save-debug-rollout-data", nullptr, "rollouts are saved"},
    {"--save-debug-train-data", nullptr, "training data are saved"},
};

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::string name_of(const std::string& word) { return word.substr(0, word.find('=')); }

/// The user's text of a flag, `--no-` before it included; underscores count as dashes.
std::optional<std::string> find_flag(const std::vector<std::string>& words, std::string flag) {
  const std::string negated = "--no-" + flag.substr(2);
  std::optional<std::string> out;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string name = name_of(words[i]);
    std::replace(name.begin(), name.end(), '_', '-');
    if (name != flag && name != negated) continue;
    out = words[i];
    const bool apart =
        words[i].find('=') == std::string::npos && i + 1 < words.size() && !is_option(words[i + 1]);
    if (apart) *out += " " + words[i + 1];
  }
  return out;
}

/// "7" of "--seed 7" or "--seed=7".
std::string value_of(const std::string& text) {
  const size_t at = text.find_first_of(" =");
  return at == std::string::npos ? "" : text.substr(at + 1);
}

/// The folder in which files of a pattern such as `out/{rollout_id}_{rank}.pt` lie.
std::string folder_of(const std::string& pattern) {
  const std::string fixed = pattern.substr(0, pattern.find('{'));
  const size_t slash = fixed.rfind('/');
  return slash == std::string::npos ? "." : fixed.substr(0, std::max<size_t>(slash, 1));
}

/// What a run gives to the variable: its script, or else the command, or else the environment.
void find_own_value(const std::vector<std::string>& words, const Launch& launch,
                    LaunchSetting& setting) {
  if (const char* own = std::getenv(setting.name.c_str())) setting.kept = own;
  for (const std::string& word : words) {
    if (auto own = value_given(word, setting.name)) setting.kept = std::move(own);
  }
  if (!launch.script) return;
  for (const auto& [name, value] : launch.script->variables) {
    if (name != setting.name) continue;
    setting.kept = value;
    setting.kept_in = launch.script->path;
  }
}

void add_variable(const Rule& rule, const std::vector<std::string>& words, Launch& launch) {
  LaunchSetting setting{true, rule.name, rule.value, rule.reason, std::nullopt, {}};
  find_own_value(words, launch, setting);
  if (!setting.kept) {
    launch.command.environment.emplace_back(rule.name, rule.value);
  }
  launch.settings.push_back(std::move(setting));
}

/// A flag of the user's, in the command or else in its script.
struct OwnFlag {
  std::optional<std::string> text;
  std::string script;
};

OwnFlag find_own_flag(const std::vector<std::string>& words, const Launch& launch,
                      const std::string& name) {
  if (auto text = find_flag(words, name)) return {std::move(text), ""};
  if (!launch.script) return {};
  return {find_flag(launch.script->words, name), launch.script->path};
}

void add_flag(const std::string& name, const std::optional<std::string>& value,
              const std::string& reason, const std::vector<std::string>& words, Launch& launch) {
  OwnFlag own = find_own_flag(words, launch, name);
  LaunchSetting setting{false, name, value, reason, own.text, own.script};
  if (!setting.kept) {
    launch.command.arguments.push_back(name);
    if (value) launch.command.arguments.push_back(*value);
  }
  launch.settings.push_back(std::move(setting));
}

/// The user's own places, or one folder for all.
void add_dumps(const std::vector<std::string>& words, const std::string& folder, Launch& launch) {
  bool own = false;
  for (const Rule& rule : kDumps) {
    const OwnFlag given = find_own_flag(words, launch, rule.name);
    if (!given.text) continue;
    own = true;
    launch.settings.push_back(
        {false, rule.name, std::nullopt, rule.reason, given.text, given.script});
    const std::string place = value_of(*given.text);
    if (!given.script.empty() && place.find('$') != place.npos) {
      throw Error(ErrorCode::kUsage,
                  "only the shell knows the place of " + std::string(rule.name) + " " + place +
                      ": write it out, or give it behind the script's name",
                  given.script);
    }
    launch.folders.push_back(&rule == kDumps ? place : folder_of(place));
  }
  if (own) {
    std::sort(launch.folders.begin(), launch.folders.end());
    launch.folders.erase(std::unique(launch.folders.begin(), launch.folders.end()),
                         launch.folders.end());
    return;
  }
  const std::string whole = std::filesystem::absolute(folder).string();
  add_flag(kDumps[0].name, whole, kDumps[0].reason, words, launch);
  launch.folders.push_back(whole);
}

/// A script that keeps its arguments to itself would run for hours and write no dump.
void check_handed_on(const std::vector<std::string>& command, const Launch& launch) {
  const size_t added = launch.command.arguments.size() - command.size();
  if (!launch.script || launch.script->hands_on || added == 0) return;
  std::string flags;
  for (size_t i = command.size(); i < launch.command.arguments.size(); ++i) {
    flags += " " + shell_word(launch.command.arguments[i]);
  }
  throw Error(ErrorCode::kUsage,
              "the script does not hand on the flags that it would be given: put \"$@\" behind the "
              "words of its training command, or these into it:" +
                  flags,
              launch.script->path);
}

/// A script and its options, with one value at most each: what follows may be another command, with
/// secrets. Values are recorded as a command's are.
std::vector<std::string> recorded_options(const LaunchScript& script) {
  const std::vector<std::string>& words = script.words;
  std::vector<std::string> options = {script.path};
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--") || words[i] == "--") continue;
    options.push_back(words[i]);
    const auto values = launch_flag_values(name_of(words[i]).substr(2));
    const bool joined = words[i].find('=') != std::string::npos;
    if (!values || *values == "0" || joined || i + 1 == words.size()) continue;
    if (!is_option(words[i + 1])) options.push_back(words[++i]);
  }
  return recorded_words(options, CommandOf::kLauncher);
}

}  // namespace

std::vector<std::string> recipe_variables() {
  std::vector<std::string> out;
  for (const Rule& rule : kVariables) out.emplace_back(rule.name);
  return out;
}

std::optional<int> recipe_values(std::string_view flag) {
  const auto* rule = std::ranges::find_if(kFlags, [&](const Rule& r) { return flag == r.name; });
  if (rule == std::end(kFlags)) return std::nullopt;
  return rule->value == nullptr ? 0 : 1;
}

Launch plan_launch(const std::string& framework, const std::vector<std::string>& command,
                   const std::string& folder) {
  if (command.empty() || command[0].empty()) {
    throw Error(ErrorCode::kUsage,
                "--wrap needs the command that starts the run, behind --: capture --wrap slime -o "
                "dump/ -- python3 train.py ...");
  }
  Launch out;
  out.framework = framework;
  out.command.arguments = command;
  out.script = find_script(command);
  for (const Rule& rule : kVariables) add_variable(rule, command, out);
  for (const Rule& rule : kFlags) {
    const auto value = rule.value ? std::optional<std::string>(rule.value) : std::nullopt;
    add_flag(rule.name, value, rule.reason, command, out);
  }
  add_dumps(command, folder, out);
  check_handed_on(command, out);
  return out;
}

std::string command_line(const Launch& launch) {
  std::string out;
  for (const auto& [name, value] : launch.command.environment) {
    out += name + "=" + shell_word(value.value_or("")) + " ";
  }
  for (const std::string& word : launch.command.arguments) out += shell_word(word) + " ";
  out.pop_back();
  return out;
}

std::string describe(const Launch& launch) {
  std::string out;
  for (const LaunchSetting& s : launch.settings) {
    const std::string joint = s.variable ? "=" : " ";
    if (s.kept) {
      out += "wrap: kept  " + (s.variable ? s.name + "=" + *s.kept : *s.kept) +
             (s.kept_in.empty() ? "  (yours)\n" : "  (yours, in " + s.kept_in + ")\n");
    } else {
      out += std::string("wrap: ") + (s.variable ? "set   " : "added ") + s.name +
             (s.value ? joint + *s.value : "") + "  (" + s.reason + ")\n";
    }
  }
  return out;
}

std::string launch_json(const Launch& launch) {
  format::JsonObject settings, environment, out;
  for (const LaunchSetting& s : launch.settings) {
    if (s.kept) {
      const std::string value = s.variable ? *s.kept : value_of(*s.kept);
      settings.text(s.name, recipe_values(s.name) == 0 ? "" : redacted_address(value));
    } else {
      settings.text(s.name, s.value.value_or(""));
    }
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('='));
    if (is_kept_variable(name)) environment.text(name, text.substr(name.size() + 1));
  }
  out.text("framework", launch.framework).json("settings", settings.str());
  out.texts("command", recorded_words(launch.command.arguments, CommandOf::kLauncher));
  if (launch.script) out.texts("script", recorded_options(*launch.script));
  out.json("environment", environment.str());
  return out.str();
}

}  // namespace rlreplay::replay
