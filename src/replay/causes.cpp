#include "src/replay/causes.h"

#include <algorithm>
#include <map>

#include "format/rollout_data.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/same_value.h"
#include "src/base/shortest.h"
#include "src/base/wrap.h"
#include "src/replay/provenance.h"
#include "src/replay/recorded_step.h"
#include "src/replay/replay_options.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kLabel = 11;

std::string change(const std::string& a, const std::string& b) { return a + " -> " + b; }

/// Values of a JSON object by their paths: `program.revision`.
void flatten(const JsonValue& value, const std::string& path,
             std::map<std::string, std::string>& to) {
  if (!value.is_object()) {
    to[path] = value.is_string() ? value.string() : value.dump();
    return;
  }
  for (const auto& [name, member] : value.members()) {
    flatten(member, path.empty() ? std::string(name) : path + "." + std::string(name), to);
  }
}

std::map<std::string, std::string> flattened(const std::string& json, const char* what) {
  std::map<std::string, std::string> out;
  const JsonDocument document = JsonDocument::parse(json, what);
  flatten(document.root(), "", out);
  return out;
}

/// What cannot change a number: when, by which words and as whom it ran.
bool is_circumstance(std::string_view path) {
  constexpr std::string_view kLeftOut[] = {"command", "began", "ended", "machine.host",
                                           "machine.system"};
  return std::ranges::find(kLeftOut, path) != std::end(kLeftOut);
}

/// `meta` in parts: what it says of one key, as JSON.
std::string part_of(const std::string& meta, const char* key, const std::string& where) {
  const JsonDocument document = JsonDocument::parse(meta, where);
  const auto value = document.root().find(key);
  return value ? value->dump() : "{}";
}

void compare_maps(const std::string& kind, const std::map<std::string, std::string>& a,
                  const std::map<std::string, std::string>& b, std::vector<Cause>& to) {
  for (const auto& [path, value] : b) {
    const auto before = a.find(path);
    const std::string was = before == a.end() ? "-" : before->second;
    if (was != value && !is_circumstance(path))
      to.push_back({kind, path + ": " + change(was, value)});
  }
  for (const auto& [path, value] : a) {
    if (!b.contains(path) && !is_circumstance(path))
      to.push_back({kind, path + ": " + change(value, "-")});
  }
}

std::optional<RunOptions> options_of(const RecordedRun& run) {
  if (imported_from(run.dump().meta(), run.path())) return std::nullopt;
  return run.config().options;
}

void compare_options(const RecordedRun& a, const RecordedRun& b, std::vector<Cause>& to) {
  const auto in_a = options_of(a), in_b = options_of(b);
  if (!in_a || !in_b) return;
  // Of two captures the sampling and the prompts count, too: none of them is given by a record.
  for (const Option& option : option_table()) {
    if (option.section == Section::kRecord || option.name == "save") continue;
    if (effect_of(option, ReplayKind::kTraining, *in_b) == Effect::kSpeed) continue;
    if (option_text(*in_a, option) == option_text(*in_b, option)) continue;
    to.push_back({"options", std::string(option.name) + ": " +
                                 change(written(*in_a, option), written(*in_b, option))});
  }
}

/// The states before the first step that both have.
void compare_states(const RecordedRun& a, const RecordedRun& b, std::vector<Cause>& to) {
  for (const StepId& step : a.states()) {
    if (!b.has_state(step)) continue;
    const auto in_a = a.dump().find("weights", step.group());
    const auto in_b = b.dump().find("weights", step.group());
    const bool same = std::ranges::equal(
        in_a, in_b, [](const auto* x, const auto* y) { return x->content == y->content; });
    if (!same) to.push_back({"state", "the weights before step " + step.name() + " differ"});
    return;
  }
}

std::string place(int64_t rollout, uint64_t sample) {
  return "rollout " + std::to_string(rollout) + ", sample " + std::to_string(sample);
}

/// The first place in which data of two rollouts differ, one of each kind.
class DataComparison {
 public:
  DataComparison(int64_t rollout, std::vector<Cause>& to) : rollout_(rollout), to_(to) {}

  /// Returns whether anything differs.
  bool compare(const RecordedRollout& a, const RecordedRollout& b) {
    const size_t before = to_.size();
    if (a.samples.size() != b.samples.size()) {
      add("rollout " + std::to_string(rollout_) + " has " +
          change(std::to_string(a.samples.size()), std::to_string(b.samples.size())) + " samples");
      return true;
    }
    tokens(a, b);
    numbers("rewards", a, b, &RecordedFields::reward,
            [](const engine::Sample& s) { return s.reward; });
    numbers("groups", a, b, &RecordedFields::group,
            [](const engine::Sample& s) { return static_cast<double>(s.group); });
    masks(a, b);
    return to_.size() > before;
  }

  void advantages(const RecordedStep& a, const RecordedStep& b) {
    if (!a.advantages || !b.advantages || a.samples.size() != b.samples.size()) return;
    for (size_t i = 0; i < a.samples.size(); ++i) {
      const auto &x = (*a.advantages)[i], &y = (*b.advantages)[i];
      for (size_t t = 0; t < std::min(x.size(), y.size()); ++t) {
        if (same_value(x[t], y[t])) continue;
        return add("advantages: step " + a.id.name() + ", sample " +
                   std::to_string(a.samples[i].id) + ": " + change(shortest(x[t]), shortest(y[t])));
      }
    }
  }

 private:
  void add(const std::string& text) { to_.push_back({"data", text}); }

  void tokens(const RecordedRollout& a, const RecordedRollout& b) {
    bool prompts = true, responses = true;
    for (size_t i = 0; i < a.samples.size(); ++i) {
      const engine::Sample &x = a.samples[i], &y = b.samples[i];
      const auto common = std::ranges::mismatch(x.tokens, y.tokens);
      const auto at = common.in1 - x.tokens.begin();
      const bool same = x.tokens == y.tokens && x.prompt_length == y.prompt_length;
      if (same) continue;
      const bool in_prompt =
          at < std::min(x.prompt_length, y.prompt_length) || x.prompt_length != y.prompt_length;
      bool& first = in_prompt ? prompts : responses;
      if (first) {
        add(std::string(in_prompt ? "prompts: " : "tokens: ") + place(rollout_, x.id) +
            ", from token " + std::to_string(at) + " on");
      }
      first = false;
    }
  }

  template <class Get>
  void numbers(const char* name, const RecordedRollout& a, const RecordedRollout& b,
               bool RecordedFields::*field, Get get) {
    for (size_t i = 0; i < a.samples.size(); ++i) {
      if (!(a.fields[i].*field) || !(b.fields[i].*field)) continue;
      const double x = get(a.samples[i]), y = get(b.samples[i]);
      if (same_value(x, y)) continue;
      return add(std::string(name) + ": " + place(rollout_, a.samples[i].id) + ": " +
                 change(shortest_of(x), shortest_of(y)));
    }
  }

  void masks(const RecordedRollout& a, const RecordedRollout& b) {
    for (size_t i = 0; i < a.samples.size(); ++i) {
      const auto &x = a.samples[i].loss_mask, &y = b.samples[i].loss_mask;
      if (x.size() != y.size() || x == y) continue;
      const auto at = std::ranges::mismatch(x, y).in1 - x.begin();
      return add("masks: " + place(rollout_, a.samples[i].id) + ", token " +
                 std::to_string(a.samples[i].prompt_length + at));
    }
  }

  const int64_t rollout_;
  std::vector<Cause>& to_;
};

bool same_rollout_content(const RecordedRun& a, const RecordedRun& b, int64_t rollout) {
  const auto in_a = a.dump().find("rollout", std::to_string(rollout));
  const auto in_b = b.dump().find("rollout", std::to_string(rollout));
  return std::ranges::equal(in_a, in_b,
                            [](const auto* x, const auto* y) { return x->content == y->content; });
}

void compare_data(const RecordedRun& a, const RecordedRun& b, const StepId& until,
                  std::vector<Cause>& to) {
  for (const int64_t rollout : a.rollouts()) {
    if (rollout > until.rollout || !std::ranges::binary_search(b.rollouts(), rollout)) continue;
    if (rollout < until.rollout && same_rollout_content(a, b, rollout)) continue;
    const RecordedRollout in_a = read_recorded_rollout(a, rollout);
    const RecordedRollout in_b = read_recorded_rollout(b, rollout);
    DataComparison data(rollout, to);
    const bool differs = data.compare(in_a, in_b);
    for (size_t i = 0; i < std::min(in_a.steps.size(), in_b.steps.size()); ++i) {
      if (in_a.steps[i].id == until && in_b.steps[i].id == until) {
        data.advantages(in_a.steps[i], in_b.steps[i]);
      }
    }
    if (differs) return;
  }
}

}  // namespace

std::vector<Cause> find_causes(const RecordedRun& a, const RecordedRun& b, const StepId& until) {
  std::vector<Cause> out;
  compare_options(a, b, out);
  compare_maps("program", flattened(a.dump().unstable(), "unstable"),
               flattened(b.dump().unstable(), "unstable"), out);
  for (const char* key : {"contract", "model"}) {
    const std::string in_a = part_of(a.dump().meta(), key, a.path());
    const std::string in_b = part_of(b.dump().meta(), key, b.path());
    if (key == std::string("model")) {
      if (in_a != in_b) out.push_back({"model", "its shape differs"});
      continue;
    }
    compare_maps(key, flattened(in_a, key), flattened(in_b, key), out);
  }
  compare_states(a, b, out);
  compare_data(a, b, until, out);
  return out;
}

std::vector<Cause> find_causes(const RecordedRun& record, const RunOptions& replay) {
  std::vector<Cause> out;
  const RunOptions recorded = record.config().options;
  for (std::string& line : override_lines(recorded, replay, ReplayKind::kTraining)) {
    out.push_back({"options", std::move(line)});
  }
  compare_maps("program", flattened(record.dump().unstable(), "unstable"),
               flattened(Provenance(replay.kernels).begun(), "this program"), out);
  compare_maps(
      "contract", flattened(part_of(record.dump().meta(), "contract", record.path()), "contract"),
      flattened(part_of(dump_meta(replay, record.config().model), "contract", "meta"), "contract"),
      out);
  return out;
}

bool data_differs(const std::vector<Cause>& causes) {
  return std::ranges::find(causes, "data", &Cause::kind) != causes.end();
}

std::string causes_text(const std::vector<Cause>& causes, size_t most) {
  std::string out, kind;
  size_t of_kind = 0, left_out = 0;
  const auto close = [&] {
    if (left_out > 0) {
      out += std::string(kLabel + 3, ' ') + "and " + std::to_string(left_out) + " more\n";
    }
    of_kind = left_out = 0;
  };
  for (const Cause& cause : causes) {
    const bool fresh = cause.kind != kind;
    if (fresh) close();
    kind = cause.kind;
    if (of_kind++ >= most) {
      ++left_out;
      continue;
    }
    std::string line = fresh ? "  " + kind : "";
    line.resize(kLabel + 3, ' ');
    out += line + wrapped(cause.text, kColumns, kLabel + 3) + "\n";
  }
  close();
  return out;
}

std::string causes_json(const std::vector<Cause>& causes) {
  std::string out;
  for (const Cause& cause : causes) {
    out += (out.empty() ? "" : ",") +
           JsonLine().text("kind", cause.kind).text("text", cause.text).str();
  }
  return "[" + out + "]";
}

}  // namespace rlreplay::replay
