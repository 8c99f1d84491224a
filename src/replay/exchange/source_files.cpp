#include "src/replay/exchange/source_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include <sys/stat.h>

#include "src/base/ascii.h"
#include "src/base/error.h"
#include "src/base/first_problems.h"
#include "src/base/input_file.h"
#include "src/base/words.h"

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
  // A file named alone has no parent; a slash or a dot at the end leaves no name behind it.
  const fs::path whole = fs::absolute(folder / ".").lexically_normal();
  const std::string parent = whole.parent_path().filename().string();
  return is_run_folder(parent) ? parent + "/" + name : name;
}

/// "train_data/12" of "train_data/12_3.pt"; nothing for other names.
std::optional<std::string> rank_family(const std::string& name) {
  const fs::path path(name);
  const std::string stem = path.stem().string();
  const size_t bar = stem.find('_');
  if (bar == stem.npos || !is_digits(std::string_view(stem).substr(0, bar)) ||
      !is_digits(std::string_view(stem).substr(bar + 1))) {
    return std::nullopt;
  }
  return (path.parent_path() / stem.substr(0, bar)).string();
}

/// Digits as numbers: 2 before 10.
bool by_number(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& text) {
    std::string out, run;
    for (const char c : text + ' ') {
      if (is_digit(c)) {
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

/// What may lie beside the files that are looked for, before the first of them and in all.
constexpr size_t kMostBefore = 100'000;
constexpr size_t kMostBeside = 1'000'000;
constexpr int kMostDepth = 16;

/// The folders that a walk went through: which it may enter, and when it has looked at enough.
class Look {
 public:
  Look(const fs::path& folder, std::string ending) : folder_(folder), ending_(std::move(ending)) {
    struct stat info {};
    if (::stat(folder.c_str(), &info) == 0) devices_.push_back(info.st_dev);
  }

  /// Whether a folder is looked into: each once, and another file system only by a link, or as a
  /// folder of a run.
  bool enters(const fs::directory_entry& entry, int depth) {
    count(false);
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0) return false;
    const auto level = static_cast<size_t>(depth);
    const bool here = level < devices_.size() && info.st_dev == devices_[level];
    if (!here && !entry.is_symlink() && !is_run_folder(entry.path().filename().string())) {
      return false;
    }
    if (!visited_.emplace(info.st_dev, info.st_ino).second) return false;
    if (depth >= kMostDepth) refuse(std::to_string(kMostDepth) + " folders lie in one another");
    devices_.resize(level + 1);
    devices_.push_back(info.st_dev);
    return true;
  }

  void take(const std::string& name) { count(name.ends_with(ending_)); }

 private:
  void count(bool wanted) {
    found_ += wanted;
    const size_t most = found_ == 0 ? kMostBefore : kMostBeside;
    if (++looked_ - found_ > most)
      refuse("there are more than " + std::to_string(most) + " others");
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kUsage,
                "the folder holds no manifest.json or journal of a dump of rlreplay, and " +
                    (found_ == 0 ? "no files" : counted(found_, "file")) + " ending in " + ending_ +
                    " were found before the search ended (" + why + "): name the dump's own folder",
                folder_.string());
  }

  fs::path folder_;
  std::string ending_;
  size_t looked_ = 0, found_ = 0;
  std::vector<dev_t> devices_;  // of the folders from the first to the one at hand
  std::set<std::pair<dev_t, ino_t>> visited_;
};

/// Whatever is no folder below one, by its path from there. Links to folders are followed.
/// Errors: kUsage where it is too much to be a run, of files with this ending; kEnvironment.
std::vector<std::string> files_below(const fs::path& folder, const std::string& ending) {
  std::vector<std::string> names;
  Look look(folder, ending);
  const auto options = fs::directory_options::skip_permission_denied |
                       fs::directory_options::follow_directory_symlink;
  try {
    for (fs::recursive_directory_iterator entry(folder, options), end; entry != end; ++entry) {
      std::error_code leads_nowhere;  // a link to itself is no folder
      if (entry->is_directory(leads_nowhere)) {
        if (!look.enters(*entry, entry.depth())) entry.disable_recursion_pending();
        continue;
      }
      if (is_run_folder(entry->path().filename().string())) {
        throw Error(ErrorCode::kIncomplete, "a run keeps a folder of this name, and this is none",
                    entry->path().string());
      }
      if (leads_nowhere) entry.disable_recursion_pending();
      names.push_back(entry->path().lexically_relative(folder).string());
      look.take(names.back());
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorCode::kEnvironment, "cannot look into it: " + error.code().message(),
                error.path1().string());
  }
  return names;
}

/// The rank of a file with a family.
int64_t rank_of(const std::string& name) {
  const std::string stem = fs::path(name).stem().string();
  return std::strtoll(stem.c_str() + stem.find('_') + 1, nullptr, 10);
}

/// The rollout of a file with a family, as its name says it.
std::string rollout_of(const std::string& name) {
  const std::string stem = fs::path(name).stem().string();
  return stem.substr(0, stem.find('_'));
}

/// The rollouts that have a file of a rank: how many, and the first of them.
struct RankRollouts {
  size_t count = 0;
  std::vector<std::string> first;
};

constexpr size_t kMostRolloutsNamed = 4;

using FolderRanks = std::map<int64_t, RankRollouts>;

std::string folder_of(const SourceFile& file) { return fs::path(file.name).parent_path().string(); }

/// The rollouts that have a file, by folder and rank; rank 0 is there too.
std::map<std::string, FolderRanks> ranks_by_folder(
    const std::vector<std::vector<SourceFile>>& sources) {
  std::map<std::string, FolderRanks> folders;
  for (const auto& family : sources) {
    for (const SourceFile& file : family) {
      if (!names_rank(file.name)) continue;
      RankRollouts& rollouts = folders[folder_of(file)][rank_of(file.name)];
      if (rollouts.first.size() < kMostRolloutsNamed) {
        rollouts.first.push_back(rollout_of(file.name));
      }
      ++rollouts.count;
    }
  }
  for (auto& [name, ranks] : folders) ranks.try_emplace(0);  // they are counted from there
  return folders;
}

/// "a file of rollout 3", "files of rollouts 0, 1, 2, 3 and 5 more".
std::string files_of_rollouts(const RankRollouts& rollouts) {
  if (rollouts.count == 1) return "a file of rollout " + rollouts.first.front();
  std::string out = "files of rollouts ";
  for (size_t i = 0; i < rollouts.first.size(); ++i) {
    out += (i == 0 ? "" : ", ") + rollouts.first[i];
  }
  const size_t others = rollouts.count - rollouts.first.size();
  return out + (others == 0 ? "" : " and " + std::to_string(others) + " more");
}

/// The problem that rank `rank` of the rollout of `first` has no file, though `others`, rollouts of
/// its folder, have one; of none it is rank 0, from which ranks are counted.
foreign::Problem missing_rank(const SourceFile& first, int64_t rank, const RankRollouts& others) {
  const fs::path of(first.name);
  const fs::path name = of.parent_path() / (rollout_of(first.name) + "_" + std::to_string(rank) +
                                            of.extension().string());
  return {"rank-missing",
          name.string() + " is not there, and rank " +
              (others.count > 0 ? std::to_string(rank) + " has " + files_of_rollouts(others)
                                : std::to_string(rank_of(first.name)) + " has a file: ranks are "
                                                                        "counted from 0"),
          (fs::path(first.path).parent_path() / name.filename()).string()};
}

}  // namespace

bool names_rank(const std::string& name) { return rank_family(name).has_value(); }

std::vector<foreign::Problem> find_rank_gaps(const std::vector<std::vector<SourceFile>>& sources,
                                             size_t most) {
  const std::map<std::string, FolderRanks> folders = ranks_by_folder(sources);
  FirstProblems<foreign::Problem> problems(most);
  for (const auto& family : sources) {
    const SourceFile& first = family.front();
    if (!names_rank(first.name)) continue;
    std::set<int64_t> there;
    for (const SourceFile& file : family) there.insert(rank_of(file.name));
    const FolderRanks& ranks = folders.at(folder_of(first));
    size_t missing = ranks.size() - there.size();
    // A rank of this family is passed over once, and no other one is looked at beyond the most.
    for (auto at = ranks.begin(); missing > 0 && !problems.full(); ++at) {
      if (there.contains(at->first)) continue;
      problems.add(missing_rank(first, at->first, at->second));
      --missing;
    }
    problems.leave_out(missing);
  }
  return std::move(problems).take();
}

void check_ranks(const std::vector<std::vector<SourceFile>>& sources) {
  const auto missing = find_rank_gaps(sources, 1);
  if (missing.empty()) return;
  throw Error(ErrorCode::kIncomplete, missing.front().message, missing.front().where);
}

std::vector<std::string> other_names(const std::string& folder, const std::string& ending) {
  std::vector<std::string> names = files_below(folder, ending);
  std::erase_if(names, [&](const std::string& name) { return name.ends_with(ending); });
  return names;
}

std::map<std::string, size_t> other_files(const std::vector<std::string>& paths,
                                          const std::string& ending) {
  std::map<std::string, size_t> others;
  const auto top = [](const std::string& name) { return name.substr(0, name.find('/') + 1); };
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) continue;
    const std::vector<std::string> names = files_below(path, ending);
    std::set<std::string> read;  // folders that hold some of these endings: their others have names
    for (const std::string& name : names) {
      if (name.ends_with(ending)) read.insert(top(name));
    }
    for (const std::string& name : names) {
      if (name.ends_with(ending)) continue;
      const bool alone = top(name).empty() || read.contains(top(name));
      ++others[alone ? name : top(name)];
    }
  }
  return others;
}

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
    for (const std::string& name : files_below(path, ending)) {
      if (!name.ends_with(ending)) continue;
      files.push_back({(fs::path(path) / name).string(), name_below(path, name)});
      check_regular_file(files.back().path);
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
