#include "src/engine/streamed_score.h"

#include <algorithm>
#include <optional>

#include "src/engine/bfloat16.h"
#include "src/engine/check_samples.h"
#include "src/engine/stage.h"
#include "src/engine/transformer.h"

namespace rlreplay::engine {
namespace {

using kernels::KernelSet;
using kernels::Matrix;
using kernels::Range;

int64_t length(const Sample& s) { return static_cast<int64_t>(s.tokens.size()); }

/// Consecutive samples with at most `tokens` tokens together, or one that alone has more.
std::vector<Range> cut(std::span<const Sample> samples, Range all, int64_t tokens) {
  std::vector<Range> out;
  int64_t held = 0;
  for (int64_t i = all.begin; i < all.end; ++i) {
    const int64_t n = length(samples[static_cast<size_t>(i)]);
    if (out.empty() || held + n > tokens) {
      out.push_back({i, i});
      held = 0;
    }
    out.back().end = i + 1;
    held += n;
  }
  return out;
}

int64_t largest(std::span<const Sample> samples, const std::vector<Range>& parts) {
  int64_t out = 0;
  for (const Range& part : parts) {
    int64_t tokens = 0;
    for (int64_t i = part.begin; i < part.end; ++i)
      tokens += length(samples[static_cast<size_t>(i)]);
    out = std::max(out, tokens);
  }
  return out;
}

/// The shape of a model that is one layer of `config` and has next to no vocabulary.
ModelConfig one_layer(ModelConfig config) {
  config.layers = 1;
  config.vocab = 8;
  config.tied = true;
  return config;
}

/// The shape of its final norm and head alone.
ModelConfig head_alone(ModelConfig config) {
  config.layers = 0;
  config.tied = true;
  return config;
}

/// Rounds what an operation leaves, before anything reads it. Statistics that programs in bfloat16
/// keep in binary32 stay as they are.
class RoundingSink : public EventSink {
 public:
  bool wants(const Event& event) const override {
    return event.tensor != "r" && event.tensor != "q_r" && event.tensor != "k_r" &&
           event.tensor != "lse";
  }
  void rows(const Event&, const EventView& v, const RowCoordinates&) override {
    if (v.dtype != DType::kF32) return;
    round_elements(Matrix<float>(reinterpret_cast<float*>(v.data), v.rows, v.cols, v.stride));
  }
  void whole(const Event&, const EventView&) override {}
  void restart() override {}
};

/// Samples that are inside a layer together, and the first row of theirs in the block.
struct Part {
  std::span<const Sample> samples;
  RowBatch batch;
  int64_t first = 0;
};

/// Scores samples block by block with the weights of one layer in memory: all samples of a block
/// pass a layer before the next one is read, and x_ is the residual stream between layers. Where it
/// is asked for, rounded_x_ passes the same layers with every result rounded to bfloat16.
class Stream {
 public:
  Stream(const Runtime& runtime, const ModelConfig& config, const WeightReader& read,
         std::span<const Sample> samples, const StreamOptions& options, const StreamPlan& plan,
         const std::function<void(int64_t)>& progress)
      : runtime_{runtime.kernels, runtime.pool, nullptr},
        rounding_{runtime.kernels, runtime.pool, &sink_},
        config_(config),
        names_(make_parameters(config)),
        read_(read),
        samples_(samples),
        options_(options),
        plan_(plan),
        progress_(progress) {
    int64_t longest = 1;
    for (const Sample& s : samples) longest = std::max(longest, length(s));
    rotary_.emplace(make_rotary_table(config, options.rope, longest, runtime.pool));
  }

  StreamedScores finish() {
    for (const Range& block : plan_.blocks) {
      begin(block);
      {
        Model layer(one_layer(config_));
        for (int64_t l = 0; l < config_.layers; ++l) pass(layer, l);
      }
      head();
    }
    return std::move(out_);
  }

 private:
  void begin(Range block) {
    parts_.clear();
    int64_t rows = 0;
    for (const Range& range : cut(samples_, block, plan_.micro_batch_tokens)) {
      Part part;
      part.samples =
          samples_.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
      std::vector<Chunk> chunks;
      for (const Sample& s : part.samples) chunks.push_back({s.id, 0, s.tokens});
      part.batch = make_row_batch(chunks, 0);
      part.first = rows;
      rows += part.batch.rows();
      parts_.push_back(std::move(part));
    }
    embed(rows);
  }

  void embed(int64_t rows) {
    const int64_t C = config_.hidden;
    x_.resize(static_cast<size_t>(rows * C));
    const Parameter& table = names_[names_.embedding];
    for (const Part& part : parts_) {
      float* to = x_.data() + part.first * C;
      for (const int32_t id : part.batch.ids) {
        read_(table, {id, id + 1}, {to, static_cast<size_t>(C)});
        to += C;
      }
    }
    if (!options_.rounded) return;
    rounded_x_.resize(x_.size());
    std::copy_n(x_.data(), x_.size(), rounded_x_.data());
    round_elements(Matrix<float>(rounded_x_.data(), rows, C));
  }

  /// The weights of a layer, read and packed, in a model of one.
  void load_layer(Model& model, int64_t layer) {
    const LayerParameters& from = names_.layers[static_cast<size_t>(layer)];
    const LayerParameters& to = model.parameters().layers[0];
    for (const auto field : kLayerParameters) {
      if (from.*field < 0) continue;
      load_into(model, names_[from.*field], model.parameters()[to.*field]);
    }
    model.pack(runtime_, PackedFor::kForward);
  }

  void load_into(Model& model, const Parameter& from, const Parameter& to) {
    read_(from, {0, from.rows},
          {model.weights().data() + to.offset, static_cast<size_t>(to.size())});
  }

  /// Rounds weights to bfloat16 and packs them, unless all of them are bfloat16 already.
  void round_and_pack(Model& model) {
    const auto size = static_cast<int64_t>(model.weights().size());
    if (round_to_bfloat16(Matrix<float>(model.weights().data(), 1, size)) > 0) {
      model.pack(runtime_, PackedFor::kForward);
    }
  }

  void pass(Model& model, int64_t layer) {
    load_layer(model, layer);
    forward(runtime_, model, x_);
    if (options_.rounded) {
      round_and_pack(model);
      forward(rounding_, model, rounded_x_);
    }
    step();
  }

  void forward(const Runtime& runtime, const Model& model, Buffer<float>& x) {
    const int64_t C = config_.hidden;
    for (const Part& part : parts_) {
      const int64_t T = part.batch.rows();
      const auto size = static_cast<size_t>(T * C);
      activations_.resize(model, T, T);
      activations_.x.resize(size);
      float* rows = x.data() + part.first * C;
      std::copy_n(rows, size, activations_.x.data());
      layer_forward({runtime, model, view(*rotary_)}, 0, part.batch, {}, activations_,
                    {rows, T, C});
    }
  }

  void head() {
    Model model(head_alone(config_));
    const ParameterTable& to = model.parameters();
    load_into(model, names_[names_.final_norm], to[to.final_norm]);
    load_into(model, names_[names_.head], to[to.head]);
    model.pack(runtime_, PackedFor::kForward);
    score(model, x_, Logits::kBinary32, out_.exact);
    if (options_.rounded) {
      round_and_pack(model);
      score(model, rounded_x_, Logits::kBfloat16, out_.rounded);
    }
    step();
  }

  void score(const Model& model, Buffer<float>& x, Logits logits, std::vector<Scores>& out) {
    const int64_t C = config_.hidden;
    for (const Part& part : parts_) {
      const int64_t T = part.batch.rows();
      Buffer<float> hidden(static_cast<size_t>(T * C)), r(static_cast<size_t>(T));
      const Matrix<float> h{hidden.data(), T, C};
      runtime_.run(&KernelSet::rms_norm, {.x = Matrix<const float>(x.data() + part.first * C, T, C),
                                          .w = model.weight(model.parameters().final_norm),
                                          .eps = static_cast<float>(config_.norm_eps),
                                          .y = h,
                                          .r = r.data()});
      if (logits == Logits::kBfloat16) round_elements(h);
      const ScoredRows rows =
          rows_to_score(pointers_to(part.samples), part.batch, kernels::kTokenLeaf);
      append_scores(part.samples,
                    head_forward(runtime_, model, h, rows, options_.temperature, logits), out);
    }
  }

  void step() {
    if (progress_) progress_(++passes_);
  }

  RoundingSink sink_;
  const Runtime runtime_, rounding_;
  const ModelConfig& config_;
  const ParameterTable names_;
  const WeightReader& read_;
  std::span<const Sample> samples_;
  const StreamOptions& options_;
  const StreamPlan& plan_;
  const std::function<void(int64_t)>& progress_;
  std::optional<kernels::RotaryTable> rotary_;
  std::vector<Part> parts_;
  Buffer<float> x_, rounded_x_;
  LayerActivations activations_;
  int64_t passes_ = 0;
  StreamedScores out_;
};

}  // namespace

StreamPlan plan_stream(const ModelConfig& config, std::span<const Sample> samples,
                       const StreamOptions& options) {
  StreamPlan out;
  const Range all{0, static_cast<int64_t>(samples.size())};
  const int64_t token_bytes =
      config.hidden * static_cast<int64_t>(sizeof(float)) * (options.rounded ? 2 : 1);
  out.blocks = cut(samples, all, std::max<int64_t>(1, options.block_bytes / token_bytes));
  out.block_tokens = largest(samples, out.blocks);
  out.micro_batch_tokens = std::max(largest(samples, cut(samples, all, 1)),
                                    std::min(options.micro_batch_tokens, out.block_tokens));
  out.nuclei = std::ranges::any_of(samples, [](const Sample& s) { return s.nuclei.has_value(); });
  out.passes = static_cast<int64_t>(out.blocks.size()) * (config.layers + 1);
  return out;
}

StreamedScores score_streamed(const Runtime& runtime, const ModelConfig& config,
                              const WeightReader& read, std::span<const Sample> samples,
                              const StreamOptions& options, const StreamPlan& plan,
                              const std::function<void(int64_t)>& progress) {
  check_samples(config, samples);
  return Stream(runtime, config, read, samples, options, plan, progress).finish();
}

}  // namespace rlreplay::engine
