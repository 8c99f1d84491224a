#include "src/replay/exchange/other_difference.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>

#include "src/base/input_file.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/source_files.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOthers = 6;
constexpr uintmax_t kMostRead = uintmax_t{1} << 30;  // bytes of each side, for notes

std::set<std::string> others_in(const std::string& folder) {
  const std::vector<std::string> names = other_names(folder, ".pt");
  return {names.begin(), names.end()};
}

bool same_bytes(const std::string& a, const std::string& b) {
  std::ifstream in_a(a, std::ios::binary), in_b(b, std::ios::binary);
  std::array<char, 1 << 16> x, y;
  while (in_a.good() && in_b.good()) {
    in_a.read(x.data(), x.size());
    in_b.read(y.data(), y.size());
    const auto size = static_cast<size_t>(in_a.gcount());
    if (in_a.gcount() != in_b.gcount() || !std::equal(x.begin(), x.begin() + size, y.begin())) {
      return false;
    }
  }
  return in_a.eof() && in_b.eof();
}

/// What is said of a file of both; empty where it is the same. `left`: bytes that may be read yet.
std::string compared(const std::string& a, const std::string& b, uintmax_t& left) {
  try {
    check_regular_file(a);
    check_regular_file(b);
    const uintmax_t size = fs::file_size(a);
    if (size != fs::file_size(b)) return "differs";
    if (size > left) return "was not compared (both are too large to be read for a note)";
    left -= size;
    return same_bytes(a, b) ? "" : "differs";
  } catch (const std::exception&) {
    return "was not compared (it cannot be read)";
  }
}

}  // namespace

std::vector<std::string> other_differences(const std::string& a, const std::string& b) {
  for (const std::string& path : {a, b}) {
    if (!fs::is_directory(path) || is_native_dump(path)) return {};
  }
  if (fs::equivalent(a, b)) return {};
  const std::set<std::string> in_a = others_in(a), in_b = others_in(b);
  std::vector<std::string> found;
  uintmax_t left = kMostRead;
  for (const std::string& name : in_a) {
    if (!in_b.contains(name)) {
      found.push_back(name + " is only in A");
      continue;
    }
    const std::string what =
        compared((fs::path(a) / name).string(), (fs::path(b) / name).string(), left);
    if (!what.empty()) found.push_back(name + " " + what);
  }
  for (const std::string& name : in_b) {
    if (!in_a.contains(name)) found.push_back(name + " is only in B");
  }
  std::vector<std::string> notes;
  for (size_t i = 0; i < std::min(found.size(), kMostOthers); ++i) {
    notes.push_back(found[i] + ": only .pt files are read, and it is no part of the content");
  }
  if (found.size() > kMostOthers) {
    notes.push_back("and " + counted(found.size() - kMostOthers, "more file") + " of this kind");
  }
  return notes;
}

}  // namespace rlreplay::replay
