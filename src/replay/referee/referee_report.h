#pragma once

#include <functional>
#include <span>
#include <string>

#include "src/replay/referee/referee.h"

namespace rlreplay::replay {

/// What a report says besides the verdict.
struct RefereeSetting {
  std::string dump, model;
  double temperature = 1;
  std::string again;  // the command that gives the report
};

/// Ids as text; of a model without a tokenizer, "#17".
using TokenText = std::function<std::string(std::span<const int32_t> ids)>;

/// Tables of at most 100 columns.
[[nodiscard]] std::string referee_text(const RefereeSetting& setting, const RefereeCase& given,
                                       const RefereeVerdict& verdict, const TokenText& text);

/// One object, rlreplay.referee/1.
[[nodiscard]] std::string referee_json(const RefereeSetting& setting, const RefereeCase& given,
                                       const RefereeVerdict& verdict, const TokenText& text);

}  // namespace rlreplay::replay
