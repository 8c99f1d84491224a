#include "format/manifest.h"

#include <algorithm>

#include "format/faults.h"
#include "format/record.h"

namespace rlreplay::format {

Hash root_of(const std::string& meta, const std::vector<UnitRecord>& sorted_units) {
  std::string text = "rlreplay root\n" + meta + "\n";
  for (const UnitRecord& unit : sorted_units) text += unit.path + " " + unit.content.hex() + "\n";
  return hash_of(text);
}

std::string manifest_text(const Manifest& manifest) {
  std::vector<std::string> units;
  for (const UnitRecord& unit : manifest.units) units.push_back(unit_json(unit));
  JsonObject body;
  put_header(body);
  body.boolean("complete", manifest.complete)
      .json("journal", JsonObject()
                           .number("size", manifest.journal_size)
                           .text("hash", manifest.journal_hash.hex())
                           .str())
      .json("meta", manifest.meta)
      .text("root", manifest.root.hex())
      .json("units", json_array(units))
      .json("unstable", manifest.unstable);
  if (manifest.derived_from) {
    body.json("derived_from", JsonObject()
                                  .text("root", manifest.derived_from->root.hex())
                                  .text("version", manifest.derived_from->version)
                                  .str());
  }
  return record_line(body.str());
}

namespace {

/// The units, sorted by path.
std::vector<UnitRecord> units_from_json(const JsonValue& list) {
  Faults faults(kManifestName);
  std::vector<UnitRecord> units;
  for (size_t i = 0; i < list.size(); ++i) {
    faults.gather([&] {
      schema_of(kManifestName, [&] { units.push_back(unit_from_json(list.at(i), kManifestName)); });
    });
  }
  const bool sorted = std::is_sorted(units.begin(), units.end(),
                                     [](const auto& a, const auto& b) { return a.path < b.path; });
  if (!sorted) faults.add(Rule::kSchema, "the units are not sorted");
  faults.raise();
  return units;
}

Manifest manifest_from_json(const JsonValue& body) {
  Manifest manifest;
  manifest.complete = body["complete"].boolean();
  manifest.journal_size = static_cast<uint64_t>(body["journal"]["size"].integer(0, INT64_MAX));
  manifest.journal_hash = hash_from_json(body["journal"]["hash"], kManifestName);
  manifest.meta = meta_from_json(body["meta"], kManifestName);
  manifest.root = hash_from_json(body["root"], kManifestName);
  body["unstable"].members();
  manifest.unstable = body["unstable"].dump();
  if (const auto origin = body.find("derived_from")) {
    manifest.derived_from = DerivedFrom{(*origin)["version"].string(),
                                        hash_from_json((*origin)["root"], kManifestName)};
  }
  manifest.units = units_from_json(body["units"]);
  return manifest;
}

void check_unit_count(const JsonValue& body) {
  const auto units = body.find("units");
  if (units && units->is_array() && units->size() > kMaxUnits) {
    throw FormatError(Rule::kUnitCount,
                      std::to_string(units->size()) + " units, and a dump may have at most " +
                          std::to_string(kMaxUnits),
                      kManifestName);
  }
}

Manifest parse_text(std::string_view text) {
  if (!text.ends_with('\n')) {
    throw FormatError(Rule::kRecordSyntax, "the manifest is cut off: no end of line at its end",
                      kManifestName, {}, text.size());
  }
  text.remove_suffix(1);
  const RecordBody record = open_record(text, kManifestName);
  const JsonDocument document = JsonDocument::parse(record.body, kManifestName);
  const std::string version = check_header(document.root(), kManifestName);
  Manifest manifest = schema_of(kManifestName, [&] {
    check_unit_count(document.root());
    return manifest_from_json(document.root());
  });
  manifest.version = version;
  refuse_duplicates(manifest.units, kManifestName);
  const Hash root = root_of(manifest.meta, manifest.units);
  if (root != manifest.root) {
    throw FormatError(Rule::kRoot,
                      "the root is given as " + manifest.root.hex() +
                          ", and from the units follows " + root.hex(),
                      kManifestName);
  }
  return manifest;
}

}  // namespace

Manifest parse_manifest(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return at_byte(0, [&] { return parse_text(text); });
}

}  // namespace rlreplay::format
