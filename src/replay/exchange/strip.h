#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/rule.h"
#include "src/base/hash.h"
#include "src/replay/record/step_range.h"

namespace rlreplay::replay {

/// What finds the first rule of the format that the dump in a folder breaks, in a unit or among
/// several of a rollout or a step. The layer that checks dumps stands above this one, and gives it.
using DumpJudge =
    std::function<std::optional<format::Problem>(const std::string& path, int threads)>;

/// What is taken out of a dump before it is shared.
struct StripOptions {
  std::string dump, output;
  bool texts = false;                      // prompts, responses, labels
  std::set<uint64_t> samples;              // these
  std::optional<std::set<uint64_t>> only;  // all but these
  std::set<std::string> columns;           // of rollouts and steps; `events` are all of them
  std::optional<RunPart> steps;            // all but these, their rollouts and states
  std::string unstable = "{}";             // of the new dump: commands, hosts, environments
  bool replace = false;
  DumpJudge judge;  // of what is left; without one whoever asks sees whether it is whole
  int threads = 2;

  [[nodiscard]] bool takes_nothing() const {
    return !texts && !only && !steps && samples.empty() && columns.empty();
  }
};

/// What strip() wrote and what it took out.
struct StripReport {
  uint64_t units = 0;             // of the new dump
  uint64_t samples = 0;           // taken out
  std::set<std::string> columns;  // taken out
  std::vector<std::string> also;  // what else had to go, and why
  Hash root, content;             // of the new dump
};

/// The part of a dump that `--steps` asks for. Errors: those of RecordedRun::keep_steps.
[[nodiscard]] RunPart chosen_part(const std::string& dump, const std::string& steps);

/// Writes what is left as a new, sealed dump; the same units where nothing is taken out. What may
/// hold what is taken out goes too: files of frameworks that an import kept, extensions of others,
/// `unstable`, events of rollouts and steps whose samples were taken out. Errors: kUsage for a dump
/// that is not sealed, a sample or column that is not there, or a column without which nothing can
/// be read; FormatError, also where what is left breaks a rule; those of DumpPlace.
[[nodiscard]] StripReport strip(const StripOptions& options);

}  // namespace rlreplay::replay
