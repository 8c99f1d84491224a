#include <filesystem>

#include "format/foreign/checkpoint.h"
#include "format/foreign/float_values.h"
#include "src/base/error.h"
#include "src/replay/source/model_source.h"
#include "src/replay/source/prompt_source.h"

namespace rlreplay::replay {
namespace {

/// Rows of a tensor, where they lie.
foreign::StoredTensor rows_of(const foreign::StoredTensor& tensor, const Parameter& p,
                              kernels::Range rows) {
  const size_t row = tensor.data.size() / static_cast<size_t>(p.rows);
  foreign::StoredTensor out = tensor;
  out.shape = {rows.size(), p.cols};
  out.data = tensor.data.subspan(static_cast<size_t>(rows.begin) * row,
                                 static_cast<size_t>(rows.size()) * row);
  return out;
}

class CheckpointSource : public ModelSource {
 public:
  explicit CheckpointSource(const std::string& folder)
      : checkpoint_(foreign::Checkpoint::open(folder)) {}

  const ModelConfig& config() const override { return checkpoint_.config(); }

  void load(const engine::Runtime&, const ParameterTable& parameters,
            std::span<float> weights) const override {
    checkpoint_.check_finite();
    for (const Parameter& p : parameters.list) {
      foreign::to_float(checkpoint_.tensor(p.name), weights.subspan(static_cast<size_t>(p.offset),
                                                                    static_cast<size_t>(p.size())));
    }
    checkpoint_.check_unchanged();
  }

  engine::WeightReader reader(const engine::Runtime&) const override {
    return [this](const Parameter& p, kernels::Range rows, std::span<float> out) {
      const foreign::StoredTensor part = rows_of(checkpoint_.tensor(p.name), p, rows);
      if (foreign::first_nonfinite(part)) checkpoint_.check_finite();  // says where
      foreign::to_float(part, out);
      checkpoint_.check_unchanged();
    };
  }

  Tokenizer tokenizer() const override {
    const std::string path = checkpoint_.folder() + "/tokenizer.json";
    if (!std::filesystem::exists(path)) {
      throw Error(ErrorCode::kIncomplete, "the checkpoint has no tokenizer.json", path);
    }
    return Tokenizer::read(path);
  }

  ChatTemplate chat_template() const override { return ChatTemplate::read(checkpoint_.folder()); }

  std::unique_ptr<PromptSource> prompts(const RunOptions& options,
                                        const Tokenizer& tokenizer) const override {
    return read_prompt_source(options, config(), tokenizer, [&] { return chat_template(); });
  }

  void save(const ParameterTable& parameters, std::span<const float> weights,
            const std::string& folder) const override {
    foreign::write_checkpoint(folder, checkpoint_.folder(), stored_tensors(parameters, weights));
  }

 private:
  foreign::Checkpoint checkpoint_;
};

}  // namespace

std::unique_ptr<ModelSource> open_checkpoint(const std::string& folder) {
  return std::make_unique<CheckpointSource>(folder);
}

}  // namespace rlreplay::replay
