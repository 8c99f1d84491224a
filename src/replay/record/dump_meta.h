#pragma once

#include <optional>
#include <string>

#include "src/base/model_config.h"
#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// The version of the numeric contract (docs/numerics.md) whose bits this program gives.
inline constexpr const char* kContractVersion = "0.2";

/// What a dump says of the run that it records: the resolved options, the model's shape, the
/// numeric contract, the kernel set. `part`: the steps that the dump is of, where it is of a part
/// of that run, "1.0..2.0" or "1.0.."; empty: of all.
[[nodiscard]] std::string dump_meta(const RunOptions& options, const ModelConfig& model,
                                    const std::string& part = "");

/// The options and the model of a recorded run.
struct RecordedConfig {
  RunOptions options;
  ModelConfig model;
  std::string part;  // as dump_meta has it
};

/// What dump_meta wrote, read again; `where` names the dump in errors.
/// Errors: kUnsupported for a dump that says nothing of them (an imported one); kCorrupt.
[[nodiscard]] RecordedConfig read_dump_meta(const std::string& meta, const std::string& where);

/// The first key in which what dump_meta wrote is not what it would write: "options.lr 0.1 (now
/// 0.2)". Empty where they are equal.
[[nodiscard]] std::string meta_difference(const std::string& written, const std::string& now);

/// Who wrote the files that a dump was imported from: "slime"; nothing for a captured one.
/// Errors: kCorrupt where it says something else.
[[nodiscard]] std::optional<std::string> imported_from(const std::string& meta,
                                                       const std::string& where);

}  // namespace rlreplay::replay
