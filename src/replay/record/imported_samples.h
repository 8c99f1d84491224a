#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/sample.h"
#include "src/replay/record/recorded_run.h"

/// What a framework's dump must say of samples before their log-probabilities are computed.
namespace rlreplay::replay {

/// The kind of the units that name samples which were made from more than their tokens.
inline constexpr std::string_view kInputsKind = "x-inputs";

/// The options of a run of which a framework's name alone is known: its dialect.
[[nodiscard]] RunOptions options_of(std::string_view framework);

/// What is known of an imported run's options: its dialect, and the top-p of a wrapped launch.
[[nodiscard]] RunOptions imported_options(const RecordedRun& record, const std::string& vendor);

/// What the words of a wrapped launch, its script's and then its command's, say of the objective.
[[nodiscard]] std::vector<Setting> launched_objective(const RecordedRun& record);

/// Whether log-probabilities are taken over the ids that top-p kept: slime's are, Miles' never.
[[nodiscard]] bool needs_nuclei(const RunOptions& options);

/// Sees that each sample says what top-p kept of it.
/// Errors: kIncomplete, naming a sample that does not say what top-p kept.
void check_nuclei(std::span<const Sample> samples, const std::string& where);

/// The samples of a rollout that were made from more than their tokens (images, sound).
[[nodiscard]] std::set<uint64_t> samples_with_inputs(const format::DumpReader& dump,
                                                     const std::string& rollout);

/// Sees that samples of a rollout were made from their tokens alone.
/// Errors: kUnsupported, naming samples that were made from more than their tokens.
void check_inputs(const RecordedRun& record, int64_t rollout, std::span<const Sample> samples);

}  // namespace rlreplay::replay
