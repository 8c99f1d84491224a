#include "src/replay/referee/referee_report.h"

#include <algorithm>
#include <numeric>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kSamples = 12;  // lines of the table of samples
constexpr int64_t kContext = 6;  // tokens before one that is shown

std::string number(double x) { return short_number(x, 3); }

std::string log_prob(const std::optional<float>& x) {
  return x ? formatted("%.5f", static_cast<double>(*x)) : "-";
}

std::string mean_of(const std::optional<Distances>& d) { return d ? number(d->mean) : "-"; }
std::string max_of(const std::optional<Distances>& d) { return d ? number(d->max) : "-"; }

std::string count(size_t n, const std::string& word) {
  return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
}

std::span<const int32_t> context(const Sample& s, int64_t token) {
  const int64_t begin = std::max<int64_t>(0, token - kContext);
  return std::span(s.tokens).subspan(static_cast<size_t>(begin),
                                     static_cast<size_t>(token - begin));
}

/// The report for people; each section appends to `out_`.
class Text {
 public:
  Text(const RefereeSetting& setting, const RefereeCase& given, const RefereeVerdict& verdict,
       const TokenText& text)
      : setting_(setting), given_(given), verdict_(verdict), text_(text) {}

  std::string str() {
    head();
    sides();
    verdict();
    positions();
    samples();
    worst();
    return out_ + "\n" + setting_.again + "\n";
  }

 private:
  void head() {
    out_ += "referee: " + setting_.model + " in binary32, temperature " +
            number(setting_.temperature) + "\njudged: " + count(given_.samples.size(), "sample") +
            ", " + count(verdict_.tokens.size(), "response token");
    if (given_.version) out_ += ", weight version " + std::to_string(*given_.version);
    out_ += "\n";
    const auto left_out = [&](int64_t n, const std::string& why) {
      if (n > 0) out_ += "left out: " + count(static_cast<size_t>(n), "sample") + " " + why + "\n";
    };
    left_out(given_.other_version, "of other weight versions");
    left_out(given_.beyond_max_tokens, "beyond --max-tokens");
    out_ += "\n";
  }

  void sides() {
    TextTable table({"distance to the referee", "mean", "p50", "p99", "max", "bias", "in noise"});
    const auto add = [&](const std::string& name, const Distances& d, const std::string& ratio) {
      table.add({name, number(d.mean), number(d.p50), number(d.p99), number(d.max), number(d.bias),
                 ratio});
    };
    for (const Side side : kSides) {
      const auto i = static_cast<size_t>(side);
      const std::optional<Distances>& d = verdict_.all.side[i];
      if (!d) {
        table.add({name(side), "not recorded"});
        continue;
      }
      const std::optional<double> ratio = verdict_.noise_ratio[i];
      add(name(side), *d, ratio ? number(*ratio) : "-");
      if (d->nonfinite > 0) {
        table.add({"  of it not finite: " + std::to_string(d->nonfinite)});
      }
    }
    add("noise of bfloat16", verdict_.all.noise, "1");
    out_ += table.str() + "\n";
  }

  bool foreign() const {
    const auto& sides = verdict_.all.side;
    return std::ranges::any_of(sides, [](const auto& d) { return d.has_value(); }) &&
           std::ranges::all_of(sides, [](const auto& d) { return !d || d->mean > kForeignModel; });
  }

  void verdict() {
    if (foreign()) {
      out_ +=
          "all that is recorded lies farther than " + number(kForeignModel) +
          " from the evaluation on average: is this the model that wrote it, at these weights?\n";
    }
    if (verdict_.all.nearer == Nearer::kEqual) out_ += "both sides are equally near\n";
    if (verdict_.all.nearer == Nearer::kTrain || verdict_.all.nearer == Nearer::kRollout) {
      out_ += "nearer: " + name(verdict_.all.nearer) + "\n";
    }
    for (const Side side : kSides) {
      const auto i = static_cast<size_t>(side);
      if (!verdict_.all.side[i]) continue;
      out_ +=
          name(side) + (verdict_.beyond_noise[i] ? ": farther than the noise of bfloat16 explains\n"
                                                 : ": within the noise of bfloat16\n");
      if (verdict_.shifted[i]) {
        out_ += name(side) + " fits the token " + (*verdict_.shifted[i] < 0 ? "before" : "after") +
                " better: off by one?\n";
      }
      broken(side);
    }
  }

  /// Samples that a mean over all would drown.
  void broken(Side side) {
    const std::vector<size_t>& of = verdict_.broken[static_cast<size_t>(side)];
    for (size_t k = 0; k < std::min(of.size(), kSamples); ++k) {
      const size_t i = of[k];
      const Distances& d = *verdict_.samples[i].side[static_cast<size_t>(side)];
      const auto first = std::ranges::find(verdict_.tokens, i, &JudgedToken::sample);
      out_ +=
          wrapped(
              name(side) + ": sample " + std::to_string(given_.samples[i].id) + " of rollout " +
                  std::to_string(given_.rollouts[i]) + " is off as a whole, unlike most: " +
                  (d.nonfinite == d.tokens ? "none is finite" : number(d.p50) + " in the median") +
                  " of " + count(static_cast<size_t>(d.tokens), "token") + ", from token " +
                  std::to_string(first->token) + " on",
              kLineWidth, 2) +
          "\n";
    }
    if (of.size() > kSamples) {
      out_ += "and " + count(of.size() - kSamples, "more sample") + " (--json lists them)\n";
    }
  }

  void positions() {
    if (verdict_.positions.empty()) return;
    TextTable table({"response tokens", "judged", "noise", "train", "rollout", "nearer"});
    for (const auto& p : verdict_.positions) {
      table.add({std::to_string(p.first) + ".." + std::to_string(p.last),
                 std::to_string(p.row.tokens), number(p.row.noise.mean), mean_of(p.row.side[0]),
                 mean_of(p.row.side[1]), name(p.row.nearer)});
    }
    out_ += "\nmean distances by position\n" + table.str();
  }

  void samples() {
    std::vector<size_t> order(verdict_.samples.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto farthest = [&](size_t i) {
      double out = 0;
      for (const auto& d : verdict_.samples[i].side) out = std::max(out, d ? d->mean : 0);
      return out;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return farthest(a) > farthest(b); });
    TextTable table(
        {"sample", "rollout", "judged", "noise", "train", "max", "rollout", "max", "nearer"});
    for (size_t k = 0; k < std::min(order.size(), kSamples); ++k) {
      const RefereeRow& row = verdict_.samples[order[k]];
      table.add({std::to_string(given_.samples[order[k]].id),
                 std::to_string(given_.rollouts[order[k]]), std::to_string(row.tokens),
                 number(row.noise.mean), mean_of(row.side[0]), max_of(row.side[0]),
                 mean_of(row.side[1]), max_of(row.side[1]), name(row.nearer)});
    }
    out_ += "\nmean distances by sample, the farthest first\n" + table.str();
  }

  void worst() {
    TextTable table({"sample", "token", "referee", "bfloat16", "train", "rollout", "text"});
    for (const size_t i : verdict_.worst) {
      const JudgedToken& t = verdict_.tokens[i];
      const Sample& s = given_.samples[t.sample];
      const int32_t id = s.tokens[static_cast<size_t>(t.token)];
      const std::string text = text_(context(s, t.token)) + "[" + text_({&id, 1}) + "]";
      table.add({std::to_string(s.id), std::to_string(t.token), log_prob(t.referee),
                 log_prob(t.rounded), log_prob(t.side[0]), log_prob(t.side[1]),
                 one_line(text, 36)});
    }
    out_ += "\nworst tokens\n" + table.str();
  }

  const RefereeSetting& setting_;
  const RefereeCase& given_;
  const RefereeVerdict& verdict_;
  const TokenText& text_;
  std::string out_;
};

/// The verdict as one JSON object. Keys are the same for every verdict: what was not recorded or
/// not measured is null.
class Json {
 public:
  Json(const RefereeSetting& setting, const RefereeCase& given, const RefereeVerdict& verdict,
       const TokenText& text)
      : setting_(setting), given_(given), verdict_(verdict), text_(text) {}

  std::string str() const {
    JsonLine out;
    out.text("schema", "rlreplay.referee/1");
    out.text("dump", setting_.dump).text("model", setting_.model);
    given_.version ? out.integer("weights_version", *given_.version) : out.null("weights_version");
    out.number("temperature", setting_.temperature);
    out.integer("samples_judged", size(given_.samples))
        .integer("tokens_judged", size(verdict_.tokens));
    out.integer("samples_of_other_versions", given_.other_version);
    out.integer("samples_beyond_max_tokens", given_.beyond_max_tokens);
    out.text("nearer", name(verdict_.all.nearer));
    out.boolean("finding", verdict_.finding());
    out.json("noise", distances(verdict_.all.noise));
    for (const Side side : kSides) out.json(name(side), side_json(side));
    out.json("positions", list(verdict_.positions, [&](const auto& p) {
               JsonLine line;
               line.integer("first", p.first).integer("last", p.last);
               return row(line, p.row);
             }));
    std::vector<size_t> indices(given_.samples.size());
    std::iota(indices.begin(), indices.end(), size_t{0});
    out.json("samples", list(indices, [&](size_t i) {
               JsonLine line;
               line.integer("sample", static_cast<int64_t>(given_.samples[i].id));
               line.integer("rollout_id", given_.rollouts[i]);
               return row(line, verdict_.samples[i]);
             }));
    out.json("worst", list(verdict_.worst, [&](size_t i) { return token(verdict_.tokens[i]); }));
    out.text("reproduce", setting_.again);
    return out.str();
  }

 private:
  template <class T>
  static int64_t size(const std::vector<T>& v) {
    return static_cast<int64_t>(v.size());
  }

  template <class Items, class Make>
  static std::string list(const Items& items, const Make& make) {
    std::string out = "[";
    for (const auto& item : items) out += (out.size() == 1 ? "" : ",") + make(item);
    return out + "]";
  }

  JsonLine distances_line(const Distances& d) const {
    JsonLine out;
    out.number("max", d.max).number("mean", d.mean).number("p50", d.p50).number("p99", d.p99);
    out.number("bias", d.bias).integer("tokens", d.tokens).integer("nonfinite", d.nonfinite);
    if (!d.where) return std::move(out.null("where"));
    const JudgedToken& t = verdict_.tokens[*d.where];
    JsonLine where;
    where.integer("sample", static_cast<int64_t>(given_.samples[t.sample].id));
    where.integer("token", t.token);
    return std::move(out.json("where", where.str()));
  }
  std::string distances(const Distances& d) const { return distances_line(d).str(); }

  std::string side_json(Side side) const {
    const auto i = static_cast<size_t>(side);
    if (!verdict_.all.side[i]) return "null";
    JsonLine out = distances_line(*verdict_.all.side[i]);
    out.number("noise_ratio", verdict_.noise_ratio[i]);
    out.boolean("beyond_noise", verdict_.beyond_noise[i]);
    verdict_.shifted[i] ? out.integer("shifted", *verdict_.shifted[i]) : out.null("shifted");
    const auto id = [&](size_t k) { return std::to_string(given_.samples[k].id); };
    return out.json("broken_samples", json_list(verdict_.broken[i], id)).str();
  }

  std::string row(JsonLine& line, const RefereeRow& r) const {
    line.integer("tokens", r.tokens)
        .text("nearer", name(r.nearer))
        .json("noise", distances(r.noise));
    for (const Side side : kSides) {
      const auto& d = r.side[static_cast<size_t>(side)];
      line.json(name(side), d ? distances(*d) : "null");
    }
    return line.str();
  }

  std::string token(const JudgedToken& t) const {
    const Sample& s = given_.samples[t.sample];
    const int32_t id = s.tokens[static_cast<size_t>(t.token)];
    const auto value = [](std::optional<float> x) {
      return x ? std::optional<double>(*x) : std::nullopt;
    };
    JsonLine out;
    out.integer("sample", static_cast<int64_t>(s.id)).integer("token", t.token).integer("id", id);
    out.text("context", text_(context(s, t.token))).text("text", text_({&id, 1}));
    out.number("referee", t.referee).number("rounded", t.rounded);
    out.number("train", value(t.side[0])).number("rollout", value(t.side[1]));
    return out.str();
  }

  const RefereeSetting& setting_;
  const RefereeCase& given_;
  const RefereeVerdict& verdict_;
  const TokenText& text_;
};

}  // namespace

std::string referee_text(const RefereeSetting& setting, const RefereeCase& given,
                         const RefereeVerdict& verdict, const TokenText& text) {
  return Text(setting, given, verdict, text).str();
}

std::string referee_json(const RefereeSetting& setting, const RefereeCase& given,
                         const RefereeVerdict& verdict, const TokenText& text) {
  return Json(setting, given, verdict, text).str();
}

}  // namespace rlreplay::replay
