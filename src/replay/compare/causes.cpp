#include "src/replay/compare/causes.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/launch/provenance.h"
#include "src/replay/options/replay_options.h"
#include "src/replay/record/content_root.h"

namespace rlreplay::replay {
namespace {

using TextsByPath = std::map<std::string, std::string>;

constexpr size_t kShown = 60;  // columns of a value
constexpr size_t kMostOfAKind = 3;

/// Values of a JSON object by their paths: `program.revision`.
void flatten(const JsonValue& value, const std::string& path, TextsByPath& to) {
  if (!value.is_object()) {
    to[path] = value.is_string() ? value.string() : value.dump();
    return;
  }
  for (const auto& [name, member] : value.members()) {
    flatten(member, path.empty() ? std::string(name) : path + "." + std::string(name), to);
  }
}

TextsByPath flattened(const std::string& json, const char* what) {
  TextsByPath out;
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
std::string part_of(const std::string& meta, const char* key) {
  const JsonDocument document = JsonDocument::parse(meta, "meta");
  const auto value = document.root().find(key);
  return value ? value->dump() : "{}";
}

/// Calls use(name, a, b) for what differs, by name; null where one has nothing.
template <class Use>
void each_change(const TextsByPath& a, const TextsByPath& b, Use use) {
  std::set<std::string> names;
  for (const TextsByPath* texts : {&a, &b}) {
    for (const auto& [name, text] : *texts) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto x = a.find(name), y = b.find(name);
    const std::string* in_a = x == a.end() ? nullptr : &x->second;
    const std::string* in_b = y == b.end() ? nullptr : &y->second;
    if (in_a == nullptr || in_b == nullptr || *in_a != *in_b) use(name, in_a, in_b);
  }
}

void compare_texts(const std::string& kind, const TextsByPath& a, const TextsByPath& b,
                   std::vector<Cause>& to) {
  each_change(a, b, [&](const std::string& name, const auto* in_a, const auto* in_b) {
    if (is_circumstance(name)) return;
    // An import computed nothing.
    if (name == "machine.instructions" && (in_a == nullptr || in_b == nullptr)) return;
    to.push_back({kind, name + ": " + change(in_a ? *in_a : "", in_b ? *in_b : "")});
  });
}

/// Whether an option can be why two captures differ. Sampling and prompts can, too, though a replay
/// takes both from its record: of two captures neither is given.
bool can_be_cause(const std::string& name) {
  const Option* option = find_option(name);
  if (option == nullptr) return true;
  if (option->section == Section::kRecord || name == "save") return false;
  return effect_of(*option, ReplayKind::kTraining, RunOptions()) != Effect::kSpeed;
}

/// An option's text as people write it; as it stands where it is none that the option can have.
std::string readable(const std::string& name, const std::string* text) {
  if (text == nullptr) return "";
  const Option* option = find_option(name);
  RunOptions options;
  try {
    if (option != nullptr) set_option(options, *option, *text);
  } catch (const Error&) {  // kUsage, of a dump by another version: its text says enough
    option = nullptr;
  }
  return option == nullptr ? *text : written(options, *option);
}

/// Whether both or none say it; else which does not is a cause.
bool in_both(const char* key, const std::string& meta_a, const std::string& meta_b,
             std::vector<Cause>& to) {
  const bool in_a = part_of(meta_a, key) != "{}", in_b = part_of(meta_b, key) != "{}";
  if (in_a != in_b) to.push_back({key, std::string(in_a ? "B" : "A") + " records none"});
  return in_a == in_b;
}

void compare_options(const std::string& meta_a, const std::string& meta_b, std::vector<Cause>& to) {
  TextsByPath a = run_options(meta_a, "A"), b = run_options(meta_b, "B");
  if (a.empty() || b.empty()) {  // imported: what is not known differs in nothing but what counts
    a = content_options(meta_a, "A"), b = content_options(meta_b, "B");
    for (TextsByPath* texts : {&a, &b}) texts->erase("model"), texts->erase("contract");
  }
  each_change(a, b, [&](const std::string& name, const auto* in_a, const auto* in_b) {
    if (!can_be_cause(name)) return;
    to.push_back({"options", name + ": " + change(readable(name, in_a), readable(name, in_b))});
  });
}

/// The causes as lines, of each kind at most `most`, and how many more it has.
std::string listed(const std::vector<Cause>& causes, size_t most) {
  std::string out;
  for (size_t i = 0; i < causes.size();) {
    const size_t end = static_cast<size_t>(
        std::ranges::find_if(causes.begin() + static_cast<ptrdiff_t>(i), causes.end(),
                             [&](const Cause& c) { return c.kind != causes[i].kind; }) -
        causes.begin());
    const size_t shown = end - i > most ? i + most : end;
    for (size_t k = i; k < shown; ++k) {
      std::string line = k == i ? "  " + causes[k].kind : "";
      line.resize(kReportLabel + 3, ' ');
      std::string text = causes[k].text;
      if (k + 1 == shown && shown < end) text += ", and " + std::to_string(end - shown) + " more";
      out += line + wrapped(text, kLineWidth, kReportLabel + 3) + "\n";
    }
    i = end;
  }
  return out;
}

}  // namespace

std::string change(const std::string& a, const std::string& b) {
  const auto [in_a, in_b] = parting_lines(a, b, kShown);
  return (a.empty() ? "-" : in_a) + " -> " + (b.empty() ? "-" : in_b);
}

std::vector<Cause> run_causes(const format::DumpReader& a, const format::DumpReader& b) {
  std::vector<Cause> out;
  compare_options(a.meta(), b.meta(), out);
  compare_texts("program", flattened(a.unstable(), "A"), flattened(b.unstable(), "B"), out);
  if (in_both("contract", a.meta(), b.meta(), out)) {
    compare_texts("contract", flattened(part_of(a.meta(), "contract"), "A"),
                  flattened(part_of(b.meta(), "contract"), "B"), out);
  }
  if (in_both("model", a.meta(), b.meta(), out) &&
      part_of(a.meta(), "model") != part_of(b.meta(), "model")) {
    out.push_back({"model", "its shape differs"});
  }
  return out;
}

std::vector<Cause> replay_causes(const RecordedRun& record, const RunOptions& replay,
                                 const Computing& computing) {
  std::vector<Cause> out;
  const RecordedConfig recorded = record.config();
  for (std::string& line : override_lines(recorded.options, replay, ReplayKind::kTraining)) {
    out.push_back({"options", std::move(line)});
  }
  compare_texts("program", flattened(record.dump().unstable(), "unstable"),
                flattened(Provenance(computing).begun(), "this program"), out);
  compare_texts("contract", flattened(part_of(record.dump().meta(), "contract"), "contract"),
                flattened(part_of(dump_meta(replay, recorded.model), "contract"), "contract"), out);
  return out;
}

bool data_differs(const std::vector<Cause>& causes) {
  return std::ranges::find(causes, "data", &Cause::kind) != causes.end();
}

std::string causes_text(const std::vector<Cause>& causes, size_t lines) {
  if (lines == SIZE_MAX) return listed(causes, SIZE_MAX);
  for (size_t most = kMostOfAKind; most > 1; --most) {
    const std::string text = listed(causes, most);
    if (std::ranges::count(text, '\n') <= static_cast<ptrdiff_t>(lines)) return text;
  }
  return listed(causes, 1);
}

std::string causes_json(const std::vector<Cause>& causes) {
  return json_list(causes, [](const Cause& cause) {
    return JsonLine().text("kind", cause.kind).text("text", cause.text).str();
  });
}

}  // namespace rlreplay::replay
