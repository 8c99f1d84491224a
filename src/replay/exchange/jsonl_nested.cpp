#include "src/replay/exchange/jsonl_nested.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "src/base/words.h"

namespace rlreplay::replay::jsonl {
namespace {

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
          throw value.error("the name \"" + std::string(name) +
                            "\" is empty or has a line end: no dump holds it");
        }
        if (is_number_of_call(name)) names.emplace(name);
      }
    }
  }
  return names;
}

/// Whether a call says something of a key: of `truncated` null, too, which is that it is not known.
bool has_key(JsonValue call, std::string_view key) {
  if (key != "truncated") return call.find(key).has_value();
  const auto members = call.members();
  return std::ranges::any_of(members, [&](const auto& member) { return member.first == key; });
}

/// Whether all calls have the key, or none.
bool all_calls(const std::vector<Row>& rows, std::string_view key) {
  std::optional<bool> has;
  for (const Row& row : rows) {
    const auto calls = row.find("calls");
    for (size_t c = 0; calls && c < calls->size(); ++c) {
      const bool here = has_key(calls->at(c), key);
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
    throw call.error("the call's tokens are " + std::to_string(first) + " to " +
                     std::to_string(uint64_t{first} + count) + "; it must begin at " +
                     std::to_string(next) + " or later and end within the sample's " +
                     counted(length, "token"));
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

}  // namespace

format::Finish finish_of(JsonValue value) {
  for (const format::Finish finish : format::kFinishes) {
    if (to_string(finish) == value.string()) return finish;
  }
  throw value.error("found \"" + value.string() +
                    "\", expected stop, length, aborted, failed or unknown");
}

bool is_number_of_call(std::string_view name) {
  return !name.empty() && name.find('\n') == name.npos &&
         std::ranges::find(kCallKeys, name) == std::end(kCallKeys);
}

/// Every line has the names of the first one.
std::optional<format::NamedColumns> components(const std::vector<Row>& rows, std::string_view key) {
  std::optional<format::Presence> presence = presence_of(rows, key);
  if (!presence) return std::nullopt;
  format::NamedColumns made;
  for (const Row& row : rows) {
    const auto value = row.find(key);
    if (!value) continue;
    const std::vector<std::string> names = names_of(row.root(), *value);
    if (made.names.empty()) made.names = names;
    if (names.size() != made.names.size()) {
      throw value->error("it has " + counted(names.size(), "member") +
                         ", the rollout's first line that has them " +
                         std::to_string(made.names.size()));
    }
  }
  for (const Row& row : rows) {
    const auto value = row.find(key);
    for (const std::string& name : made.names) {
      made.values.push_back(value ? real((*value)[name], true) : 0);
    }
  }
  made.presence = std::move(*presence);
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
    if (starts.size() != list.size()) {
      throw starts.error("it has " + counted(starts.size(), "value") +
                         ", expected one for each of " + counted(list.size(), "version"));
    }
    for (size_t i = 0; i < starts.size(); ++i) {
      made.starts->push_back(static_cast<uint32_t>(starts.at(i).integer(0, UINT32_MAX)));
    }
  }
  return made;
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
      throw value.error("it has " + counted(layers, "layer") + " of " + counted(slots, "slot") +
                        ", the rollout's first line " + counted(made.layers, "layer") + " of " +
                        counted(made.slots, "slot"));
    }
    made.layers = layers;
    made.slots = slots;
    const JsonValue ids = value["ids"];
    const uint64_t of_token = made.layers * made.slots;  // at most 2^40
    const bool fits = of_token == 0 || row.length <= ids.size() / of_token;
    if (!fits || ids.size() != row.length * of_token) {
      throw ids.error("it has " + counted(ids.size(), "id") + ", expected " +
                      std::to_string(of_token) + " for each of " + counted(row.length, "token"));
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
      throw value.error("its `layer_ids` are " +
                        (named ? value["layer_ids"].dump().substr(0, 100) : "not there") +
                        ", unlike those of the rollout's first line");
    }
  }
  return made;
}

std::optional<format::TokenSets> nuclei(const std::vector<Row>& rows) {
  std::optional<format::Presence> presence = presence_of(rows, "nucleus");
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
      if (made.sizes.size() != end) {
        throw sizes.error("it has " + counted(sizes.size(), "value") + ", expected " +
                          std::to_string(end - (made.sizes.size() - sizes.size())) +
                          ", one for each response token");
      }
      for (size_t k = 0; k < ids.size(); ++k) {
        made.ids.push_back(static_cast<int32_t>(ids.at(k).integer(0, INT32_MAX)));
      }
      if (made.ids.size() - first != sum) {
        throw ids.error("it has " + counted(ids.size(), "id") + ", the sizes sum to " +
                        std::to_string(sum));
      }
    }
    made.sizes.resize(end);
    made.offsets.push_back(made.ids.size());
  }
  return made;
}

}  // namespace rlreplay::replay::jsonl
