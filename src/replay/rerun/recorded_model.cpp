#include "src/base/error.h"
#include "src/replay/rerun/replay.h"

namespace rlreplay::replay {
namespace {

/// What a dump says of its model; the run's tokenizer and prompts are not in it.
class RecordedModel : public ModelSource {
 public:
  RecordedModel(const RecordedRun& record, std::optional<StepId> state)
      : record_(record), config_(record.config().model), state_(state) {
    if (!state_ && !record.states().empty()) state_ = record.states().front();
  }

  const ModelConfig& config() const override { return config_; }

  void load(const engine::Runtime&, const ParameterTable& parameters,
            std::span<float> weights) const override {
    if (state_) return record_.load_weights(*state_, parameters, weights);
    throw Error(ErrorCode::kIncomplete,
                "the dump holds no weights: capture with --weights first or all", record_.path());
  }

  Tokenizer tokenizer() const override { absent("tokenizer"); }
  ChatTemplate chat_template() const override { absent("chat template"); }
  std::unique_ptr<PromptSource> prompts(const RunOptions&, const Tokenizer&) const override {
    absent("prompts");
  }
  void save(const ParameterTable&, std::span<const float>, const std::string&) const override {
    absent("tokenizer to save with the weights");
  }

 private:
  [[noreturn]] void absent(const std::string& what) const {
    throw Error(ErrorCode::kIncomplete, "a dump holds no " + what, record_.path());
  }

  const RecordedRun& record_;
  ModelConfig config_;
  std::optional<StepId> state_;
};

}  // namespace

std::unique_ptr<ModelSource> recorded_model(const RecordedRun& record,
                                            std::optional<StepId> state) {
  return std::make_unique<RecordedModel>(record, state);
}

}  // namespace rlreplay::replay
