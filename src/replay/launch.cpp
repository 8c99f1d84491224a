#include "src/replay/launch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "format/canonical.h"
#include "src/base/error.h"
#include "src/replay/options.h"
#include "src/replay/provenance.h"

namespace rlreplay::replay {
namespace {

struct Rule {
  const char* name;
  const char* value;  // null: a flag without one
  const char* reason;
};

constexpr const char* kHidden = "(not recorded)";

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

void add_variable(const Rule& rule, Launch& launch) {
  LaunchSetting setting{true, rule.name, rule.value, rule.reason, std::nullopt};
  if (const char* own = std::getenv(rule.name)) {
    setting.kept = own;
  } else {
    launch.command.environment.emplace_back(rule.name, rule.value);
  }
  launch.settings.push_back(std::move(setting));
}

void add_flag(const std::string& name, const std::optional<std::string>& value,
              const std::string& reason, const std::vector<std::string>& words, Launch& launch) {
  LaunchSetting setting{false, name, value, reason, find_flag(words, name)};
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
    const auto given = find_flag(words, rule.name);
    if (!given) continue;
    own = true;
    launch.settings.push_back({false, rule.name, std::nullopt, rule.reason, given});
    const std::string place = value_of(*given);
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

/// Options whose values say how a run computes; those of all others may be secrets.
bool is_harmless(const std::string& option) {
  const auto same = [&](const Rule& rule) { return option == rule.name; };
  if (std::any_of(std::begin(kFlags), std::end(kFlags), same)) return true;
  return option.starts_with("--") && find_option(option.substr(2)) != nullptr;
}

bool is_kept(const std::string& variable) {
  return std::ranges::any_of(kept_variables(), [&](std::string_view kept) {
    if (!kept.ends_with('*')) return variable == kept;
    return variable.starts_with(kept.substr(0, kept.size() - 1));
  });
}

/// The program's words as they are recorded.
std::vector<std::string> recorded_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool shown = true;  // values of the option before, or words before the first one
  bool begun = false;
  for (const std::string& word : words) {
    if (word == "--") {
      shown = true;
      begun = false;
      out.push_back(word);
    } else if (is_option(word)) {
      begun = true;
      shown = is_harmless(name_of(word));
      const bool joined = word.find('=') != std::string::npos;
      out.push_back(joined && !shown ? name_of(word) + "=" + kHidden : word);
    } else if (!begun && word.find('=') != std::string::npos) {
      out.push_back(name_of(word) + "=" + kHidden);  // env NAME=VALUE
    } else {
      out.push_back(shown ? word : kHidden);
    }
  }
  return out;
}

}  // namespace

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
  for (const Rule& rule : kVariables) add_variable(rule, out);
  for (const Rule& rule : kFlags) {
    const auto value = rule.value ? std::optional<std::string>(rule.value) : std::nullopt;
    add_flag(rule.name, value, rule.reason, command, out);
  }
  add_dumps(command, folder, out);
  return out;
}

std::string describe(const Launch& launch) {
  std::string out;
  for (const LaunchSetting& s : launch.settings) {
    const std::string joint = s.variable ? "=" : " ";
    if (s.kept) {
      out += "wrap: kept  " + (s.variable ? s.name + "=" + *s.kept : *s.kept) + "  (yours)\n";
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
      settings.text(s.name, s.variable ? *s.kept : value_of(*s.kept));
    } else {
      settings.text(s.name, s.value.value_or(""));
    }
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (is_kept(name_of(text))) environment.text(name_of(text), value_of(text));
  }
  out.text("framework", launch.framework).json("settings", settings.str());
  out.texts("command", recorded_words(launch.command.arguments));
  out.json("environment", environment.str());
  return out.str();
}

}  // namespace rlreplay::replay
