#include "src/replay/record/dump_meta.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "format/canonical.h"
#include "format/foreign/checkpoint_config.h"
#include "format/foreign/framework.h"
#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/layout.h"
#include "src/base/text_table.h"
#include "src/replay/launch/recorded_command.h"
#include "src/replay/options/config_file.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShown = 60;  // columns of a text that is quoted

std::string config_object(const RunOptions& options) {
  format::JsonObject out;
  for (const Option& option : option_table()) {
    out.text(std::string(option.name), recorded_text(options, option));
  }
  return out.str();
}

std::string contract_object() {
  format::JsonObject out;
  out.text("version", kContractVersion).text("profile", "fp32");
  out.number("leaf", static_cast<uint64_t>(kernels::kTokenLeaf));
  return out.str();
}

/// The options of a run that there was: whatever is wrong with them is wrong with the dump.
RunOptions read_options(const std::string& config, const std::string& where) {
  RunOptions out;
  const std::vector<Setting> settings = parse_options_json(config, where);
  for (const auto& [name, text] : settings) {
    if (find_option(name) != nullptr) continue;
    throw Error(ErrorCode::kUnsupported,
                "the dump was made with the option --" + one_line(name, kShown) +
                    ", which this version does not know: a newer one can replay it",
                where);
  }
  try {
    apply_settings(out, settings);
    check_options(out);
    check_batches(out);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    throw Error(ErrorCode::kCorrupt,
                std::string("no run can have the options of the dump: ") + error.what(), where);
  }
  return out;
}

/// The first key, of either object, whose value differs: with `prefix` before it.
std::string object_difference(const JsonValue& written, const JsonValue& now,
                              const std::string& prefix) {
  std::set<std::string_view> keys;
  for (const auto& [key, value] : written.members()) keys.insert(key);
  for (const auto& [key, value] : now.members()) keys.insert(key);
  for (const std::string_view key : keys) {
    const std::string name = prefix + std::string(key);
    const auto a = written.find(key), b = now.find(key);
    if (a && b && a->is_object() && b->is_object()) {
      if (auto inner = object_difference(*a, *b, name + "."); !inner.empty()) return inner;
      continue;
    }
    const std::string was = a ? a->dump() : "nothing", is = b ? b->dump() : "nothing";
    if (was != is) return name + " " + was + " (now " + is + ")";
  }
  return "";
}

}  // namespace

std::string dump_meta(const RunOptions& options, const ModelConfig& model,
                      const std::string& part) {
  format::JsonObject out;
  out.number("ranks", static_cast<uint64_t>(parse_layout(options.layout).ranks()));
  out.json("config", config_object(options));
  out.text("model", foreign::config_json(model));
  out.json("contract", contract_object());
  out.text("kernels", options.kernels).text("layout", options.layout);
  out.text("device", options.device);
  if (!part.empty()) out.text("part", part);
  return out.str();
}

std::string meta_difference(const std::string& written, const std::string& now) {
  const JsonDocument a = JsonDocument::parse(written, "meta"), b = JsonDocument::parse(now, "meta");
  const JsonValue was = a.root(), is = b.root();
  if (was["model"].string() != is["model"].string()) {
    const JsonDocument old_model = JsonDocument::parse(was["model"].string(), "meta");
    const JsonDocument new_model = JsonDocument::parse(is["model"].string(), "meta");
    return object_difference(old_model.root(), new_model.root(), "model.");
  }
  return object_difference(was, is, "");
}

RecordedConfig read_dump_meta(const std::string& meta, const std::string& where) {
  const JsonDocument document = JsonDocument::parse(meta, where);
  const JsonValue root = document.root();
  const auto config = root.find("config"), model = root.find("model");
  if (!config || !model || !model->is_string()) {
    throw Error(ErrorCode::kUnsupported,
                "the dump does not say with which options and which model it was made: a dump of "
                "`rlreplay capture` can be replayed",
                where);
  }
  RecordedConfig out;
  out.options = read_options(config->dump(), where);
  out.model = foreign::parse_model_config(model->string(), where);
  if (const auto part = root.find("part")) out.part = part->string();
  return out;
}

std::optional<std::string> imported_from(const std::string& meta, const std::string& where) {
  const JsonDocument document = JsonDocument::parse(meta, where);
  const auto source = document.root().find("source");
  if (!source) return std::nullopt;
  const auto vendor = source->is_object() ? source->find("imported") : std::nullopt;
  const std::string name(vendor && vendor->is_string() ? vendor->string() : "");
  // "unknown": files of which none is a framework's.
  if (name == "jsonl" || std::ranges::count(foreign::kFrameworkNames, name) > 0) return name;
  throw Error(ErrorCode::kCorrupt,
              "`source` does not say of what the dump was imported: slime, miles, relax or jsonl",
              where);
}

}  // namespace rlreplay::replay
