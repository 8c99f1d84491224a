#include "format/canonical.h"

#include <algorithm>

#include "format/rule.h"
#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/printable.h"

namespace rlreplay::format {
namespace {

constexpr int kDepth = 16;

void refuse_fractions(const JsonValue& value, const std::string& what) {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) refuse_fractions(value.at(i), what);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.members()) refuse_fractions(member, what);
  } else if (value.is_number() && !value.is_integer()) {
    throw Error(ErrorCode::kUsage,
                "a number with a fraction must be written as a string: " + value.dump(), what);
  }
}

/// How many bytes at the front of `text` are those of `wanted`.
size_t first_difference(std::string_view text, std::string_view wanted) {
  const auto [at, end] = std::mismatch(text.begin(), text.end(), wanted.begin(), wanted.end());
  return static_cast<size_t>(at - text.begin());
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20) {
          out += {'\\', 'u', '0', '0', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
        } else {
          out += c;
        }
    }
  }
  out += '"';
  // The reader proves that the text is UTF-8, as it will have to when the record is read.
  try {
    static_cast<void>(JsonDocument::parse(out, "text"));
  } catch (const Error&) {
    throw Error(ErrorCode::kUsage, "a text of a record is not UTF-8");
  }
  return out;
}

JsonObject& JsonObject::text(const std::string& key, std::string_view value) {
  return json(key, json_text(value));
}
JsonObject& JsonObject::number(const std::string& key, uint64_t value) {
  return json(key, std::to_string(value));
}
JsonObject& JsonObject::boolean(const std::string& key, bool value) {
  return json(key, value ? "true" : "false");
}
JsonObject& JsonObject::texts(const std::string& key, const std::vector<std::string>& values) {
  std::vector<std::string> all;
  for (const std::string& value : values) all.push_back(json_text(value));
  return json(key, json_array(all));
}
JsonObject& JsonObject::json(const std::string& key, std::string value) {
  members_[key] = std::move(value);
  return *this;
}

std::string JsonObject::str() const {
  std::string out = "{";
  for (const auto& [key, value] : members_) {
    if (out.size() > 1) out += ',';
    out += json_text(key) + ":" + value;
  }
  return out + "}";
}

std::string json_array(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) {
    if (out.size() > 1) out += ',';
    out += value;
  }
  return out + "]";
}

std::string canonical_object(std::string_view json, const std::string& what) {
  try {
    const JsonDocument document = JsonDocument::parse(json, what, {.max_depth = kDepth - 4});
    if (!document.root().is_object()) {
      throw Error(ErrorCode::kUsage, "not a JSON object: " + printable(json), what);
    }
    refuse_fractions(document.root(), what);
    return document.root().dump();
  } catch (const Error& e) {
    throw Error(ErrorCode::kUsage, e.what(), what);
  }
}

std::string record_line(std::string_view body) {
  return R"({"body":)" + std::string(body) + R"(,"hash":")" + hash_of(body).hex() + "\"}\n";
}

RecordBody open_record(std::string_view line, const std::string& path) {
  constexpr std::string_view kFront = R"({"body":)", kMiddle = R"(,"hash":")", kEnd = R"("})";
  constexpr size_t kTail = kMiddle.size() + 32 + kEnd.size();
  const auto broken = [&](size_t at) {
    return FormatError(Rule::kRecordSyntax,
                       "the envelope of a record is damaged: expected " + std::string(kFront) +
                           "BODY" + std::string(kMiddle) + "HASH" + std::string(kEnd),
                       path, {}, at);
  };
  if (!line.starts_with(kFront)) throw broken(first_difference(line, kFront));
  if (line.size() < kFront.size() + kTail) throw broken(line.size());
  const std::string_view body = line.substr(kFront.size(), line.size() - kFront.size() - kTail);
  const size_t tail_at = line.size() - kTail;
  const std::string_view tail = line.substr(tail_at), hex = tail.substr(kMiddle.size(), 32);
  const auto hash = Hash::from_hex(hex);
  if (!tail.starts_with(kMiddle)) throw broken(tail_at + first_difference(tail, kMiddle));
  if (!hash) throw broken(tail_at + kMiddle.size());
  if (!tail.ends_with(kEnd)) throw broken(line.size() - kEnd.size());
  if (const Hash found = hash_of(body); found != *hash) {
    throw FormatError(Rule::kRecordHash,
                      "a record's body hashes to " + found.hex() + ", expected " + hash->hex(),
                      path, {}, kFront.size());
  }
  // One spelling a value: keys twice, other spacing and fractions all fail here.
  const auto misspelled = [&](const std::string& why) {
    return FormatError(Rule::kRecordForm, "not canonical JSON: " + why, path, {}, kFront.size());
  };
  try {
    const JsonDocument document = JsonDocument::parse(body, path, {.max_depth = kDepth});
    refuse_fractions(document.root(), path);
    if (const std::string expected = document.root().dump(); expected != body) {
      const size_t at = first_difference(body, expected);
      constexpr size_t kShown = 24;
      throw FormatError(Rule::kRecordForm,
                        "not canonical JSON: " + printable(body.substr(at, kShown)) +
                            ", expected " + printable(expected.substr(at, kShown)),
                        path, {}, kFront.size() + at);
    }
  } catch (const FormatError&) {
    throw;
  } catch (const Error& e) {
    throw misspelled(e.what());
  }
  return {body, *hash};
}

}  // namespace rlreplay::format
