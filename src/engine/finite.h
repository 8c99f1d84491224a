#pragma once

#include <optional>
#include <span>
#include <string>

#include "src/base/sample.h"
#include "src/engine/kv_cache.h"
#include "src/engine/model_context.h"
#include "src/engine/row_batch.h"
#include "src/events/events.h"

/// Where a number that is not finite comes from. Nothing here runs unless there is one: then the
/// computation is done once more under a sink that looks.
namespace rlreplay::engine {

/// The first value that is not finite, in the order in which a step computes.
struct NotFinite {
  Event event;
  uint64_t sample = 0;  // of a tensor with a row per token
  int64_t position = 0;
  int64_t column = 0;
  double value = 0;
};

/// `forward/1/swiglu/y, inf at position 10, column 33`.
[[nodiscard]] std::string to_string(const NotFinite& found);

/// Looks for the first value that is not finite, and then at nothing more.
class FiniteWatch : public EventSink {
 public:
  /// `inner` sees before what it wants, and may change it; null where there is none.
  explicit FiniteWatch(EventSink* inner) : inner_(inner) {}

  const std::optional<NotFinite>& found() const { return found_; }

  [[nodiscard]] bool wants(const Event& event) const override;
  void rows(const Event& event, const EventView& values,
            const RowCoordinates& coordinates) override;
  void whole(const Event& event, const EventView& values) override;
  void restart() override;

 private:
  EventSink* inner_;
  std::optional<NotFinite> found_;
};

/// Refuses a log-probability or an entropy of a sample that is not finite, naming what in the
/// forward of the sample was the first, unless ranks share the model: then somebody with all of it
/// finds that. Errors: kCorrupt, always.
[[noreturn]] void refuse_score(const ModelContext& context, const Sample& sample, int64_t position,
                               float temperature);

/// Refuses the logits from which a token was to be drawn, as refuse_score does; `batch` is the rows
/// of the forward that led to them, which is done again. Errors: kCorrupt, always.
[[noreturn]] void refuse_logits(const ModelContext& context, const RowBatch& batch,
                                std::span<KvCache* const> caches, uint64_t sample,
                                int64_t position);

}  // namespace rlreplay::engine
