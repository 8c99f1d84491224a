#pragma once

#include <string>

#include "src/replay/exchange/export_torch.h"

namespace rlreplay::replay {

/// What is exported, in which form, and where to.
struct ExportOptions {
  std::string dump;
  std::string to;      // slime, miles, relax, jsonl or safetensors
  std::string output;  // a path; for jsonl also -, standard output
  Selection selection;
  std::string steps;   // `--steps`; all where it is empty
  bool force = false;  // replace what is there
};

/// Writes a dump's rollouts and training data in another form: a folder of .pt files for the
/// frameworks (or one .pt file, where the dump has only one rollout), a file otherwise.
/// Errors: kUsage where the output is there, the dump has nothing for that form or lacks a sample
/// or group of the selection; kEnvironment; FormatError where the dump is not sound.
[[nodiscard]] Exported export_dump(const ExportOptions& options);

}  // namespace rlreplay::replay
