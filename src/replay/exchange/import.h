#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/tree_check.h"
#include "src/base/hash.h"
#include "src/base/json_line.h"

namespace rlreplay::replay {

/// What is imported, what is known of it besides, and where the dump goes.
struct ImportOptions {
  std::vector<std::string> paths;  // files, or folders as --dump-details leaves them
  std::string output;
  std::string format;      // slime, miles, relax or jsonl; empty: judged by content
  std::string reward_key;  // picks a number where a reward is a dict
  std::string launch;      // JSON object: how the run was started; empty where that is not known
  bool force = false;      // replace an older dump
  bool temporary = false;  // made for looking, and thrown away: nothing waits for the disk
  int threads = 2;
};

/// One file that was read, and what it was.
struct ImportedFile {
  std::string path;
  std::string layout;  // "Miles, one file a rank (since 2026-08-17)"
};

/// What an import read and made. `samples` and `tokens` are those of rollouts, prompts included.
struct ImportReport {
  std::vector<ImportedFile> files;
  std::vector<foreign::Problem> findings;
  std::map<std::string, std::string> sources;  // each unit, and the file that it comes from
  uint64_t rollouts = 0;
  uint64_t steps = 0;
  uint64_t samples = 0;
  uint64_t tokens = 0;
  Hash root;
};

/// A line a kind of finding, for people.
[[nodiscard]] std::string findings_text(const ImportReport& report);

/// The beginning of the line that says for machines what an import to `dump` made.
[[nodiscard]] JsonLine import_line(std::string_view schema, const std::string& dump,
                                   const ImportReport& report);

/// Told each file before it is read.
using ImportProgress = std::function<void(const std::string& path)>;

/// Reads other people's debug dumps into a dump of ours, and runs nothing that they carry. Shards
/// of one rollout are put together; what has no place of its own is kept in `x-` units, from which
/// export writes files of the same content.
/// Errors: kUsage where nothing is found or two files hold the same; kIncomplete where a rank's
/// file is missing; those of TorchFile and assemble_train. Nothing is left behind then.
[[nodiscard]] ImportReport import_dump(const ImportOptions& options,
                                       const ImportProgress& progress = {});

}  // namespace rlreplay::replay
