#include "format/manifest.h"

#include <algorithm>

#include "format/faults.h"
#include "format/record.h"
#include "src/base/printable.h"

namespace rlreplay::format {

namespace {

std::string journal_json(const JournalEntry& journal) {
  return JsonObject()
      .boolean("ended", journal.ended)
      .text("hash", journal.hash.hex())
      .number("size", journal.size)
      .text("writer", journal.writer)
      .str();
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  std::vector<std::string> journals;
  for (const JournalEntry& journal : manifest.journals) journals.push_back(journal_json(journal));
  JsonObject body;
  put_header(body);
  body.boolean("complete", manifest.complete)
      .json("index", JsonObject()
                         .text("hash", manifest.index.hash.hex())
                         .number("size", manifest.index.size)
                         .number("units", manifest.index.units)
                         .str())
      .json("journals", json_array(journals))
      .json("meta", manifest.meta)
      .text("root", manifest.root.hex())
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

/// The units of version 0.1, sorted by path.
std::vector<UnitRecord> units_from_json(const JsonValue& list) {
  Faults faults(kManifestName);
  std::vector<UnitRecord> units;
  for (size_t i = 0; i < list.size(); ++i) {
    faults.gather([&] {
      schema_of(kManifestName, [&] { units.push_back(unit_from_json(list.at(i), kManifestName)); });
    });
  }
  const auto unsorted = std::ranges::is_sorted_until(units, {}, &UnitRecord::path);
  if (unsorted != units.end()) {
    faults.add(Rule::kSchema, "the units are not sorted: " + printable(unsorted->path) +
                                  " stands behind " + printable((unsorted - 1)->path));
  }
  faults.raise();
  return units;
}

JournalEntry journal_from_json(const JsonValue& value) {
  JournalEntry journal;
  journal.size = static_cast<uint64_t>(value["size"].integer(0, INT64_MAX));
  journal.hash = hash_from_json(value["hash"], kManifestName);
  return journal;
}

/// The journals, sorted by writer.
std::vector<JournalEntry> journals_from_json(const JsonValue& list) {
  std::vector<JournalEntry> journals;
  if (list.size() == 0 || list.size() > kMaxWriters) {
    throw list.error("expected 1 to " + std::to_string(kMaxWriters) + " journals");
  }
  for (size_t i = 0; i < list.size(); ++i) {
    JournalEntry journal = journal_from_json(list.at(i));
    journal.writer = list.at(i)["writer"].string();
    journal.ended = list.at(i)["ended"].boolean();
    if (!sound_name(journal.writer)) throw list.at(i).error("the writer has no sound name");
    if (!journals.empty() && journals.back().writer >= journal.writer) {
      throw list.at(i).error("the journals are not sorted by writer");
    }
    journals.push_back(std::move(journal));
  }
  return journals;
}

/// `old`: as version 0.1 had it.
Manifest manifest_from_json(const JsonValue& body, bool old) {
  Manifest manifest;
  manifest.complete = body["complete"].boolean();
  if (old) {
    manifest.journals = {journal_from_json(body["journal"])};
  } else {
    manifest.journals = journals_from_json(body["journals"]);
    const bool ended = std::ranges::all_of(manifest.journals, &JournalEntry::ended);
    if (ended != manifest.complete) {
      throw body["complete"].error("a dump is complete where all of its journals have ended");
    }
  }
  manifest.meta = meta_from_json(body["meta"], kManifestName);
  manifest.root = hash_from_json(body["root"], kManifestName);
  body["unstable"].members();
  manifest.unstable = body["unstable"].dump();
  if (const auto origin = body.find("derived_from")) {
    manifest.derived_from = DerivedFrom{(*origin)["version"].string(),
                                        hash_from_json((*origin)["root"], kManifestName)};
  }
  if (old) {
    manifest.old_units = units_from_json(body["units"]);
  } else {
    const JsonValue index = body["index"];
    manifest.index.size = static_cast<uint64_t>(index["size"].integer(0, kMaxIndexBytes));
    manifest.index.units = static_cast<uint64_t>(index["units"].integer(0, kMaxUnits));
    manifest.index.hash = hash_from_json(index["hash"], kManifestName);
  }
  return manifest;
}

void check_unit_count(const JsonValue& body) {
  const auto units = body.find("units"), index = body.find("index");
  uint64_t count = units && units->is_array() ? units->size() : 0;
  if (index && index->is_object()) {
    const auto named = index->find("units");
    if (named && named->is_integer()) {
      count = static_cast<uint64_t>(named->integer(INT64_MIN, INT64_MAX));
    }
  }
  if (count <= kMaxUnits || count > INT64_MAX) return;
  throw FormatError(
      Rule::kUnitCount,
      std::to_string(count) + " units, and a dump may have at most " + std::to_string(kMaxUnits),
      kManifestName);
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
  const bool old = version == kOldVersion;
  Manifest manifest = schema_of(kManifestName, [&] {
    check_unit_count(document.root());
    return manifest_from_json(document.root(), old);
  });
  manifest.version = version;
  refuse_duplicates(manifest.old_units, kManifestName);
  return manifest;
}

}  // namespace

Manifest parse_manifest(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return at_byte(0, [&] { return parse_text(text); });
}

}  // namespace rlreplay::format
