#include "src/engine/finite.h"

#include <cmath>

#include "src/base/error.h"
#include "src/engine/transformer.h"
#include "src/events/name.h"

namespace rlreplay::engine {
namespace {

constexpr const char* kAdvice =
    "look at the weights, and at the learning rate and the norms of the steps before";

template <class T>
std::optional<NotFinite> first_in(const Event& event, const EventView& values,
                                  const RowCoordinates* coordinates) {
  for (int64_t r = 0; r < values.rows; ++r) {
    const T* row = reinterpret_cast<const T*>(values.at(r, 0));
    for (int64_t c = 0; c < values.cols; ++c) {
      if (std::isfinite(row[c])) continue;
      NotFinite out{event, 0, r, c, static_cast<double>(row[c])};
      if (coordinates != nullptr) {
        out.sample = coordinates->sample[r];
        out.position = coordinates->position[r];
      }
      return out;
    }
  }
  return std::nullopt;
}

std::optional<NotFinite> look(const Event& event, const EventView& values,
                              const RowCoordinates* coordinates) {
  if (values.dtype == DType::kF32) return first_in<float>(event, values, coordinates);
  if (values.dtype == DType::kF64) return first_in<double>(event, values, coordinates);
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& what, const FiniteWatch& watch, uint64_t sample) {
  const std::string cause =
      watch.found() ? "; the first that is not is " + to_string(*watch.found()) : "";
  throw Error(ErrorCode::kCorrupt, what + cause + ": " + kAdvice,
              "sample " + std::to_string(sample));
}

}  // namespace

std::string to_string(const NotFinite& found) {
  return to_string(found.event) + ", " + std::to_string(found.value) + " at position " +
         std::to_string(found.position) + ", column " + std::to_string(found.column);
}

bool FiniteWatch::wants(const Event& event) const {
  return !found_ || (inner_ != nullptr && inner_->wants(event));
}

void FiniteWatch::rows(const Event& event, const EventView& values,
                       const RowCoordinates& coordinates) {
  if (inner_ != nullptr && inner_->wants(event)) inner_->rows(event, values, coordinates);
  if (!found_) found_ = look(event, values, &coordinates);
}

void FiniteWatch::whole(const Event& event, const EventView& values) {
  if (inner_ != nullptr && inner_->wants(event)) inner_->whole(event, values);
  if (!found_) found_ = look(event, values, nullptr);
}

void FiniteWatch::restart() {
  if (inner_ != nullptr) inner_->restart();
}

void refuse_score(const ModelContext& context, const Sample& sample, int64_t position,
                  float temperature) {
  const Runtime& runtime = context.runtime;
  // The same forward again, watched: it comes to the same bits.
  FiniteWatch watch(runtime.sink);
  watch.restart();
  const Sample* one = &sample;
  if (runtime.ranks == nullptr) {
    static_cast<void>(score_samples(context.with({runtime.kernels, runtime.pool, &watch}),
                                    {&one, 1}, temperature));
  }
  refuse("the log-probability or the entropy of the token at position " + std::to_string(position) +
             " is not finite",
         watch, sample.id);
}

void refuse_logits(const ModelContext& context, const RowBatch& batch,
                   std::span<KvCache* const> caches, uint64_t sample, int64_t position) {
  const Runtime& runtime = context.runtime;
  FiniteWatch watch(nullptr);
  Buffer<float> hidden;
  if (runtime.ranks == nullptr) {
    transformer_forward(context.with({runtime.kernels, runtime.pool, &watch}), batch, caches,
                        hidden);
  }
  refuse("the logits for the token at position " + std::to_string(position) + " are not finite",
         watch, sample);
}

}  // namespace rlreplay::engine
