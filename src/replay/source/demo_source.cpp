#include <algorithm>
#include <array>
#include <string>

#include "format/foreign/checkpoint.h"
#include "src/base/error.h"
#include "src/replay/source/demo.h"
#include "src/replay/source/model_source.h"
#include "src/replay/source/prompt_source.h"

namespace rlreplay::replay {
namespace {

class DemoPrompts : public PromptSource {
 public:
  DemoPrompts(const DemoTask& task, const Tokenizer& tokenizer)
      : task_(task), tokenizer_(&tokenizer) {}

  TaskPrompt prompt(uint64_t index) const override {
    const Prompt problem = demo_prompt(task_, index);
    PromptEncoding encoding;
    encoding.tokenizer = tokenizer_;
    encoding.add_special = AddSpecial::kYes;
    return {encode_prompt(problem, encoding), std::get<std::string>(problem.input), problem.label,
            problem.where};
  }
  int64_t longest() const override { return demo_config().max_positions; }

 private:
  DemoTask task_;
  const Tokenizer* tokenizer_;
};

class DemoSource : public ModelSource {
 public:
  DemoSource(const DemoOptions& options, DemoProgress progress)
      : options_(options), progress_(std::move(progress)), config_(demo_config()) {}

  const ModelConfig& config() const override { return config_; }

  void load(const engine::Runtime& runtime, const ParameterTable&,
            std::span<float> weights) const override {
    engine::Model made = make_demo(runtime, options_, progress_);
    std::copy_n(made.weights().data(), made.weights().size(), weights.begin());
  }

  Tokenizer tokenizer() const override { return demo_tokenizer(); }

  ChatTemplate chat_template() const override {
    throw Error(ErrorCode::kIncomplete, "the demo has no chat template: give it plain text",
                "demo");
  }

  std::unique_ptr<PromptSource> prompts(const RunOptions& options,
                                        const Tokenizer& tokenizer) const override {
    if (!options.prompts.empty()) {
      return read_prompt_source(options, config(), tokenizer, [&] { return chat_template(); });
    }
    return std::make_unique<DemoPrompts>(demo_task(options_.seed), tokenizer);
  }

  void save(const ParameterTable& parameters, std::span<const float> weights,
            const std::string& folder) const override {
    const std::array<foreign::CheckpointFile, 2> files{
        {{"config.json", foreign::config_json(config_)},
         {"tokenizer.json", demo_tokenizer_json()}}};
    foreign::write_checkpoint(folder, files, stored_tensors(parameters, weights));
  }

 private:
  DemoOptions options_;
  DemoProgress progress_;
  ModelConfig config_;
};

}  // namespace

std::unique_ptr<ModelSource> open_demo(const DemoOptions& options, DemoProgress progress) {
  return std::make_unique<DemoSource>(options, std::move(progress));
}

}  // namespace rlreplay::replay
