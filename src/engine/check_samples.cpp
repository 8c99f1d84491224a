#include "src/engine/check_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/draw_tokens.h"
#include "src/base/error.h"
#include "src/base/number_text.h"

namespace rlreplay::engine {
namespace {

std::string name(uint64_t sample) { return "sample " + std::to_string(sample); }

void check_ids(const ModelConfig& model, uint64_t sample, std::span<const int32_t> tokens) {
  const auto bad =
      std::ranges::find_if(tokens, [&](int32_t id) { return id < 0 || id >= model.vocab; });
  if (bad == tokens.end()) return;
  throw Error(ErrorCode::kCorrupt,
              "token id " + std::to_string(*bad) + " at position " +
                  std::to_string(bad - tokens.begin()) +
                  " is not in the model's vocabulary, whose ids end at " +
                  std::to_string(model.vocab - 1) + ": is this the model that wrote it?",
              name(sample));
}

/// The ids that top-p left, which index the logits.
void check_nuclei(const ModelConfig& model, const Sample& s) {
  const Nuclei& n = *s.nuclei;
  const bool cut = std::ssize(n.offsets) == s.response_length() + 1 && n.offsets.front() == 0 &&
                   n.offsets.back() == n.ids.size() && std::ranges::is_sorted(n.offsets);
  if (!cut) {
    throw Error(ErrorCode::kUsage,
                "the " + std::to_string(n.ids.size()) + " ids that top-p kept have " +
                    std::to_string(n.offsets.size()) + " offsets; " +
                    std::to_string(s.response_length() + 1) +
                    " are expected, which ascend from 0 to the number of ids",
                name(s.id));
  }
  const auto bad =
      std::ranges::find_if(n.ids, [&](int32_t id) { return id < 0 || id >= model.vocab; });
  if (bad == n.ids.end()) return;
  throw Error(ErrorCode::kCorrupt,
              "token id " + std::to_string(*bad) +
                  " among those that top-p kept is not in the model's vocabulary, whose ids end "
                  "at " +
                  std::to_string(model.vocab - 1) + ": is this the model that wrote it?",
              name(s.id));
}

void check_options(const RolloutConfig& config) {
  const SamplingConfig& s = config.sampling;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (config.max_response < 1 || config.max_response > kMost || config.slots < 1) {
    throw Error(ErrorCode::kUsage, "the longest response is " +
                                       std::to_string(config.max_response) + " and there are " +
                                       std::to_string(config.slots) +
                                       " slots: a rollout needs a length from 1 to " +
                                       std::to_string(kMost) + " and at least 1 slot");
  }
  if (!(s.temperature >= 0) || std::isinf(s.temperature)) {
    throw Error(ErrorCode::kUsage, "the temperature is " + shortest(s.temperature) +
                                       "; it must be 0 or a positive number");
  }
  if (s.top_k < 0 || !(s.top_p > 0 && s.top_p <= 1)) {
    throw Error(ErrorCode::kUsage, "top-k is " + std::to_string(s.top_k) + " and top-p " +
                                       shortest(s.top_p) +
                                       "; top-k must be at least 0 and top-p above 0, at most 1");
  }
}

}  // namespace

void check_sample(const ModelConfig& model, const Sample& s) {
  if (s.prompt_length < 1 || s.response_length() < 0) {
    throw Error(ErrorCode::kUsage,
                "the prompt has " + std::to_string(s.prompt_length) + " of the sample's " +
                    std::to_string(s.tokens.size()) +
                    " tokens; it needs at least 1 and at most all of them",
                name(s.id));
  }
  if (std::ssize(s.tokens) > model.max_positions) {
    throw Error(ErrorCode::kCorrupt,
                "the sample has " + std::to_string(s.tokens.size()) + " tokens and the model " +
                    std::to_string(model.max_positions) +
                    " positions: is this the model that wrote it?",
                name(s.id));
  }
  check_ids(model, s.id, s.tokens);
  if (s.nuclei) check_nuclei(model, s);
}

void check_samples(const ModelConfig& model, std::span<const Sample> samples) {
  for (const Sample& s : samples) check_sample(model, s);
}

void check_requests(const ModelConfig& model, std::span<const Request> requests,
                    const RolloutConfig& config) {
  check_options(config);
  for (const Request& r : requests) {
    if (r.prompt.empty() || std::ssize(r.prompt) >= model.max_positions) {
      throw Error(ErrorCode::kUsage,
                  "the prompt has " + std::to_string(r.prompt.size()) +
                      " tokens; it needs at least 1 and fewer than the model's " +
                      std::to_string(model.max_positions) + " positions",
                  name(r.id));
    }
    if (r.id >= kernels::kSampleIds) {
      throw Error(ErrorCode::kUsage, "a sample that is generated needs an id below 2^56, not this",
                  name(r.id));
    }
    check_ids(model, r.id, r.prompt);
  }
}

}  // namespace rlreplay::engine
