#include "src/base/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/budget.h"
#include "src/base/input_file.h"

namespace rlreplay {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFile = size_t{256} << 20;

/// What a text becomes when it is parsed.
struct Cost {
  int depth = 0;       // how deep brackets nest at most
  uint64_t bytes = 0;  // of the values, at least nearly
};

/// The text need not be valid.
Cost cost_of(std::string_view text) {
  constexpr uint64_t kMember = 80;     // a node of a map and its key, beside the value
  constexpr uint64_t kContainer = 48;  // a map or a vector, beside its values
  constexpr uint64_t kString = 32;
  Cost cost;
  cost.bytes = sizeof(Json);
  int depth = 0;
  size_t string_begin = 0;  // behind the quotes; 0 outside of strings
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (string_begin != 0) {
      if (c == '\\') ++i;
      if (c != '"') continue;
      cost.bytes += kString + (i - string_begin);
      string_begin = 0;
    } else if (c == '"') {
      string_begin = i + 1;
    } else if (c == '[' || c == '{') {
      cost.depth = std::max(cost.depth, ++depth);
      cost.bytes += kContainer + sizeof(Json);
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      cost.bytes += sizeof(Json);
    } else if (c == ':') {
      cost.bytes += kMember;
    }
  }
  return cost;
}

/// The parser's own words without its prefix and what it last read: hostile bytes stay out.
std::string reason(const Json::parse_error& e) {
  std::string text = e.what();
  text.resize(std::min(text.find("; last read"), text.size()));
  const size_t prefix = text.find(": ");
  return prefix == std::string::npos ? text : text.substr(prefix + 2);
}

/// ", line 3", of a text that has several.
std::string line_text(std::string_view text, size_t byte) {
  const auto lines = std::ranges::count(text.substr(0, byte > 0 ? byte - 1 : 0), '\n');
  return lines == 0 ? "" : ", line " + std::to_string(lines + 1);
}

/// A JSON pointer to `target` below `value`; found by its address, so that reading costs nothing
/// where all is well.
bool find_pointer(const Json& value, const Json* target, std::string& pointer) {
  if (&value == target) return true;
  const size_t length = pointer.size();
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      pointer += '/' + key.substr(0, 80);
      if (find_pointer(member, target, pointer)) return true;
      pointer.resize(length);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      pointer += '/' + std::to_string(i);
      if (find_pointer(value[i], target, pointer)) return true;
      pointer.resize(length);
    }
  }
  return false;
}

/// Goes through a text and refuses a key that occurs twice in one object. A watched Json::parse
/// could do it, too, but would go over all members of an object whenever one of them ends.
class UniqueKeys : public nlohmann::json_sax<Json> {
 public:
  explicit UniqueKeys(const std::string& where) : where_(where) {}

  bool start_object(size_t) override {
    open_.emplace_back();
    return true;
  }
  bool key(std::string& key) override {
    if (open_.back().insert(key).second) return true;
    throw Error(ErrorCode::kCorrupt,
                "the key \"" + key.substr(0, 80) + "\" occurs twice in one object", where_);
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  /// What is not JSON is said by the parse behind it.
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> open_;
};

/// Errors: kCorrupt.
void check_unique_keys(std::string_view text, const std::string& where) {
  UniqueKeys keys(where);
  static_cast<void>(Json::sax_parse(text, &keys));
}

std::string expected(const char* what, const Json& got) {
  return std::string("expected ") + what + ", found " + got.type_name();
}

}  // namespace

bool JsonValue::is_null() const { return value_->is_null(); }
bool JsonValue::is_string() const { return value_->is_string(); }
bool JsonValue::is_array() const { return value_->is_array(); }
bool JsonValue::is_object() const { return value_->is_object(); }
bool JsonValue::is_integer() const { return value_->is_number_integer(); }
bool JsonValue::is_number() const { return value_->is_number(); }

const std::string& JsonValue::string() const {
  if (!value_->is_string()) throw error(expected("a string", *value_));
  return value_->get_ref<const std::string&>();
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) throw error(expected("true or false", *value_));
  return value_->get<bool>();
}

double JsonValue::number() const {
  if (!value_->is_number()) throw error(expected("a number", *value_));
  return value_->get<double>();
}

int64_t JsonValue::integer(int64_t min, int64_t max) const {
  const std::string range = "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  if (!value_->is_number_integer()) throw error(expected(range.c_str(), *value_));
  const bool huge = value_->is_number_unsigned() && value_->get<uint64_t>() > uint64_t{INT64_MAX};
  const int64_t number = huge ? 0 : value_->get<int64_t>();
  if (huge || number < min || number > max) {
    throw error("expected " + range + ", found " + value_->dump());
  }
  return number;
}

size_t JsonValue::size() const {
  if (!value_->is_array()) throw error(expected("an array", *value_));
  return value_->size();
}

JsonValue JsonValue::at(size_t index) const {
  if (index >= size()) throw error("expected more than " + std::to_string(index) + " elements");
  return {&(*value_)[index], document_};
}

JsonValue JsonValue::operator[](std::string_view key) const {
  if (!value_->is_object()) throw error(expected("an object", *value_));
  const auto it = value_->find(key);
  if (it == value_->end()) throw error("the key \"" + std::string(key) + "\" is missing");
  return {&*it, document_};
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!value_->is_object()) throw error(expected("an object", *value_));
  const auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return JsonValue{&*it, document_};
}

std::vector<std::pair<std::string_view, JsonValue>> JsonValue::members() const {
  if (!value_->is_object()) throw error(expected("an object", *value_));
  std::vector<std::pair<std::string_view, JsonValue>> all;
  all.reserve(value_->size());
  for (auto it = value_->begin(); it != value_->end(); ++it) {
    all.emplace_back(it.key(), JsonValue{&*it, document_});
  }
  return all;
}

std::string JsonValue::dump() const { return value_->dump(); }

Error JsonValue::error(ErrorCode code, const std::string& message) const {
  std::string pointer;
  find_pointer(*document_->root_, value_, pointer);
  return Error(code, message,
               pointer.empty() ? document_->where_ : document_->where_ + " " + pointer);
}

JsonDocument::JsonDocument(std::string where)
    : root_(std::make_unique<Json>()), where_(std::move(where)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(std::string_view text, std::string where,
                                 const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw Error(ErrorCode::kCorrupt,
                "the JSON text has " + std::to_string(text.size()) + " bytes; at most " +
                    std::to_string(limits.max_bytes) + " are read",
                where);
  }
  // The parser takes a NUL for the text's end.
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    throw Error(ErrorCode::kCorrupt,
                "not valid JSON at byte " + std::to_string(nul + 1) + ": a NUL byte", where);
  }
  const Cost cost = cost_of(text);
  if (cost.depth > limits.max_depth) {
    throw Error(ErrorCode::kCorrupt,
                "the JSON text nests deeper than " + std::to_string(limits.max_depth) + " levels",
                where);
  }
  JsonDocument document(where);
  try {
    Budget(text.size()).hold(cost.bytes);
  } catch (const Error& error) {
    throw error.at(where);
  }
  try {
    if (limits.unique_keys) check_unique_keys(text, where);
    *document.root_ = Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw Error(ErrorCode::kCorrupt,
                "not valid JSON at byte " + std::to_string(e.byte) + line_text(text, e.byte) +
                    ": " + reason(e),
                where);
  } catch (const Json::out_of_range&) {
    throw Error(ErrorCode::kCorrupt, "not valid JSON: a number is out of range", where);
  }
  return document;
}

JsonDocument JsonDocument::read(const std::string& path, const JsonLimits& limits) {
  const std::string text = read_file(path, std::min(limits.max_bytes, kMaxFile), "a JSON file");
  return parse(text, path, limits);
}

std::string json_quoted(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_list(std::span<const std::string> texts) { return json_list(texts, json_quoted); }

}  // namespace rlreplay
