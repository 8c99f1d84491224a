#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/rerun/replay.h"

namespace rlreplay::replay {

/// `EVENT:INDEX`, as Injection has them.
struct ElementQuestion {
  engine::StepEvent at;
  int64_t index = 0;
};

/// Reads `EVENT:INDEX`. Errors: kUsage.
[[nodiscard]] ElementQuestion parse_element(std::string_view text);

/// What an element was computed from.
struct ElementInput {
  std::string event;            // of a weight or moment as the step found it: its name
  std::string reach;            // which of its rows: "its row", "rows up to it", ...
  std::optional<double> value;  // where it is one number, or the number at the same place
};

/// What one token, or one of its heads, gives to a gradient's element: the product of its factors.
struct TokenPart {
  int64_t position = 0;
  std::vector<double> factors;  // binary32 numbers
  double product = 0;           // in binary64
};

/// What a leaf gives to a gradient's element; of the output head, what a whole sample gives.
struct LeafPart {
  uint64_t sample = 0;
  std::optional<int64_t> leaf;
  int64_t sum = 0;                // in units of 2^-S
  std::vector<TokenPart> tokens;  // none of a whole sample
  double products = 0;            // theirs, a chain in binary64
  double rest = 0;                // what roundings have left of the sum beside them
};

/// Where a number of a step comes from.
struct ElementOrigin {
  ElementQuestion question;
  std::string place;    // "sample 3, token 5, column 2", "row 1, column 7"
  std::string formula;  // of the operation
  std::optional<double> value;
  std::vector<ElementInput> inputs;
  // Of a gradient alone
  std::optional<int64_t> sum;
  int scale = 0;
  std::vector<std::string> factors;  // what stands in TokenPart::factors
  std::vector<LeafPart> parts;
  // The step that was taken again
  bool identical = false;
  int64_t events = 0;

  [[nodiscard]] bool is_gradient() const { return sum.has_value(); }
  /// Whether the parts are the sum, to the last integer.
  [[nodiscard]] bool adds_up() const;
  /// Whether the step gave its record and, of a gradient, the parts the sum.
  [[nodiscard]] bool holds() const { return identical && (!is_gradient() || adds_up()); }
};

/// Takes the step again from its recorded state and follows the element back. `options`: the
/// record's, in one rank. Errors: kUsage for an element that the step has not; kIncomplete without
/// the state before the step.
[[nodiscard]] ElementOrigin find_origin(const RecordedRun& record, const RunOptions& options,
                                        const ElementQuestion& question, Trainer& trainer,
                                        ThreadPool& pool);

/// An element's origin for people, 80 columns wide. `all`: every leaf, and the tokens of each.
[[nodiscard]] std::string origin_text(const ElementOrigin& origin, bool all);

/// One line: rlreplay.why/1.
[[nodiscard]] std::string origin_json(const ElementOrigin& origin, const std::string& dump);

}  // namespace rlreplay::replay
