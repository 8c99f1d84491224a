#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/held_bytes.h"
#include "format/sample_columns.h"

namespace rlreplay::format {

/// How a response ended; the values are those of SPEC.md.
enum class Finish : uint8_t { kStop = 0, kLength = 1, kAborted = 2, kFailed = 3, kUnknown = 255 };

inline constexpr std::array kFinishes = {Finish::kStop, Finish::kLength, Finish::kAborted,
                                         Finish::kFailed, Finish::kUnknown};

/// "stop"; "unknown" for a code that has no name.
[[nodiscard]] std::string_view to_string(Finish finish);

/// The versions of the weights that wrote a response, in their order.
struct Versions {
  std::vector<uint64_t> offsets = {0};          // [S + 1], of versions
  std::vector<int64_t> versions;                // [V]
  std::optional<std::vector<uint32_t>> starts;  // [V]: the first token of each in its sample
  friend bool operator==(const Versions&, const Versions&) = default;
};

/// Who wrote a token; the values are those of SPEC.md.
enum class Role : uint8_t { kPrompt = 0, kResponse = 1, kTool = 2, kSystem = 3, kUnknown = 255 };

/// The calls of an engine that wrote a sample, in their order. What it wrote in one lies behind
/// what it wrote in the one before.
struct Calls {
  std::vector<uint64_t> offsets = {0};            // [S + 1], of calls
  std::vector<uint32_t> first, length;            // [C], tokens of the sample
  std::optional<std::vector<Finish>> finish;      // [C]
  std::optional<std::vector<uint8_t>> truncated;  // [C]: whether log_probs are of what was left
  std::optional<std::vector<int64_t>> version;    // [C], of the weights
  std::optional<std::vector<int64_t>> seed;       // [C]
  std::optional<NamedColumns> numbers;            // [C, K]; NaN: not recorded

  size_t size() const { return first.size(); }
  /// `use(name, member)` for those that not all calls have, what was asked for first.
  template <class Use>
  static void for_each_column(Use use) {
    use("call_version", &Calls::version);
    use("call_seed", &Calls::seed);
    use("call_numbers", &Calls::numbers);
    use("call_truncated", &Calls::truncated);
    use("call_finish", &Calls::finish);
  }
  friend bool operator==(const Calls&, const Calls&) = default;
};

/// The experts that a router chose for each token.
struct Experts {
  uint64_t layers = 0;
  uint64_t slots = 0;
  std::vector<uint16_t> experts;                        // [T, layers, slots]
  std::optional<std::vector<uint32_t>> layer_ids = {};  // [layers], of the model
  std::optional<std::vector<float>> gates = {};         // [T, layers, slots]; NaN: not recorded
  std::optional<std::vector<uint8_t>> recorded = {};    // [T] of 0 and 1; all where it is absent
  friend bool operator==(const Experts&, const Experts&) = default;
};

/// What was generated in one rollout: S samples by ascending id, T tokens of all of them, prompts
/// included. What was not recorded is absent, never zero.
struct RolloutData {
  std::vector<uint64_t> sample_id;      // [S], ascending
  std::vector<uint64_t> offsets = {0};  // [S + 1]: sample s is tokens [offsets[s], offsets[s + 1])
  std::vector<int32_t> tokens;          // [T]
  std::optional<Column<uint64_t>> group_id;
  std::optional<Column<uint64_t>> trajectory_id;       // of samples that count as one together
  std::optional<std::vector<uint32_t>> prompt_length;  // [S]
  std::optional<TokenFloats> log_probs;                // the sampler's; +0 for the prompt
  std::optional<TokenSets> nucleus;                    // what top-p left of the vocabulary
  std::optional<Column<uint8_t>> loss_mask;            // [T]; 0 for the prompt
  std::optional<Column<uint8_t>> removed;              // [S]: 1 counts as a mask of zeros
  std::optional<Column<double>> rewards;               // [S], as the reward function gave them
  std::optional<NamedColumns> reward_components;       // [S, K]
  std::optional<std::vector<Finish>> finish;           // [S]
  std::optional<Versions> versions;
  std::optional<Calls> calls;
  std::optional<Column<uint8_t>> roles;  // [T], of `Role`
  std::optional<Texts> prompt_text;
  std::optional<Texts> response_text;
  std::optional<Texts> label_text;
  std::optional<Experts> experts;

  size_t size() const { return sample_id.size(); }
  friend bool operator==(const RolloutData&, const RolloutData&) = default;
};

/// `use(name, member, axis)` for all columns but ids and offsets, causes before effects: a column
/// that stands here is written, read, joined, compared, shown, imported and exported.
template <class Use>
void for_each_rollout_column(Use use) {
  use("prompt_length", &RolloutData::prompt_length, Axis::kSample);
  use("prompt_text", &RolloutData::prompt_text, Axis::kSample);
  use("label_text", &RolloutData::label_text, Axis::kSample);
  use("group_id", &RolloutData::group_id, Axis::kSample);
  use("trajectory_id", &RolloutData::trajectory_id, Axis::kSample);
  use("versions", &RolloutData::versions, Axis::kSample);
  use("calls", &RolloutData::calls, Axis::kSample);
  use("roles", &RolloutData::roles, Axis::kToken);
  use("tokens", &RolloutData::tokens, Axis::kToken);
  use("nucleus", &RolloutData::nucleus, Axis::kResponse);
  use("log_probs", &RolloutData::log_probs, Axis::kResponse);
  use("experts", &RolloutData::experts, Axis::kToken);
  use("finish", &RolloutData::finish, Axis::kSample);
  use("response_text", &RolloutData::response_text, Axis::kSample);
  use("rewards", &RolloutData::rewards, Axis::kSample);
  use("reward_components", &RolloutData::reward_components, Axis::kSample);
  use("loss_mask", &RolloutData::loss_mask, Axis::kResponse);
  use("removed", &RolloutData::removed, Axis::kSample);
}

/// The datasets of a rollout unit's group (`3`). They share `data`.
/// Errors: kUsage where lengths do not agree or ids do not ascend.
[[nodiscard]] std::vector<Dataset> to_datasets(std::shared_ptr<const RolloutData> data,
                                               const std::string& group);

/// Reads one group of a rollout unit; `held` counts it where others are held with it.
/// Errors: FormatError, kMeaning where the datasets do not agree with one another.
[[nodiscard]] RolloutData read_rollout_data(const DumpReader& dump, const UnitReader& unit,
                                            const std::string& group, HeldBytes* held = nullptr);

/// Whether a rollout unit's group holds no samples, but what was seen of their generation.
[[nodiscard]] bool holds_events_alone(const UnitReader& unit, const std::string& group);

/// The rollout `id` of a dump, whichever unit holds it; nothing where none does.
[[nodiscard]] std::optional<RolloutData> find_rollout_data(const DumpReader& dump, int64_t id,
                                                           HeldBytes* held = nullptr);

}  // namespace rlreplay::format
