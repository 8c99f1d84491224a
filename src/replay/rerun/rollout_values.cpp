#include "src/replay/rerun/rollout_values.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "src/replay/source/demo.h"
#include "src/task/demo_task.h"
#include "src/task/reward.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::Texts;

/// A byte of a text; none behind its end.
double byte_at(std::string_view text, size_t place) {
  if (place >= text.size()) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(static_cast<unsigned char>(text[place]));
}

/// Compares two texts by their bytes; of the first that differ the texts are kept.
void take_text(StepValueDifference& to, std::string_view record, std::string_view replay,
               uint64_t sample) {
  const auto place =
      static_cast<size_t>(std::ranges::mismatch(record, replay).in1 - record.begin());
  const bool first = to.different == 0;
  to.take(byte_at(record, place), byte_at(replay, place), sample, std::nullopt);
  if (first && to.different > 0) to.texts = {std::string(record), std::string(replay)};
}

/// What the program itself brings to a run.
struct OwnTask {
  std::unique_ptr<const Tokenizer> tokenizer;  // prompts hold it
  std::unique_ptr<PromptSource> prompts;
  std::unique_ptr<Reward> reward;
};

OwnTask own_task(const RunOptions& options) {
  OwnTask out;
  if (options.model == "demo") {
    out.tokenizer = std::make_unique<const Tokenizer>(demo_tokenizer());
    if (options.prompts.empty()) {
      DemoOptions demo;
      demo.seed = static_cast<uint64_t>(options.seed);
      const auto source = open_demo(demo);
      out.prompts = source->prompts(options, *out.tokenizer);
    }
  }
  RewardOptions reward;
  reward.kind = reward_kind(options.reward);
  if (reward.kind != RewardOptions::Kind::kCommand) out.reward = make_reward(reward);
  return out;
}

class RolloutComparison {
 public:
  RolloutComparison(const RolloutData& data, const RunOptions& options,
                    const RegeneratedRollout& replay, StepValues& to)
      : data_(data),
        rows_(std::min(data.size(), replay.samples.size())),
        per_group_(static_cast<uint64_t>(std::max<int64_t>(options.n_samples_per_prompt, 1))),
        task_(own_task(options)),
        replay_(replay),
        to_(to) {}

  void groups() {
    if (!data_.group_id) return;
    StepValueDifference found{.name = "group_id"};
    for (size_t s = 0; s < rows_; ++s) {
      if (!data_.group_id->has(s)) continue;
      take(found, data_.group_id->values[s], group_of(s), s);
    }
    to_.add(std::move(found));
  }

  void masks() {
    if (!data_.loss_mask || !replay_.same_tokens) return;
    StepValueDifference found{.name = "loss_mask"};
    for (size_t s = 0; s < rows_; ++s) {
      if (!data_.loss_mask->has(s)) continue;
      const Sample& sample = replay_.samples[s];
      const uint64_t begin = data_.offsets[s] + static_cast<uint64_t>(sample.prompt_length);
      for (size_t t = 0; t < sample.loss_mask.size(); ++t) {
        found.take(data_.loss_mask->values[begin + t], sample.loss_mask[t], sample.id,
                   sample.prompt_length + static_cast<int64_t>(t));
      }
    }
    to_.add(std::move(found));
  }

  void texts() {
    add_texts("prompt_text", data_.prompt_text, task_.prompts != nullptr,
              [&](size_t s) { return task_.prompts->prompt(group_of(s)).text; });
    add_texts("label_text", data_.label_text, task_.prompts != nullptr,
              [&](size_t s) { return task_.prompts->prompt(group_of(s)).label.value_or(""); });
    if (!replay_.same_tokens) return;
    add_texts("response_text", data_.response_text, task_.tokenizer != nullptr,
              [&](size_t s) { return response(s); });
  }

  void rewards() {
    if (!data_.rewards || !replay_.same_tokens) return;
    StepValueDifference found{.name = "rewards"};
    bool all = task_.reward != nullptr;
    for (size_t s = 0; all && s < rows_; ++s) {
      if (!data_.rewards->has(s)) continue;
      const std::optional<double> replayed = reward(s);
      all = replayed.has_value();
      if (all) found.take(data_.rewards->values[s], *replayed, data_.sample_id[s], std::nullopt);
    }
    if (!all) to_.not_compared.emplace_back("rewards");
    to_.add(std::move(found));
  }

  /// Columns that a run of this program does not write.
  void others() {
    const auto name = [&](std::string_view column, bool there) {
      if (there) to_.not_compared.emplace_back(column);
    };
    name("trajectory_id", data_.trajectory_id.has_value());
    name("calls", data_.calls.has_value());
    name("roles", data_.roles.has_value());
    name("nucleus", data_.nucleus.has_value());
    name("experts", data_.experts.has_value());
    name("reward_components", data_.reward_components.has_value());
    name("removed", data_.removed.has_value());
  }

 private:
  uint64_t group_of(size_t s) const { return data_.sample_id[s] / per_group_; }

  template <class T, class U>
  void take(StepValueDifference& found, T record, U replay, size_t s) const {
    found.take(static_cast<double>(record), static_cast<double>(replay), data_.sample_id[s],
               std::nullopt);
  }

  template <class Replayed>
  void add_texts(std::string_view name, const std::optional<Texts>& record, bool known,
                 const Replayed& replayed) {
    if (!record) return;
    if (!known) {
      to_.not_compared.emplace_back(name);
      return;
    }
    StepValueDifference found{.name = std::string(name)};
    for (size_t s = 0; s < rows_; ++s) {
      if (record->has(s)) take_text(found, record->at(s), replayed(s), data_.sample_id[s]);
    }
    to_.add(std::move(found));
  }

  std::string response(size_t s) const {
    const Sample& sample = replay_.samples[s];
    const auto tokens = std::span(sample.tokens);
    return task_.tokenizer->decode(tokens.subspan(static_cast<size_t>(sample.prompt_length)),
                                   ShowSpecial::kNo);
  }

  /// Of the replay's texts, without a tokenizer or prompts of those that were recorded.
  std::optional<double> reward(size_t s) const {
    std::string said, label;
    if (task_.tokenizer) {
      said = response(s);
    } else if (data_.response_text && data_.response_text->has(s)) {
      said = data_.response_text->at(s);
    } else {
      return std::nullopt;
    }
    if (task_.prompts) {
      label = task_.prompts->prompt(group_of(s)).label.value_or("");
    } else if (data_.label_text && data_.label_text->has(s)) {
      label = data_.label_text->at(s);
    } else {
      return std::nullopt;
    }
    const RewardQuery query{.prompt = "", .response = said, .label = label, .where = "label_text"};
    try {
      return task_.reward->score({&query, 1}).front();
    } catch (const Error&) {
      return std::nullopt;  // of a label that the reward does not take
    }
  }

  const RolloutData& data_;
  const size_t rows_;
  const uint64_t per_group_;
  const OwnTask task_;
  const RegeneratedRollout& replay_;
  StepValues& to_;
};

}  // namespace

void add_rollout_values(const RolloutData& data, const RunOptions& options,
                        const RegeneratedRollout& replay, StepValues& to) {
  RolloutComparison comparison(data, options, replay, to);
  comparison.groups();
  comparison.texts();
  comparison.masks();
  comparison.rewards();
  comparison.others();
}

}  // namespace rlreplay::replay
