#include "src/replay/exchange/source_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

constexpr auto kRunFolders =
    std::to_array<std::string_view>({"rollout_data", "train_data", "policy_loss_debug"});

bool is_run_folder(const std::string& name) {
  return std::find(kRunFolders.begin(), kRunFolders.end(), name) != kRunFolders.end();
}

/// `name` below `folder`, with the folder's own name where that belongs to a run.
std::string name_below(const fs::path& folder, const std::string& name) {
  const std::string parent = fs::absolute(folder).lexically_normal().filename().string();
  return is_run_folder(parent) ? parent + "/" + name : name;
}

/// "train_data/12" of "train_data/12_3.pt"; nothing for other names.
std::optional<std::string> rank_family(const std::string& name) {
  const auto digits = [](std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const fs::path path(name);
  const std::string stem = path.stem().string();
  const size_t bar = stem.find('_');
  if (bar == stem.npos || !digits(std::string_view(stem).substr(0, bar)) ||
      !digits(std::string_view(stem).substr(bar + 1))) {
    return std::nullopt;
  }
  return (path.parent_path() / stem.substr(0, bar)).string();
}

/// Digits as numbers: 2 before 10.
bool by_number(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& text) {
    std::string out, run;
    for (const char c : text + ' ') {
      if (c >= '0' && c <= '9') {
        run += c;
        continue;
      }
      if (!run.empty() && run.size() < 20) out.append(20 - run.size(), '0');
      out += run + c;
      run.clear();
    }
    return out;
  };
  return key(a) < key(b);
}

}  // namespace

std::vector<std::vector<SourceFile>> find_sources(const std::vector<std::string>& paths,
                                                  const std::string& ending) {
  std::vector<SourceFile> files;
  for (const std::string& path : paths) {
    if (!fs::exists(path)) throw Error(ErrorCode::kIncomplete, "there is no such file", path);
    if (!fs::is_directory(path)) {
      const fs::path file(path);
      if (path.ends_with(ending)) {
        files.push_back({path, name_below(file.parent_path(), file.filename().string())});
      }
      continue;
    }
    const auto options = fs::directory_options::skip_permission_denied;
    for (const auto& entry : fs::recursive_directory_iterator(path, options)) {
      const std::string name = fs::relative(entry.path(), path).string();
      if (!entry.is_regular_file() || !name.ends_with(ending)) continue;
      files.push_back({entry.path().string(), name_below(path, name)});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return by_number(a.name, b.name); });
  std::vector<std::vector<SourceFile>> found;
  std::map<std::string, size_t> families;
  for (SourceFile& file : files) {
    const std::optional<std::string> family = rank_family(file.name);
    if (family) {
      const auto [it, fresh] = families.emplace(*family, found.size());
      if (!fresh) {
        found[it->second].push_back(std::move(file));
        continue;
      }
    }
    found.push_back({std::move(file)});
  }
  return found;
}

}  // namespace rlreplay::replay
