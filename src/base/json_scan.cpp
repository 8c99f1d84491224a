#include "src/base/json_scan.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "src/base/error.h"
#include "src/base/json_value.h"

namespace rlreplay {
namespace {

constexpr auto kDeepest = static_cast<size_t>(JsonLimits{}.max_depth);

/// What nlohmann's parser tells of a text, told on with its place.
class Scan {
 public:
  using Other = ScannedValue::Other;

  Scan(const std::string& where, const std::function<void(const ScannedValue&)>& use)
      : where_(where), use_(use) {}

  bool null() { return tell(Other::kNull); }
  bool boolean(bool value) { return tell(value); }
  bool number_integer(int64_t value) { return tell(value); }
  bool number_unsigned(uint64_t value) { return tell(value); }
  bool number_float(double, const std::string&) { return tell(Other::kFraction); }
  bool string(const std::string& value) { return tell(std::string_view(value)); }
  bool binary(const nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) {
    if (depth_ > 0) tell(Other::kObject);
    ++objects_;
    return ++depth_ <= kDeepest;
  }
  bool key(const std::string& name) {
    if (depth_ == 1) member_ = name;
    return true;
  }
  bool end_object() {
    --objects_;
    --depth_;
    return true;
  }
  bool start_array(size_t) {
    tell(Other::kArray);
    if (objects_ == 1) place_.push_back(0);
    return ++depth_ <= kDeepest;
  }
  bool end_array() {
    --depth_;
    if (objects_ != 1) return true;
    place_.pop_back();
    if (!place_.empty()) ++place_.back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) { return false; }

 private:
  bool tell(const ScannedValue::Value& value) {
    if (objects_ > 1) return true;
    const ScannedValue told(where_, member_, place_, value);
    if (objects_ == 0) told.refuse("expected an object");
    use_(told);
    const bool whole = value != ScannedValue::Value(Other::kArray);
    if (whole && !place_.empty()) ++place_.back();
    return true;
  }

  const std::string& where_;
  const std::function<void(const ScannedValue&)>& use_;
  std::string member_;
  std::vector<size_t> place_;
  size_t depth_ = 0, objects_ = 0;  // of brackets that are open, and of objects among them
};

}  // namespace

std::string_view ScannedValue::string() const {
  if (const auto* text = std::get_if<std::string_view>(&value_)) return *text;
  refuse("expected a string");
}

bool ScannedValue::boolean() const {
  if (const auto* truth = std::get_if<bool>(&value_)) return *truth;
  refuse("expected true or false");
}

int64_t ScannedValue::integer(int64_t min, int64_t max) const {
  const auto* small = std::get_if<int64_t>(&value_);
  const auto* unsigned_value = std::get_if<uint64_t>(&value_);
  const bool fits = unsigned_value != nullptr && *unsigned_value <= uint64_t{INT64_MAX};
  const int64_t value = small != nullptr ? *small
                        : fits           ? static_cast<int64_t>(*unsigned_value)
                                         : 0;
  if ((small != nullptr || fits) && min <= value && value <= max) return value;
  refuse("expected an integer from " + std::to_string(min) + " to " + std::to_string(max));
}

void ScannedValue::begin_array() const {
  if (value_ != Value(Other::kArray)) refuse("expected an array");
}

void ScannedValue::refuse(const std::string& message) const {
  std::string pointer = member_.empty() ? "" : " /" + std::string(member_.substr(0, 80));
  for (const size_t index : place_) pointer += "/" + std::to_string(index);
  throw Error(ErrorCode::kCorrupt, message, where_ + pointer);
}

void scan_json(std::string_view text, const std::string& where,
               const std::function<void(const ScannedValue&)>& use) {
  Scan scan(where, use);
  // The parser takes a NUL for the text's end.
  const bool whole = text.find('\0') == text.npos;
  if (whole && nlohmann::json::sax_parse(text.begin(), text.end(), &scan)) return;
  static_cast<void>(JsonDocument::parse(text, where));  // says what is wrong
  throw Error(ErrorCode::kCorrupt, "not a JSON object", where);
}

}  // namespace rlreplay
