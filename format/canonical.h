#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/hash.h"

/// Canonical JSON and the envelope that every record of a dump has.
namespace rlreplay::format {

/// Builds an object in canonical form: keys sorted by bytes, no spaces, no fractions.
class JsonObject {
 public:
  /// Errors (also of the others): kUsage when a text is not UTF-8.
  JsonObject& text(const std::string& key, std::string_view value);
  JsonObject& number(const std::string& key, uint64_t value);
  JsonObject& boolean(const std::string& key, bool value);
  JsonObject& texts(const std::string& key, const std::vector<std::string>& values);
  /// `value` is canonical JSON already.
  JsonObject& json(const std::string& key, std::string value);

  std::string str() const;

 private:
  std::map<std::string, std::string> members_;
};

/// A text as canonical JSON has it. Errors: kUsage when it is not UTF-8.
[[nodiscard]] std::string json_text(std::string_view text);

/// `[a,b,...]` of canonical values.
[[nodiscard]] std::string json_array(const std::vector<std::string>& values);

/// The text of a JSON object in canonical form.
/// Errors: kUsage when it is not an object or holds a number with a fraction or exponent (write
/// such numbers as strings: then every reader sees the same digits).
[[nodiscard]] std::string canonical_object(std::string_view json, const std::string& what);

/// The line `{"body":BODY,"hash":"HASH"}\n`.
[[nodiscard]] std::string record_line(std::string_view body);

/// The body of one record line, and its hash.
struct RecordBody {
  std::string_view body;
  Hash hash;
};

/// Opens a line without its end.
/// Errors: FormatError kRecordSyntax, kRecordHash or kRecordForm, with the byte of the line.
[[nodiscard]] RecordBody open_record(std::string_view line, const std::string& path);

}  // namespace rlreplay::format
