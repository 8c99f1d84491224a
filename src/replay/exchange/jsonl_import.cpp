#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <set>

#include "src/base/words.h"
#include "src/replay/exchange/jsonl.h"

namespace rlreplay::replay {
namespace {

using format::Column;
using format::Finish;
using format::Presence;
using format::RolloutData;
using format::Texts;
using format::TokenFloats;
using format::TrainData;

/// One line with what its columns need to know of it.
struct Row {
  JsonDocument document;
  uint64_t length = 0;  // tokens
  uint64_t prompt = 0;
  mutable std::set<std::string, std::less<>> asked = {};  // keys that somebody reads
  JsonValue root() const { return document.root(); }
  std::optional<JsonValue> find(std::string_view key) const {
    asked.emplace(key);
    return root().find(key);
  }
};

/// A key that nothing reads is a mistake, and would be lost without a word.
void check_keys(JsonValue object, const std::set<std::string, std::less<>>& read) {
  for (const auto& [key, value] : object.members()) {
    if (read.contains(key)) continue;
    const auto meant = nearest(key, std::vector<std::string>(read.begin(), read.end()));
    throw object.error("there is no key \"" + std::string(key) + "\"" +
                       (meant ? ", did you mean \"" + *meant + "\"?"
                              : ": rlreplay import --help names those that are read"));
  }
}

/// Of a line, whose place has keys of its own.
void check_line(JsonValue root, std::set<std::string, std::less<>> read) {
  read.insert({"schema", "rollout_id", "sample_id", "step_id", "rank", "columns", "wide"});
  check_keys(root, read);
}

/// A number, or the text of its bits.
double real(JsonValue value, bool wide) {
  if (!value.is_string()) return value.number();
  const std::string& text = value.string();
  uint64_t bits = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  const size_t digits = wide ? 16 : 8;
  const bool sound = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!sound || text.size() != digits) throw value.error("expected a number or its bits in hex");
  if (wide) return std::bit_cast<double>(bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}

/// Whether every row has the key, or some, or none: nothing for none, an empty mask for all.
std::optional<Presence> presence_of(const std::vector<Row>& rows, std::string_view key) {
  Presence mask;
  for (const Row& row : rows) mask.push_back(row.find(key) ? 1 : 0);
  const auto count = std::count(mask.begin(), mask.end(), 1);
  if (count == 0) return std::nullopt;
  if (static_cast<size_t>(count) == mask.size()) mask.clear();
  return mask;
}

/// A key that every line of a rollout or step has, or none.
bool all_or_none(const std::vector<Row>& rows, std::string_view key) {
  const std::optional<Presence> mask = presence_of(rows, key);
  if (!mask) return false;
  if (mask->empty()) return true;
  const auto missing = std::find(mask->begin(), mask->end(), 0) - mask->begin();
  throw rows[static_cast<size_t>(missing)].root().error(
      "'" + std::string(key) + "' is missing here, and other lines have it");
}

bool is_wide(const std::vector<Row>& rows, std::string_view key) {
  for (const Row& row : rows) {
    const auto names = row.find("wide");
    for (size_t i = 0; names && i < names->size(); ++i) {
      if (names->at(i).string() == key) return true;
    }
  }
  return false;
}

/// Values of the response, behind as many zeros as the prompt has tokens.
template <class T, class Read>
void add_response(const Row& row, std::string_view key, std::vector<T>& values, Read read) {
  const std::optional<JsonValue> list = row.find(key);
  const uint64_t wanted = row.length - row.prompt;
  if (list && list->size() != wanted) {
    throw list->error("it has " + std::to_string(list->size()) + " values, the response has " +
                      std::to_string(wanted) + " tokens");
  }
  values.resize(values.size() + row.prompt);
  for (uint64_t i = 0; i < wanted; ++i) values.push_back(list ? read(list->at(i)) : T());
}

std::optional<TokenFloats> floats(const std::vector<Row>& rows, std::string_view key) {
  std::optional<Presence> presence = presence_of(rows, key);
  if (!presence) return std::nullopt;
  TokenFloats made;
  made.presence = std::move(*presence);
  const bool wide = is_wide(rows, key);
  for (const Row& row : rows) {
    if (wide) {
      add_response(row, key, made.wide, [](JsonValue v) { return real(v, true); });
    } else {
      add_response(row, key, made.narrow,
                   [](JsonValue v) { return static_cast<float>(real(v, false)); });
    }
  }
  return made;
}

std::optional<Column<uint8_t>> mask(const std::vector<Row>& rows) {
  std::optional<Presence> presence = presence_of(rows, "loss_mask");
  if (!presence) return std::nullopt;
  Column<uint8_t> made;
  made.presence = std::move(*presence);
  for (const Row& row : rows) {
    add_response(row, "loss_mask", made.values,
                 [](JsonValue v) { return static_cast<uint8_t>(v.integer(0, 1)); });
  }
  return made;
}

template <class T, class Read>
std::optional<Column<T>> column(const std::vector<Row>& rows, std::string_view key, Read read) {
  std::optional<Presence> presence = presence_of(rows, key);
  if (!presence) return std::nullopt;
  Column<T> made;
  made.presence = std::move(*presence);
  for (const Row& row : rows) {
    const auto value = row.find(key);
    made.values.push_back(value ? read(*value) : T());
  }
  return made;
}

std::optional<std::vector<uint32_t>> counts(const std::vector<Row>& rows, std::string_view key) {
  if (!all_or_none(rows, key)) return std::nullopt;
  std::vector<uint32_t> made;
  for (const Row& row : rows) {
    made.push_back(static_cast<uint32_t>(row.root()[key].integer(0, UINT32_MAX)));
  }
  return made;
}

std::optional<Texts> texts(const std::vector<Row>& rows, std::string_view key) {
  std::optional<Presence> presence = presence_of(rows, key);
  if (!presence) return std::nullopt;
  Texts made;
  made.presence = std::move(*presence);
  for (const Row& row : rows) {
    const auto value = row.find(key);
    made.add(value ? std::string_view(value->string()) : std::string_view());
  }
  return made;
}

std::vector<int32_t> tokens(const std::vector<Row>& rows) {
  std::vector<int32_t> made;
  for (const Row& row : rows) {
    const JsonValue list = row.root()["tokens"];
    for (size_t i = 0; i < list.size(); ++i) {
      made.push_back(static_cast<int32_t>(list.at(i).integer(0, INT32_MAX)));
    }
  }
  return made;
}

uint64_t id_of(JsonValue value) { return static_cast<uint64_t>(value.integer(0, INT64_MAX)); }

std::vector<uint64_t> ids_and_offsets(const std::vector<Row>& rows,
                                      std::vector<uint64_t>& offsets) {
  std::vector<uint64_t> ids;
  for (const Row& row : rows) {
    ids.push_back(id_of(row.root()["sample_id"]));
    offsets.push_back(offsets.back() + row.length);
  }
  return ids;
}

/// The names of an object's members, in the order of `columns` beside it where there is one.
std::vector<std::string> names_of(JsonValue root, JsonValue object) {
  std::vector<std::string> names;
  if (const auto columns = root.find("columns")) {
    for (size_t i = 0; i < columns->size(); ++i) {
      if (std::ranges::count(names, columns->at(i).string()) > 0) {
        throw columns->at(i).error("`columns` names \"" + columns->at(i).string() + "\" twice");
      }
      names.push_back(columns->at(i).string());
    }
  } else {
    for (const auto& [name, number] : object.members()) names.emplace_back(name);
  }
  for (const std::string& name : names) {
    if (name.empty() || name.find('\n') != name.npos) {
      throw object.error("the name \"" + name + "\" is empty or has a line end: no dump holds it");
    }
  }
  if (names.size() != object.members().size()) {
    throw object.error("its members are not those that `columns` names");
  }
  return names;
}

/// Every line has the names of the first one.
std::optional<format::NamedColumns> components(const std::vector<Row>& rows) {
  std::optional<Presence> presence = presence_of(rows, "reward_components");
  if (!presence) return std::nullopt;
  format::NamedColumns made;
  for (const Row& row : rows) {
    const auto value = row.find("reward_components");
    if (!value) continue;
    const std::vector<std::string> names = names_of(row.root(), *value);
    if (made.names.empty()) made.names = names;
    if (names.size() != made.names.size()) {
      throw value->error("its members are not those of the rollout's first line that has them");
    }
  }
  for (const Row& row : rows) {
    const auto value = row.find("reward_components");
    for (const std::string& name : made.names) {
      made.values.push_back(value ? real((*value)[name], true) : 0);
    }
  }
  made.presence = std::move(*presence);
  return made;
}

std::optional<std::vector<Finish>> finish(const std::vector<Row>& rows) {
  if (!all_or_none(rows, "finish")) return std::nullopt;
  constexpr std::string_view kNames[] = {"stop", "length", "aborted", "failed", "unknown"};
  constexpr Finish kCodes[] = {Finish::kStop, Finish::kLength, Finish::kAborted, Finish::kFailed,
                               Finish::kUnknown};
  std::vector<Finish> made;
  for (const Row& row : rows) {
    const JsonValue value = row.root()["finish"];
    const auto* name = std::find(std::begin(kNames), std::end(kNames), value.string());
    if (name == std::end(kNames)) {
      throw value.error("expected stop, length, aborted, failed or unknown");
    }
    made.push_back(kCodes[name - std::begin(kNames)]);
  }
  return made;
}

std::optional<format::Versions> versions(const std::vector<Row>& rows) {
  if (!all_or_none(rows, "versions")) return std::nullopt;
  format::Versions made;
  if (all_or_none(rows, "version_starts")) made.starts.emplace();
  for (const Row& row : rows) {
    const JsonValue list = row.root()["versions"];
    for (size_t i = 0; i < list.size(); ++i) {
      made.versions.push_back(list.at(i).integer(INT64_MIN, INT64_MAX));
    }
    made.offsets.push_back(made.versions.size());
    if (!made.starts) continue;
    const JsonValue starts = row.root()["version_starts"];
    if (starts.size() != list.size()) throw starts.error("there is one for each version");
    for (size_t i = 0; i < starts.size(); ++i) {
      made.starts->push_back(static_cast<uint32_t>(starts.at(i).integer(0, UINT32_MAX)));
    }
  }
  return made;
}

std::optional<format::Experts> experts(const std::vector<Row>& rows) {
  if (!all_or_none(rows, "experts")) return std::nullopt;
  format::Experts made;
  for (const Row& row : rows) {
    const JsonValue value = row.root()["experts"];
    check_keys(value, {"layers", "slots", "ids"});
    const auto layers = static_cast<uint64_t>(value["layers"].integer(0, 1 << 20));
    const auto slots = static_cast<uint64_t>(value["slots"].integer(0, 1 << 20));
    const bool first = &row == &rows.front();
    if (!first && (layers != made.layers || slots != made.slots)) {
      throw value.error("all samples of a rollout have the same layers and slots");
    }
    made.layers = layers;
    made.slots = slots;
    const JsonValue ids = value["ids"];
    if (ids.size() != row.length * made.layers * made.slots) {
      throw ids.error("there is one for each token, layer and slot");
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      made.experts.push_back(static_cast<uint16_t>(ids.at(i).integer(0, UINT16_MAX)));
    }
  }
  return made;
}

std::optional<format::TokenSets> nuclei(const std::vector<Row>& rows) {
  std::optional<Presence> presence = presence_of(rows, "nucleus");
  if (!presence) return std::nullopt;
  format::TokenSets made;
  made.presence = std::move(*presence);
  for (const Row& row : rows) {
    const auto value = row.find("nucleus");
    const size_t end = made.sizes.size() + row.length, first = made.ids.size();
    made.sizes.resize(made.sizes.size() + row.prompt);
    uint64_t sum = 0;
    if (value) {
      check_keys(*value, {"sizes", "ids"});
      const JsonValue sizes = (*value)["sizes"], ids = (*value)["ids"];
      for (size_t t = 0; t < sizes.size(); ++t) {
        made.sizes.push_back(static_cast<uint32_t>(sizes.at(t).integer(0, INT32_MAX)));
        sum += made.sizes.back();
      }
      if (made.sizes.size() != end) throw sizes.error("there is one for each response token");
      for (size_t k = 0; k < ids.size(); ++k) {
        made.ids.push_back(static_cast<int32_t>(ids.at(k).integer(0, INT32_MAX)));
      }
      if (made.ids.size() - first != sum) throw ids.error("there are not as many as the sizes say");
    }
    made.sizes.resize(end);
    made.offsets.push_back(made.ids.size());
  }
  return made;
}

std::shared_ptr<RolloutData> make_rollout(std::vector<Row>& rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return id_of(a.root()["sample_id"]) < id_of(b.root()["sample_id"]);
  });
  auto data = std::make_shared<RolloutData>();
  data->sample_id = ids_and_offsets(rows, data->offsets);
  for (size_t s = 0; s + 1 < rows.size(); ++s) {
    if (data->sample_id[s] != data->sample_id[s + 1]) continue;
    throw rows[s + 1].root()["sample_id"].error("another line of the rollout has this id");
  }
  data->tokens = tokens(rows);
  data->prompt_length = counts(rows, "prompt_length");
  data->group_id = column<uint64_t>(rows, "group_id", id_of);
  data->trajectory_id = column<uint64_t>(rows, "trajectory_id", id_of);
  data->nucleus = nuclei(rows);
  data->log_probs = floats(rows, "log_probs");
  data->loss_mask = mask(rows);
  data->removed =
      column<uint8_t>(rows, "removed", [](JsonValue v) -> uint8_t { return v.boolean() ? 1 : 0; });
  data->rewards = column<double>(rows, "reward", [](JsonValue v) { return real(v, true); });
  data->reward_components = components(rows);
  data->finish = finish(rows);
  data->versions = versions(rows);
  data->prompt_text = texts(rows, "prompt");
  data->response_text = texts(rows, "response");
  data->label_text = texts(rows, "label");
  data->experts = experts(rows);
  for (const Row& row : rows) check_line(row.root(), row.asked);
  return data;
}

std::optional<std::vector<double>> token_weights(const std::vector<Row>& rows) {
  if (!all_or_none(rows, "token_weights")) return std::nullopt;
  std::vector<double> made;
  for (const Row& row : rows) {
    const JsonValue list = row.root()["token_weights"];
    if (list.size() != row.length) throw list.error("there is one for each token");
    for (size_t i = 0; i < list.size(); ++i) made.push_back(real(list.at(i), true));
  }
  return made;
}

std::shared_ptr<TrainData> make_train(const std::vector<Row>& rows) {
  auto data = std::make_shared<TrainData>();
  std::set<uint64_t> seen;
  for (const Row& row : rows) {
    const JsonValue id = row.root()["sample_id"];
    if (seen.insert(id_of(id)).second) continue;
    throw id.error("another line of the step and rank has this id");
  }
  data->sample_id = ids_and_offsets(rows, data->offsets);
  if (all_or_none(rows, "tokens")) data->tokens = tokens(rows);
  data->prompt_length = counts(rows, "prompt_length");
  data->micro_batch = counts(rows, "micro_batch");
  data->loss_mask = mask(rows);
  data->rewards = column<double>(rows, "reward", [](JsonValue v) { return real(v, true); });
  data->trajectory_id = column<uint64_t>(rows, "trajectory_id", id_of);
  data->trajectory_tokens = column<uint64_t>(rows, "trajectory_tokens", id_of);
  data->token_weights = token_weights(rows);
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    (*data).*field.column = floats(rows, field.name);
  }
  for (const Row& row : rows) check_line(row.root(), row.asked);
  return data;
}

Row make_row(JsonDocument document) {
  Row row{std::move(document)};
  const auto ids = row.find("tokens");
  const auto length = row.find("length");
  if (!ids && !length) throw row.root().error("there are no tokens");
  row.length = ids ? ids->size() : static_cast<uint64_t>(length->integer(0, 1 << 30));
  if (ids && length && length->integer(0, INT64_MAX) != static_cast<int64_t>(row.length)) {
    throw length->error("it is " + length->dump() + ", and `tokens` has " +
                        std::to_string(row.length) + ": leave it out, or write how many there are");
  }
  if (const auto prompt = row.find("prompt_length")) {
    row.prompt = static_cast<uint64_t>(prompt->integer(0, static_cast<int64_t>(row.length)));
  }
  return row;
}

std::string step_path(JsonValue root) {
  const auto number = [&](const char* key) {
    return std::to_string(root[key].integer(0, INT64_MAX));
  };
  return "train/" + number("rollout_id") + "-" + number("step_id") + "/rank" + number("rank") +
         ".h5";
}

format::NamedColumns scalars(JsonValue root) {
  format::NamedColumns made;
  const JsonValue object = root["scalars"];
  check_line(root, {"scalars"});
  made.names = names_of(root, object);
  for (const std::string& name : made.names) made.values.push_back(real(object[name], true));
  return made;
}

std::vector<Row> read_rows(JsonLines& lines, const std::vector<JsonLines::Place>& places) {
  std::vector<Row> rows;
  for (const JsonLines::Place& place : places) rows.push_back(make_row(lines.at(place)));
  return rows;
}

/// What a line is. Errors: kUnsupported for one that is not ours, named where it is known.
std::string schema_of(JsonValue root) {
  if (const auto schema = root.find("schema")) return schema->string();
  if (root.find("input") && root.find("output")) {
    throw root.error(ErrorCode::kUnsupported,
                     "this is verl's rollout data: decoded text, without token ids and "
                     "log-probabilities, of which nothing can be replayed or compared");
  }
  throw root.error(ErrorCode::kUnsupported,
                   "the line has no \"schema\": rlreplay import --help says what lines are read");
}

/// Samples made from more than their tokens.
void add_inputs(const std::vector<Row>& rows, std::map<int64_t, std::set<uint64_t>>& to) {
  for (const Row& row : rows) {
    const auto others = row.find("other_inputs");
    if (!others || !others->boolean()) continue;
    to[row.root()["rollout_id"].integer(0, INT64_MAX)].insert(id_of(row.root()["sample_id"]));
  }
}

template <class Map>
auto keys(const Map& map) {
  std::vector<typename Map::key_type> out;
  for (const auto& [key, value] : map) out.push_back(key);
  return out;
}

}  // namespace

JsonlFile::JsonlFile(const std::string& path)
    : lines_(path, JsonLines::kMaxLine, /*unique_keys=*/true) {
  while (auto line = lines_.next()) {
    const JsonValue root = line->root();
    const std::string schema = schema_of(root);
    if (schema == "rlreplay.sample/1") {
      rollouts_[root["rollout_id"].integer(0, INT64_MAX)].push_back(lines_.place());
    } else if (schema == "rlreplay.train/1") {
      trains_[step_path(root)].push_back(lines_.place());
    } else if (schema == "rlreplay.step/1") {
      const std::string unit = step_path(root);
      if (!scalars_.emplace(unit, scalars(root)).second) {
        throw root["scalars"].error("another line has the numbers of " + unit +
                                    " already: write them as one object");
      }
      trains_[unit];
    } else {
      throw root["schema"].error(ErrorCode::kUnsupported,
                                 "expected rlreplay.sample/1, rlreplay.train/1 or rlreplay.step/1");
    }
  }
  if (rollouts_.empty() && trains_.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "the file holds no samples: expected a line of JSON for each", path);
  }
}

std::vector<int64_t> JsonlFile::rollouts() const { return keys(rollouts_); }

std::vector<std::string> JsonlFile::steps() const { return keys(trains_); }

std::shared_ptr<RolloutData> JsonlFile::rollout(int64_t id) {
  std::vector<Row> rows = read_rows(lines_, rollouts_.at(id));
  add_inputs(rows, with_inputs_);
  return make_rollout(rows);
}

std::shared_ptr<TrainData> JsonlFile::step(const std::string& unit) {
  const std::vector<Row> rows = read_rows(lines_, trains_.at(unit));
  add_inputs(rows, with_inputs_);
  auto data = rows.empty() ? std::make_shared<TrainData>() : make_train(rows);
  if (const auto at = scalars_.find(unit); at != scalars_.end()) data->scalars = at->second;
  return data;
}

}  // namespace rlreplay::replay
