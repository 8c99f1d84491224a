#include "src/replay/exchange/any_dump.h"

#include <filesystem>

#include "src/base/temporary_folder.h"
#include "src/replay/exchange/import.h"

namespace rlreplay::replay {

namespace fs = std::filesystem;

bool is_native_dump(const std::string& path) {
  return fs::exists(fs::path(path) / "manifest.json") ||
         fs::exists(fs::path(path) / "journal.jsonl");
}

AnyDump::AnyDump(const std::string& path) : path_(path) {
  if (is_native_dump(path)) {
    reader_ = std::make_unique<format::DumpReader>(format::DumpReader::open(path));
    return;
  }
  temporary_ = make_temporary_folder("rlreplay");
  try {
    ImportOptions options;
    options.paths = {path};
    options.output = temporary_ + "/dump";
    import_dump(options);
    path_ = options.output;
    reader_ = std::make_unique<format::DumpReader>(format::DumpReader::open(path_));
  } catch (...) {
    fs::remove_all(temporary_);
    throw;
  }
}

AnyDump::~AnyDump() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

}  // namespace rlreplay::replay
