#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/safetensors_file.h"
#include "src/base/model_config.h"
#include "src/base/parameters.h"
#include "src/engine/runtime.h"
#include "src/engine/streamed_score.h"
#include "src/replay/source/prompt_source.h"
#include "src/task/chat.h"
#include "src/task/tokenizer.h"

namespace rlreplay::replay {

/// Where a model comes from: a checkpoint's folder, or the program itself ("demo").
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  virtual const ModelConfig& config() const = 0;
  /// Fills the weights, in the flat storage's order.
  /// Errors: kCorrupt for a NaN or an infinity, naming tensor and index.
  virtual void load(const engine::Runtime& runtime, const ParameterTable& parameters,
                    std::span<float> weights) const = 0;
  /// Gives the weights a tensor or a few rows at a time, while this source lives. A source that
  /// cannot do that loads everything first. Errors: as load, for what is read.
  virtual engine::WeightReader reader(const engine::Runtime& runtime) const;
  virtual Tokenizer tokenizer() const = 0;
  /// The template by which prompts of messages become text.
  /// Errors: kIncomplete where there is no chat template, kUnsupported where it is not known.
  virtual ChatTemplate chat_template() const = 0;
  /// The prompts of a run: those of --prompts unless the model brings its own.
  virtual std::unique_ptr<PromptSource> prompts(const RunOptions& options,
                                                const Tokenizer& tokenizer) const = 0;
  /// Writes weights as a checkpoint with this source's configuration and tokenizer.
  virtual void save(const ParameterTable& parameters, std::span<const float> weights,
                    const std::string& folder) const = 0;
};

/// A checkpoint's folder. Errors: those of foreign::Checkpoint::open.
[[nodiscard]] std::unique_ptr<ModelSource> open_checkpoint(const std::string& folder);

/// The model that --model names: `demo`, of the seed's initial weights, or a checkpoint's folder.
/// Errors: kUsage for none, else as open_checkpoint.
[[nodiscard]] std::unique_ptr<ModelSource> find_model(const std::string& name, int64_t seed);

/// Weights, in the flat storage's order, as tensors of a checkpoint that view them.
[[nodiscard]] std::vector<foreign::StoredTensor> stored_tensors(const ParameterTable& parameters,
                                                                std::span<const float> weights);

}  // namespace rlreplay::replay
