#pragma once

#include <string>
#include <vector>

#include "format/canonical.h"
#include "format/rule.h"
#include "format/unit.h"
#include "src/base/json_value.h"

namespace rlreplay::format {

/// Adds what the first line of a journal and a manifest both say: format, version, features.
void put_header(JsonObject& object);

/// The version that a record names, as `1.0`.
/// Errors: FormatError kFormatName, kVersion or kMustUnderstand, in this order.
[[nodiscard]] std::string check_header(const JsonValue& body, const std::string& path);

/// What a line of a journal says of a unit. Members without content (`group_contents`, `counts`)
/// are left out.
[[nodiscard]] std::string unit_json(const UnitRecord& unit);

/// Errors: FormatError kSchema or kUnitPath.
[[nodiscard]] UnitRecord unit_from_json(const JsonValue& value, const std::string& path);

/// The `meta` of a dump, checked: `ranks`, the number of ranks that write train units, must be
/// there; everything else is the writer's.
[[nodiscard]] std::string meta_from_json(const JsonValue& value, const std::string& path);

/// Number of ranks in a checked `meta`.
[[nodiscard]] int64_t ranks_of(const std::string& meta);

/// Errors: FormatError kSchema.
[[nodiscard]] Hash hash_from_json(const JsonValue& value, const std::string& path);

/// Runs `read` and turns what the JSON reader says of keys and values into kSchema.
template <class Read>
[[nodiscard]] auto schema_of(const std::string& path, Read&& read) {
  try {
    return read();
  } catch (const FormatError&) {
    throw;
  } catch (const Error& e) {
    throw FormatError(Rule::kSchema, std::string(e.what()) + " at " + e.where(), path);
  }
}

/// Errors: FormatError kDuplicate when a path is there twice.
void refuse_duplicates(const std::vector<UnitRecord>& units, const std::string& path);

}  // namespace rlreplay::format
