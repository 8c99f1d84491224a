#include "src/replay/exchange/any_dump.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/replay/exchange/import.h"

namespace rlreplay::replay {

namespace fs = std::filesystem;

bool is_native_dump(const std::string& path) {
  return fs::exists(fs::path(path) / "manifest.json") ||
         fs::exists(fs::path(path) / "journal.jsonl");
}

void check_no_part(const std::string& path) {
  const fs::path file(path);
  const std::string name = file.filename().string();
  if (name == "manifest.json" || name == "journal.jsonl" || file.extension() == ".h5") {
    throw Error(ErrorCode::kUsage, "the file is part of a dump: name the dump's folder", path);
  }
}

AnyDump::AnyDump(const std::string& path) : path_(path) {
  if (is_native_dump(path)) {
    reader_ = std::make_unique<format::DumpReader>(format::DumpReader::open(path));
    return;
  }
  check_no_part(path);
  temporary_.emplace("rlreplay");
  ImportOptions options;
  options.paths = {path};
  options.output = temporary_->path() + "/dump";
  import_dump(options);
  path_ = options.output;
  reader_ = std::make_unique<format::DumpReader>(format::DumpReader::open(path_));
}

}  // namespace rlreplay::replay
