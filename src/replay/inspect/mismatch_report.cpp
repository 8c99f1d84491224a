#include "src/replay/inspect/mismatch_report.h"

#include <algorithm>
#include <cmath>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/inspect/token_texts.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kBar = 48;  // columns of the longest bar

std::string share(int64_t of, int64_t all) {
  if (all == 0) return "-";
  return short_number(100 * static_cast<double>(of) / static_cast<double>(all), 3) + " %";
}

std::string named(int64_t key) { return key == kSeveralVersions ? "several" : std::to_string(key); }

std::string table_of(const char* title, const std::map<int64_t, MismatchSums>& parts,
                     std::string (*name)(int64_t)) {
  const bool nonfinite =
      std::ranges::any_of(parts, [](const auto& part) { return part.second.nonfinite > 0; });
  std::vector<std::string> header = {title, "tokens", "max",   "mean",
                                     "k1",  "k3",     "ratio", "TIS clip"};
  if (nonfinite) header.emplace_back("nonfinite");
  TextTable table(header);
  for (const auto& [key, s] : parts) {
    std::vector<std::string> row = {name(key),
                                    std::to_string(s.tokens),
                                    short_number(s.measured(s.max), 3),
                                    short_number(s.mean(s.distance), 3),
                                    short_number(s.mean(s.k1), 3),
                                    short_number(s.mean(s.k3), 3),
                                    short_number(s.mean(s.weight)),
                                    share(s.clipped, s.finite())};
    if (nonfinite) row.push_back(std::to_string(s.nonfinite));
    table.add(row);
  }
  return "\n" + table.str();
}

std::string decade_range(size_t i) {
  if (i == 0) return "0";
  if (i == 1) return "below 1e-08";
  if (i + 1 == kDecades) return decade_name(i) + " and above";
  return decade_name(i) + " to " + decade_name(i + 1);
}

std::string histogram(const Mismatch& m) {
  const int64_t most = *std::ranges::max_element(m.decades);
  if (most == 0) return {};
  TextTable table({"|d|", "tokens", ""});
  for (size_t i = 0; i < kDecades; ++i) {
    const auto n = m.decades[i];
    const auto bar = static_cast<size_t>(
        std::ceil(static_cast<double>(n) * static_cast<double>(kBar) / static_cast<double>(most)));
    table.add({decade_range(i), std::to_string(n), std::string(bar, '#')});
  }
  return "\n" + table.str();
}

/// As many digits as read back: the two of a token may part in the last one.
std::string exact_number(double value) {
  return std::isfinite(value) ? shortest_of(value) : short_number(value);
}

std::string worst_tokens(const Mismatch& m, const std::optional<Tokenizer>& tokenizer) {
  if (m.worst.empty()) return {};
  TextTable table(
      {"rollout", "sample", "token", "train", "rollout's", "|d|", tokenizer ? "text" : "id"});
  for (const MismatchToken& t : m.worst) {
    table.add({std::to_string(t.rollout), std::to_string(t.sample), std::to_string(t.token),
               exact_number(t.train), exact_number(t.recorded), short_number(t.distance()),
               token_text(tokenizer, t.id)});
  }
  return "\nworst tokens\n" + table.str();
}

/// A note on samples whose two sides may be taken over different ids; empty without any.
std::string nuclei_note(const Mismatch& m) {
  if (m.without_nuclei == 0) return {};
  const std::string text =
      "note: the tokens were drawn with top-p, and of " + std::to_string(m.without_nuclei) +
      " of " + counted(m.samples, "sample") +
      " the dump does not say which ids it left: a trainer that did not know them either took its "
      "log-probabilities over all ids, the sampler over those that were left";
  return wrapped(text, kLineWidth) + "\n";
}

std::string whole(const Mismatch& m) {
  const MismatchSums& s = m.all;
  TextTable table({"forward_logp_max_diff", short_number(s.measured(s.max))});
  if (m.where) {
    table.add({"  at", "rollout " + std::to_string(m.where->rollout) + ", sample " +
                           std::to_string(m.where->sample) + ", token " +
                           std::to_string(m.where->token)});
  }
  const std::string of = std::to_string(s.tokens) + " tokens";
  table.add({"mean |d|", short_number(s.mean(s.distance))});
  table.add({"p50, p90, p99", short_number(s.measured(m.p50)) + ", " +
                                  short_number(s.measured(m.p90)) + ", " +
                                  short_number(s.measured(m.p99))});
  table.add({"other bits", std::to_string(s.different) + " of " + of});
  table.add({"not finite", std::to_string(s.nonfinite) + " of " + of +
                               (s.nonfinite > 0 ? ", in none of the numbers here" : "")});
  if (m.without > 0) {
    table.add({"without a pair", counted(m.without, "more token")});
  }
  table.add({"KL(rollout || train)", "k1 " + short_number(s.mean(s.k1)) + ", k2 " +
                                         short_number(s.mean(s.k2)) + ", k3 " +
                                         short_number(s.mean(s.k3))});
  table.add({"ratio exp(d)", "mean " + short_number(s.mean(s.weight)) + ", |ratio - 1| " +
                                 short_number(s.mean(s.weight_off))});
  table.add({"effective share", short_number(s.effective_share())});
  table.add({"TIS clip", std::to_string(s.clipped) + " tokens, " + share(s.clipped, s.finite())});
  return "train (" + m.train_column + ") against rollout, d = train - rollout\n" + table.str() +
         nuclei_note(m);
}

std::string sums_json(const MismatchSums& s, JsonLine line) {
  line.integer("tokens", s.tokens).integer("nonfinite", s.nonfinite);
  line.integer("different", s.different).number("max", s.measured(s.max));
  line.number("mean", s.mean(s.distance)).number("k1", s.mean(s.k1));
  line.number("k2", s.mean(s.k2)).number("k3", s.mean(s.k3));
  line.number("ratio", s.mean(s.weight)).number("ratio_off", s.mean(s.weight_off));
  line.number("effective_share", s.effective_share()).integer("tis_clipped", s.clipped);
  return line.str();
}

std::string parts_json(const std::map<int64_t, MismatchSums>& parts, const char* name) {
  return json_list(parts, [&](const auto& part) {
    JsonLine line;
    line.json(name, part.first == kSeveralVersions ? "null" : std::to_string(part.first));
    return sums_json(part.second, line);
  });
}

std::string token_json(const MismatchToken& t, const std::optional<Tokenizer>& tokenizer) {
  JsonLine line;
  line.integer("rollout_id", t.rollout).integer("sample", static_cast<int64_t>(t.sample));
  line.integer("token", t.token).integer("id", t.id);
  line.bits("train", t.train);
  line.bits("rollout", t.recorded);
  if (tokenizer) line.text("text", tokenizer->decode({&t.id, 1}));
  return line.str();
}

}  // namespace

std::string mismatch_text(const Mismatch& m, const std::optional<Tokenizer>& tokenizer) {
  std::string out = whole(m) + histogram(m);
  out += table_of("position", m.by_position, bucket_name);
  if (m.by_length.size() > 1) out += table_of("length", m.by_length, bucket_name);
  if (!m.by_version.empty()) out += table_of("version", m.by_version, named);
  if (m.by_rollout.size() > 1) out += table_of("rollout", m.by_rollout, named);
  return out + worst_tokens(m, tokenizer);
}

std::string mismatch_json(const Mismatch& m, const std::optional<Tokenizer>& tokenizer) {
  JsonLine line;
  line.text("schema", "rlreplay.mismatch/1").text("train", m.train_column);
  line.json("where", m.where ? token_json(*m.where, tokenizer) : "null");
  line.number("p50", m.all.measured(m.p50));
  line.number("p90", m.all.measured(m.p90)).number("p99", m.all.measured(m.p99));
  line.integer("without", m.without).integer("without_nuclei", m.without_nuclei);
  m.incomplete.empty() ? line.null("incomplete") : line.text("incomplete", m.incomplete);
  std::string decades;
  for (size_t i = 0; i < kDecades; ++i) {
    decades += (i == 0 ? "" : ",") + JsonLine()
                                         .json("from", i < 2 ? "0" : decade_name(i))
                                         .json("to", i == 0              ? "0"
                                                     : i + 1 == kDecades ? "null"
                                                                         : decade_name(i + 1))
                                         .integer("tokens", m.decades[i])
                                         .str();
  }
  const auto worst =
      json_list(m.worst, [&](const MismatchToken& t) { return token_json(t, tokenizer); });
  line.json("histogram", "[" + decades + "]").json("worst", worst);
  line.json("by_rollout", parts_json(m.by_rollout, "rollout_id"));
  line.json("by_position", parts_json(m.by_position, "from"));
  line.json("by_length", parts_json(m.by_length, "from"));
  line.json("by_version", parts_json(m.by_version, "version"));
  return sums_json(m.all, line);
}

}  // namespace rlreplay::replay
