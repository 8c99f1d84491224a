#include "format/incomplete.h"

#include <unistd.h>

#include "format/faults.h"
#include "format/manifest.h"
#include "format/record.h"

namespace rlreplay::format {

void check_incomplete(const Folder& folder) {
  static_cast<void>(folder.open_file(kIncompleteName));
}

void write_incomplete(const Folder& folder, const std::string& unstable, System& system) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string line = record_line(JsonObject()
                                           .text("host", host)
                                           .number("process", static_cast<uint64_t>(::getpid()))
                                           .json("unstable", unstable)
                                           .str());
  folder.write_whole(kIncompleteName, std::as_bytes(std::span<const char>(line)), system);
}

namespace {

std::string unstable_of(std::string_view text) {
  if (!text.ends_with('\n')) {
    throw FormatError(Rule::kRecordSyntax, "the record is cut off: no end of line at its end",
                      kIncompleteName, {}, text.size());
  }
  text.remove_suffix(1);
  const RecordBody record = open_record(text, kIncompleteName);
  const JsonDocument document = JsonDocument::parse(record.body, kIncompleteName);
  return schema_of(kIncompleteName, [&]() -> std::string {
    const auto unstable = document.root().find("unstable");
    if (!unstable) return "{}";
    unstable->members();
    return unstable->dump();
  });
}

}  // namespace

std::string read_incomplete(const Folder& folder) {
  const auto bytes = folder.read(kIncompleteName, kMaxManifestBytes);
  if (!bytes || bytes->size() == 0) return "{}";
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return at_byte(0, [&] { return unstable_of(text); });
}

/// That a dump is not finished is said by the mark's being there: one that cannot be read says no
/// more.
std::string find_incomplete(const Folder& folder) {
  try {
    return read_incomplete(folder);
  } catch (const Error&) {
    return "{}";
  }
}

}  // namespace rlreplay::format
