#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <span>
#include <string>

#include "format/rollout_data.h"
#include "src/base/terminal.h"
#include "src/replay/inspect/show_sample.h"

namespace rlreplay::replay {
namespace {

// Log-probabilities of 0.5, 0.1 and 0.01.
constexpr double kLikely = -0.693, kUnlikely = -2.303, kRare = -4.605;

/// The colour of a token by its log-probability; nothing for a likely one, shown uncoloured.
std::optional<Colour> colour_of(double log_prob) {
  if (!(log_prob < kLikely))
    return std::isnan(log_prob) ? std::optional(Colour::kRed) : std::nullopt;
  if (log_prob >= kUnlikely) return Colour::kGreen;
  return log_prob >= kRare ? Colour::kYellow : Colour::kRed;
}

std::string painted(const std::string& text, std::optional<Colour> colour) {
  const std::string shown = terminal_text(text);
  return colour && !shown.empty() ? coloured(shown, *colour, stdout) : shown;
}

std::string legend() {
  return "log-probability: -0.693 and above, " + painted("to -2.303", Colour::kGreen) + ", " +
         painted("to -4.605", Colour::kYellow) + ", " +
         painted("below, or not a number", Colour::kRed) + "\n";
}

struct Found {
  format::RolloutData data;
  size_t row = 0;
};

/// The first rollout that has the sample, or the one that was asked for.
std::optional<Found> find(const format::DumpReader& dump, const ShowOptions& options) {
  for (const format::UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) != "rollout") continue;
    for (const std::string& group : record.groups) {
      if (options.rollout && std::to_string(*options.rollout) != group) continue;
      const format::UnitReader unit = dump.open_unit(record);
      if (holds_events_alone(unit, group)) continue;
      Found found{read_rollout_data(dump, unit, group), 0};
      const auto at = std::ranges::find(found.data.sample_id, *options.sample);
      if (at == found.data.sample_id.end()) continue;
      found.row = static_cast<size_t>(at - found.data.sample_id.begin());
      return found;
    }
  }
  return std::nullopt;
}

std::string painted_response(const Found& found, const Tokenizer& tokenizer) {
  const format::RolloutData& data = found.data;
  const uint64_t begin = data.offsets[found.row] + (*data.prompt_length)[found.row];
  StreamDecoder decoder(tokenizer);
  std::string out;
  for (uint64_t t = begin; t < data.offsets[found.row + 1]; ++t) {
    out += painted(decoder.push(data.tokens[t]), colour_of(data.log_probs->at(t)));
  }
  return out + decoder.finish();
}

std::string prompt(const Found& found, const Tokenizer& tokenizer) {
  const format::RolloutData& data = found.data;
  if (data.prompt_text && data.prompt_text->has(found.row)) {
    return std::string(data.prompt_text->at(found.row));
  }
  return tokenizer.decode(
      std::span(data.tokens).subspan(data.offsets[found.row], (*data.prompt_length)[found.row]));
}

}  // namespace

void print_sample_text(const format::DumpReader& dump, const ShowOptions& options,
                       const std::optional<Tokenizer>& tokenizer, std::ostream& out) {
  if (!takes_colours(stdout) || !tokenizer) return show_dump(dump, options, out);
  const std::optional<Found> found = find(dump, options);
  if (!found || !found->data.prompt_length || !found->data.log_probs ||
      !found->data.log_probs->has(found->row)) {
    return show_dump(dump, options, out);
  }
  out << terminal_text(prompt(*found, *tokenizer)) << "\n---\n"
      << painted_response(*found, *tokenizer) << "\n\n"
      << legend();
}

}  // namespace rlreplay::replay
