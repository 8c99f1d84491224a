#include "src/base/json_value.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

namespace rlreplay {
namespace {

using Json = nlohmann::json;

/// How deep brackets nest at most. The text need not be valid.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

/// The parser's own words without its prefix and what it last read: hostile bytes stay out.
std::string reason(const Json::parse_error& e) {
  std::string text = e.what();
  text.resize(std::min(text.find("; last read"), text.size()));
  const size_t prefix = text.find(": ");
  return prefix == std::string::npos ? text : text.substr(prefix + 2);
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

/// Watches a parse and refuses a key that occurs twice in one object.
class UniqueKeys {
 public:
  explicit UniqueKeys(const std::string& where) : where_(where) {}

  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(key).second) {
        throw Error(ErrorCode::kCorrupt,
                    "the key \"" + key.substr(0, 80) + "\" occurs twice in one object", where_);
      }
    }
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> open_;
};

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
  if (depth_of(text) > limits.max_depth) {
    throw Error(ErrorCode::kCorrupt,
                "the JSON text nests deeper than " + std::to_string(limits.max_depth) + " levels",
                where);
  }
  JsonDocument document(where);
  try {
    UniqueKeys unique(where);
    *document.root_ = limits.unique_keys ? Json::parse(text, std::ref(unique)) : Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw Error(ErrorCode::kCorrupt,
                "not valid JSON at byte " + std::to_string(e.byte) + ": " + reason(e), where);
  } catch (const Json::out_of_range&) {
    throw Error(ErrorCode::kCorrupt, "not valid JSON: a number is out of range", where);
  }
  return document;
}

JsonDocument JsonDocument::read(const std::string& path, const JsonLimits& limits) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (size < 0 || size == INT64_MAX) {  // INT64_MAX: a folder
    const int why = errno;
    throw Error(why == EACCES ? ErrorCode::kEnvironment : ErrorCode::kIncomplete,
                std::string("cannot read the file: ") + (why ? std::strerror(why) : "not a file"),
                path);
  }
  if (static_cast<uint64_t>(size) > limits.max_bytes) {
    throw Error(ErrorCode::kCorrupt, "the file has more bytes than a file of its kind may have",
                path);
  }
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) {
    throw Error(ErrorCode::kEnvironment, "reading the file failed", path);
  }
  return parse(text, path, limits);
}

std::string json_quoted(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rlreplay
