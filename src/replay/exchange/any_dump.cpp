#include "src/replay/exchange/any_dump.h"

#include <filesystem>

#include <stdlib.h>

#include "src/base/error.h"
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
  std::string folder = (fs::temp_directory_path() / "rlreplay-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    throw Error(ErrorCode::kEnvironment, "cannot make a temporary folder", folder);
  }
  temporary_ = folder;
  try {
    ImportOptions options;
    options.paths = {path};
    options.output = folder + "/dump";
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
