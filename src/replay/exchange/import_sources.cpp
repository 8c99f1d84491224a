#include "src/replay/exchange/import_sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/replay/exchange/any_dump.h"

namespace rlreplay::replay {
namespace {

/// A file that was named and would not be read.
void refuse_other_files(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (path.ends_with(".pt") || std::filesystem::is_directory(path)) continue;
    throw Error(ErrorCode::kUsage,
                "this is no .pt file, and nothing of it would be read: leave it out", path);
  }
}

/// Whether a file begins as an object of JSON does.
bool begins_as_object(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char first = 0, second = 0;
  file >> first >> second;  // past blanks
  return first == '{' && (second == '"' || second == '}');
}

[[noreturn]] void refuse_nothing_found(const std::vector<std::string>& paths) {
  const std::string& first = paths.front();
  if (is_native_dump(first)) {
    throw Error(ErrorCode::kUsage,
                "this is a dump of rlreplay already, and an import reads files of others: "
                "rlreplay show " +
                    shell_word(first),
                first);
  }
  std::ranges::for_each(paths, check_no_unnamed_lines);
  if (std::filesystem::is_regular_file(first)) {
    throw Error(
        ErrorCode::kUsage,
        "this is no file that is read: a dump of rlreplay is a folder, files of slime, Miles "
        "or Relax end in .pt, lines of JSON in .jsonl",
        first);
  }
  const std::string nothing = "there is no dump of rlreplay and there are no .pt files here";
  std::string found = nothing;
  if (!find_sources(paths, ".parquet").empty()) {
    found +=
        "; Parquet files, as TRL and verl write them, hold texts without token ids and "
        "log-probabilities: nothing of them can be replayed";
  } else if (!find_sources(paths, ".jsonl").empty()) {
    found += "; of JSONL name the one file (rlreplay import --help says what it holds)";
  }
  const bool empty = found == nothing && std::filesystem::is_directory(first);
  throw Error(empty ? ErrorCode::kIncomplete : ErrorCode::kUsage, found, first);
}

}  // namespace

void check_no_unnamed_lines(const std::string& path) {
  const bool named = path.ends_with(".pt") || path.ends_with(".jsonl");
  if (named || !std::filesystem::is_regular_file(path) || !begins_as_object(path)) return;
  throw Error(ErrorCode::kUsage,
              "the file begins as lines of JSON do, which are known by a name that ends in .jsonl: "
              "name it so, or take it in with rlreplay import --format jsonl",
              path);
}

std::vector<std::vector<SourceFile>> sources_of_import(const std::vector<std::string>& paths) {
  auto sources = find_sources(paths, ".pt");
  if (sources.empty()) refuse_nothing_found(paths);
  refuse_other_files(paths);
  check_ranks(sources);
  // Rollouts and train dumps first: they say which framework the other files belong to.
  std::stable_partition(sources.begin(), sources.end(), [](const auto& family) {
    const std::string& name = family.front().name;
    return name.starts_with("rollout_data/") || name.starts_with("train_data/");
  });
  return sources;
}

std::optional<foreign::Problem> left_behind(const std::vector<std::string>& paths) {
  constexpr size_t kMostNamed = 8;
  std::string names;  // of trajectories, dashboards, tokenizers
  size_t left = 0;
  for (const auto& [name, count] : other_files(paths, ".pt")) {
    if (++left > kMostNamed) continue;
    names += (names.empty() ? "" : ", ") + name;
    if (count > 1) names += " (" + std::to_string(count) + " files)";
  }
  if (names.empty()) return std::nullopt;
  if (left > kMostNamed) names += " and " + std::to_string(left - kMostNamed) + " more";
  return foreign::Problem{
      "not-imported",
      "only .pt files are read; these stay behind, and an export will not have them: " + names,
      paths.front()};
}

}  // namespace rlreplay::replay
