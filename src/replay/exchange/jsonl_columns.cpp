#include "src/replay/exchange/jsonl_columns.h"

#include <algorithm>
#include <limits>
#include <set>

#include "src/base/words.h"

namespace rlreplay::replay::jsonl {
namespace {

using format::Column;
using format::Finish;
using format::Presence;
using format::RolloutData;
using format::Texts;
using format::TokenFloats;
using format::TrainData;

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

/// A name in `wide` that is none of a column of floats would leave its numbers in binary32.
void check_wide(const std::vector<Row>& rows, const std::set<std::string, std::less<>>& columns) {
  for (const Row& row : rows) {
    const auto names = row.find("wide");
    for (size_t i = 0; names && i < names->size(); ++i) {
      const std::string& name = names->at(i).string();
      if (columns.contains(name)) continue;
      const auto meant = nearest(name, std::vector<std::string>(columns.begin(), columns.end()));
      throw names->at(i).error("\"" + name + "\" is no column of floats of such a line" +
                               (meant ? ", did you mean \"" + *meant + "\"?" : ""));
    }
  }
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

/// Zeros that lines do not spell out, of one rollout or step.
class Zeros {
 public:
  explicit Zeros(Budget& budget) : budget_(budget) {}
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  ~Zeros() { budget_.give_back(bytes_); }

  template <class T>
  void add(const Row& row, uint64_t count, std::vector<T>& values) {
    try {
      budget_.hold(count * sizeof(T));
      budget_.work(count);
    } catch (const Error& error) {
      throw row.root().error(error.code(), error.what());
    }
    bytes_ += count * sizeof(T);
    values.resize(values.size() + count);
  }

 private:
  Budget& budget_;
  uint64_t bytes_ = 0;
};

/// Values of the response, behind as many zeros as the prompt has tokens.
template <class T, class Read>
void add_response(const Row& row, std::string_view key, std::vector<T>& values, Zeros& zeros,
                  Read read) {
  const std::optional<JsonValue> list = row.find(key);
  const uint64_t wanted = row.length - row.prompt;
  if (list && list->size() != wanted) {
    throw list->error("it has " + std::to_string(list->size()) + " values, the response has " +
                      std::to_string(wanted) + " tokens");
  }
  zeros.add(row, list ? row.prompt : row.length, values);
  for (uint64_t i = 0; list && i < wanted; ++i) values.push_back(read(list->at(i)));
}

std::optional<TokenFloats> floats(const std::vector<Row>& rows, std::string_view key,
                                  Zeros& zeros) {
  std::optional<Presence> presence = presence_of(rows, key);
  if (!presence) return std::nullopt;
  TokenFloats made;
  made.presence = std::move(*presence);
  const bool wide = is_wide(rows, key);
  for (const Row& row : rows) {
    if (wide) {
      add_response(row, key, made.wide, zeros, [](JsonValue v) { return real(v, true); });
    } else {
      add_response(row, key, made.narrow, zeros,
                   [](JsonValue v) { return static_cast<float>(real(v, false)); });
    }
  }
  return made;
}

std::optional<Column<uint8_t>> mask(const std::vector<Row>& rows, Zeros& zeros) {
  std::optional<Presence> presence = presence_of(rows, "loss_mask");
  if (!presence) return std::nullopt;
  Column<uint8_t> made;
  made.presence = std::move(*presence);
  for (const Row& row : rows) {
    add_response(row, "loss_mask", made.values, zeros, [](JsonValue v) {
      const bool refused = v.is_string() || v.is_null() || v.is_array() || v.is_object();
      return static_cast<uint8_t>(v.is_number() || refused ? v.integer(0, 1) : v.boolean());
    });
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

std::vector<uint64_t> ids_and_offsets(const std::vector<Row>& rows,
                                      std::vector<uint64_t>& offsets) {
  std::vector<uint64_t> ids;
  for (const Row& row : rows) {
    ids.push_back(id_of(row.root()["sample_id"]));
    offsets.push_back(offsets.back() + row.length);
  }
  return ids;
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

Finish finish_of(JsonValue value) {
  constexpr std::string_view kNames[] = {"stop", "length", "aborted", "failed", "unknown"};
  constexpr Finish kCodes[] = {Finish::kStop, Finish::kLength, Finish::kAborted, Finish::kFailed,
                               Finish::kUnknown};
  const auto* name = std::find(std::begin(kNames), std::end(kNames), value.string());
  if (name == std::end(kNames)) {
    throw value.error("expected stop, length, aborted, failed or unknown");
  }
  return kCodes[name - std::begin(kNames)];
}

std::optional<std::vector<Finish>> finish(const std::vector<Row>& rows) {
  if (!all_or_none(rows, "finish")) return std::nullopt;
  std::vector<Finish> made;
  for (const Row& row : rows) made.push_back(finish_of(row.root()["finish"]));
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

std::optional<Column<uint8_t>> roles(const std::vector<Row>& rows, Zeros& zeros) {
  std::optional<Presence> presence = presence_of(rows, "roles");
  if (!presence) return std::nullopt;
  Column<uint8_t> made;
  made.presence = std::move(*presence);
  for (const Row& row : rows) {
    const auto list = row.find("roles");
    if (!list) {
      zeros.add(row, row.length, made.values);
      continue;
    }
    if (list->size() != row.length) throw list->error("there is one for each token");
    for (size_t i = 0; i < list->size(); ++i) {
      const auto code = static_cast<uint8_t>(list->at(i).integer(0, 255));
      if (code > 3 && code != 255) {
        throw list->at(i).error("expected 0 prompt, 1 response, 2 tool, 3 system or 255 unknown");
      }
      made.values.push_back(code);
    }
  }
  return made;
}

constexpr std::string_view kCallKeys[] = {"first",     "length",  "finish",
                                          "truncated", "version", "seed"};

/// What calls have beside the columns of the table, in the order of the alphabet.
std::set<std::string> call_numbers(const std::vector<Row>& rows) {
  std::set<std::string> names;
  for (const Row& row : rows) {
    const auto calls = row.find("calls");
    for (size_t c = 0; calls && c < calls->size(); ++c) {
      for (const auto& [name, value] : calls->at(c).members()) {
        if (name.empty() || name.find('\n') != name.npos) {
          throw value.error("a name that is empty or has a line end is none that a dump holds");
        }
        if (std::ranges::find(kCallKeys, name) == std::end(kCallKeys)) names.emplace(name);
      }
    }
  }
  return names;
}

/// Whether all calls have the key, or none.
bool all_calls(const std::vector<Row>& rows, std::string_view key) {
  std::optional<bool> has;
  for (const Row& row : rows) {
    const auto calls = row.find("calls");
    for (size_t c = 0; calls && c < calls->size(); ++c) {
      const bool here = calls->at(c).find(key).has_value();
      if (has.value_or(here) != here) {
        throw calls->at(c).error("'" + std::string(key) +
                                 "' is of all calls of a rollout, or of none");
      }
      has = here;
    }
  }
  return has.value_or(false);
}

uint8_t truth(JsonValue value) {
  if (value.is_null()) return 255;
  return value.boolean() ? 1 : 0;
}

/// Appends a call, whose sample has `length` tokens, behind the one that ends at `next`.
void add_call(format::Calls& to, JsonValue call, uint64_t length, uint64_t& next) {
  const auto first = static_cast<uint32_t>(call["first"].integer(0, UINT32_MAX));
  const auto count = static_cast<uint32_t>(call["length"].integer(0, UINT32_MAX));
  if (first < next || uint64_t{first} + count > length) {
    throw call.error("calls lie one after the other within their sample");
  }
  next = uint64_t{first} + count;
  to.first.push_back(first);
  to.length.push_back(count);
  if (to.finish) to.finish->push_back(finish_of(call["finish"]));
  if (to.truncated) to.truncated->push_back(truth(call["truncated"]));
  if (to.version) to.version->push_back(call["version"].integer(INT64_MIN, INT64_MAX));
  if (to.seed) to.seed->push_back(call["seed"].integer(INT64_MIN, INT64_MAX));
  if (!to.numbers) return;
  for (const std::string& name : to.numbers->names) {
    const auto value = call.find(name);
    to.numbers->values.push_back(value ? real(*value, true)
                                       : std::numeric_limits<double>::quiet_NaN());
  }
}

/// A line without `calls` has none.
std::optional<format::Calls> calls(const std::vector<Row>& rows) {
  std::optional<format::Calls> made;
  if (!presence_of(rows, "calls")) return made;
  made.emplace();
  const std::set<std::string> names = call_numbers(rows);
  if (all_calls(rows, "finish")) made->finish.emplace();
  if (all_calls(rows, "truncated")) made->truncated.emplace();
  if (all_calls(rows, "version")) made->version.emplace();
  if (all_calls(rows, "seed")) made->seed.emplace();
  if (!names.empty()) made->numbers.emplace().names.assign(names.begin(), names.end());
  for (const Row& row : rows) {
    const auto list = row.find("calls");
    uint64_t next = 0;
    for (size_t c = 0; list && c < list->size(); ++c) {
      add_call(*made, list->at(c), row.length, next);
    }
    made->offsets.push_back(made->first.size());
  }
  return made;
}

/// A list beside the ids of experts, of `wanted` numbers; a line has it where the first one has.
template <class T, class Read>
void add_routes(JsonValue experts, std::string_view key, uint64_t wanted, bool first,
                std::optional<std::vector<T>>& values, Read read) {
  const auto list = experts.find(key);
  if (first && list) values.emplace();
  if (list.has_value() != values.has_value()) {
    throw experts.error("'" + std::string(key) + "' is in all lines with experts, or in none");
  }
  if (!list) return;
  if (list->size() != wanted) {
    throw list->error("it has " + counted(list->size(), "number") + ", expected " +
                      std::to_string(wanted));
  }
  for (size_t i = 0; i < list->size(); ++i) values->push_back(read(list->at(i)));
}

std::optional<format::Experts> experts(const std::vector<Row>& rows) {
  if (!all_or_none(rows, "experts")) return std::nullopt;
  format::Experts made;
  for (const Row& row : rows) {
    const JsonValue value = row.root()["experts"];
    check_keys(value, {"layers", "slots", "ids", "layer_ids", "gates", "recorded"});
    const auto layers = static_cast<uint64_t>(value["layers"].integer(0, 1 << 20));
    const auto slots = static_cast<uint64_t>(value["slots"].integer(0, 1 << 20));
    const bool first = &row == &rows.front();
    if (!first && (layers != made.layers || slots != made.slots)) {
      throw value.error("all samples of a rollout have the same layers and slots");
    }
    made.layers = layers;
    made.slots = slots;
    const JsonValue ids = value["ids"];
    const uint64_t of_token = made.layers * made.slots;  // at most 2^40
    const bool fits = of_token == 0 || row.length <= ids.size() / of_token;
    if (!fits || ids.size() != row.length * of_token) {
      throw ids.error("there is one for each token, layer and slot");
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      made.experts.push_back(static_cast<uint16_t>(ids.at(i).integer(0, UINT16_MAX)));
    }
    add_routes(value, "gates", ids.size(), first, made.gates,
               [](JsonValue v) { return static_cast<float>(real(v, false)); });
    add_routes(value, "recorded", row.length, first, made.recorded,
               [](JsonValue v) { return static_cast<uint8_t>(v.integer(0, 1)); });
    std::optional<std::vector<uint32_t>> named;
    add_routes(value, "layer_ids", layers, value.find("layer_ids").has_value(), named,
               [](JsonValue v) { return static_cast<uint32_t>(v.integer(0, UINT32_MAX)); });
    if (first) made.layer_ids = named;
    if (named != made.layer_ids) {
      throw value.error("all samples of a rollout name the same layers");
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

}  // namespace

std::shared_ptr<RolloutData> make_rollout(std::vector<Row>& rows, Budget& budget) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return id_of(a.root()["sample_id"]) < id_of(b.root()["sample_id"]);
  });
  Zeros zeros(budget);
  check_wide(rows, {"log_probs"});
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
  data->log_probs = floats(rows, "log_probs", zeros);
  data->loss_mask = mask(rows, zeros);
  data->removed =
      column<uint8_t>(rows, "removed", [](JsonValue v) -> uint8_t { return v.boolean() ? 1 : 0; });
  data->rewards = column<double>(rows, "reward", [](JsonValue v) { return real(v, true); });
  data->reward_components = components(rows);
  data->finish = finish(rows);
  data->versions = versions(rows);
  data->calls = calls(rows);
  data->roles = roles(rows, zeros);
  data->prompt_text = texts(rows, "prompt");
  data->response_text = texts(rows, "response");
  data->label_text = texts(rows, "label");
  data->experts = experts(rows);
  for (const Row& row : rows) check_line(row.root(), row.asked);
  return data;
}

std::shared_ptr<TrainData> make_train(const std::vector<Row>& rows, Budget& budget) {
  Zeros zeros(budget);
  std::set<std::string, std::less<>> of_floats;
  for (const format::TokenColumnField& field : format::kTokenColumnFields)
    of_floats.emplace(field.name);
  check_wide(rows, of_floats);
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
  data->loss_mask = mask(rows, zeros);
  data->rewards = column<double>(rows, "reward", [](JsonValue v) { return real(v, true); });
  data->trajectory_id = column<uint64_t>(rows, "trajectory_id", id_of);
  data->trajectory_tokens = column<uint64_t>(rows, "trajectory_tokens", id_of);
  data->token_weights = token_weights(rows);
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    (*data).*field.column = floats(rows, field.name, zeros);
  }
  for (const Row& row : rows) check_line(row.root(), row.asked);
  return data;
}

}  // namespace rlreplay::replay::jsonl
