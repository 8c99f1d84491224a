#include "format/record.h"

#include <set>

#include "format/group_name.h"
#include "src/base/printable.h"

namespace rlreplay::format {

void put_header(JsonObject& object) {
  object.text("format", kFormat)
      .number("major", kMajor)
      .number("minor", kMinor)
      .texts("must_understand", {});
}

namespace {

/// Runs `read`; a key that is missing or of another kind breaks `rule`.
template <class Read>
void under(Rule rule, const std::string& path, Read&& read) {
  try {
    read();
  } catch (const FormatError&) {
    throw;
  } catch (const Error& e) {
    throw FormatError(rule, std::string(e.what()) + " at " + e.where(), path);
  }
}

}  // namespace

std::string check_header(const JsonValue& body, const std::string& path) {
  std::string version;
  under(Rule::kFormatName, path, [&] {
    const std::string& format = body["format"].string();
    if (format == kFormat) return;
    throw FormatError(
        Rule::kFormatName,
        "the record is of the format " + printable(format) + ", expected " + std::string(kFormat),
        path);
  });
  under(Rule::kVersion, path, [&] {
    const int64_t major = body["major"].integer(0, INT32_MAX);
    const int64_t minor = body["minor"].integer(0, INT32_MAX);
    version = std::to_string(major) + "." + std::to_string(minor);
    if (major <= kMajor) return;  // a newer minor adds only what can be left aside
    throw FormatError(Rule::kVersion,
                      "version " + version +
                          " of the format is newer than this program, which reads version " +
                          std::to_string(kMajor) + ": use a newer one",
                      path);
  });
  under(Rule::kMustUnderstand, path, [&] {
    const JsonValue features = body["must_understand"];
    if (features.size() == 0) return;  // this version knows none
    throw FormatError(Rule::kMustUnderstand,
                      "the dump needs the feature \"" + features.at(0).string() +
                          "\", which this program does not know: use a newer one",
                      path);
  });
  return version;
}

std::string unit_json(const UnitRecord& unit) {
  JsonObject out;
  out.text("path", unit.path)
      .number("size", unit.size)
      .number("logical", unit.logical)
      .text("hash", unit.hash.hex())
      .text("content", unit.content.hex())
      .texts("groups", unit.groups);
  if (!unit.group_contents.empty()) {
    JsonObject groups;
    for (const auto& [group, hash] : unit.group_contents) groups.text(group, hash.hex());
    out.json("group_contents", groups.str());
  }
  if (!unit.counts.empty()) {
    JsonObject groups;
    for (const auto& [group, counts] : unit.counts) groups.json(group, counts);
    out.json("counts", groups.str());
  }
  return out.str();
}

Hash hash_from_json(const JsonValue& value, const std::string& path) {
  const auto hash = Hash::from_hex(value.string());
  if (!hash) {
    throw FormatError(Rule::kSchema,
                      "not a hash of 32 hexadecimal digits: " + printable(value.string()), path);
  }
  return *hash;
}

UnitRecord unit_from_json(const JsonValue& value, const std::string& path) {
  constexpr int64_t kMost = int64_t{1} << 50;
  UnitRecord unit;
  unit.path = value["path"].string();
  unit.size = static_cast<uint64_t>(value["size"].integer(0, kMost));
  unit.logical = static_cast<uint64_t>(value["logical"].integer(0, kMost));
  unit.hash = hash_from_json(value["hash"], path);
  unit.content = hash_from_json(value["content"], path);
  const JsonValue groups = value["groups"];
  for (size_t i = 0; i < groups.size(); ++i) unit.groups.push_back(groups.at(i).string());
  if (const auto contents = value.find("group_contents")) {
    for (const auto& [group, hash] : contents->members()) {
      unit.group_contents.emplace(group, hash_from_json(hash, path));
    }
  }
  if (const auto all = value.find("counts")) {
    for (const auto& [group, counts] : all->members()) {
      counts.members();
      unit.counts.emplace(group, counts.dump());
    }
  }
  if (!sound_unit_path(unit.path)) {
    throw FormatError(Rule::kUnitPath,
                      "the path of a unit lies outside the grammar: \"" + unit.path + "\"", path);
  }
  const std::string_view kind = kind_of(unit.path);
  for (const std::string& group : unit.groups) {
    if (sound_group_name(kind, group)) continue;
    throw FormatError(
        Rule::kSchema,
        "a group of the unit " + unit.path + " is named \"" + group +
            (kind == "rollout" ? "\", not as a rollout: 3" : "\", not as a step: 3-0"),
        path);
  }
  return unit;
}

std::string meta_from_json(const JsonValue& value, const std::string& path) {
  return schema_of(path, [&] {
    value["ranks"].integer(1, 1 << 20);
    return value.dump();
  });
}

int64_t ranks_of(const std::string& meta) {
  const JsonDocument document = JsonDocument::parse(meta, "meta");
  return document.root()["ranks"].integer(1, 1 << 20);
}

void refuse_duplicates(const std::vector<UnitRecord>& units, const std::string& path) {
  std::set<std::string_view> seen;
  for (const UnitRecord& unit : units) {
    if (!seen.insert(unit.path).second) {
      throw FormatError(Rule::kDuplicate, "the unit " + unit.path + " is recorded twice", path);
    }
  }
}

}  // namespace rlreplay::format
