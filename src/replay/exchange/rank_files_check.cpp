#include "src/replay/exchange/rank_files_check.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "format/foreign/dump_check.h"
#include "format/foreign/train_batch.h"
#include "format/foreign/train_shard.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/replay/exchange/rank_schedules.h"
#include "src/replay/exchange/rollout_copies.h"
#include "src/replay/exchange/schedule_check.h"
#include "src/replay/exchange/train_schedule.h"
#include "src/replay/exchange/trajectory_check.h"

namespace rlreplay::replay {
namespace {

using foreign::Problem;
using foreign::TorchFile;
using foreign::TrainShard;

std::string rollout_name(const TrainShard& shard) {
  return "rollout " + std::to_string(shard.rollout_id());
}

/// Ranks are counted from 0; Miles since 2026-09 writes those of tensor rank 0 alone, so numbers
/// may be left out where no sample is.
void check_batch_size(std::span<const TorchFile* const> files,
                      const std::vector<TrainShard>& shards, std::vector<Problem>& problems) {
  const TorchFile& file = *files.front();
  // A selection of samples, exported, is divided by the numbers of all.
  if (file.tree().find(file.root(), "rlreplay") != nullptr) return;
  const TrajectoryCheck found = check_trajectories(shards, read_batch_sizes(files));
  std::ranges::copy(found.problems, std::back_inserter(problems));
  if (found.missing() <= 0) {
    std::ranges::move(check_step_sizes(files, found), std::back_inserter(problems));
    return;
  }
  std::set<int64_t> ranks;
  for (const TrainShard& shard : shards) ranks.insert(shard.rank());
  std::string there;
  for (const int64_t rank : ranks) there += (there.empty() ? "" : ", ") + std::to_string(rank);
  const bool whole = shards.front().is_whole();
  problems.push_back(
      {"rank-missing",
       "the steps took " + std::to_string(found.taken) + " samples, " +
           (whole ? "the file holds " : "the files of rank " + there + " hold ") +
           std::to_string(found.named) + ": " +
           (whole ? "those of another rank are missing" : "another rank's file is missing"),
       rollout_name(shards.front())});
}

/// Samples that one file lists twice: what is said of its other samples follows from that.
/// The code is that of the refusal by assemble_train.
void check_twice(const std::vector<TrainShard>& shards, std::vector<Problem>& problems) {
  for (const TrainShard& shard : shards) {
    std::map<int64_t, size_t> rows;
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      const auto [at, fresh] = rows.emplace(shard.indices()[row], row);
      if (fresh) continue;
      problems.push_back({std::string(to_string(ErrorCode::kCorrupt)),
                          "sample " + std::to_string(at->first) +
                              " is listed twice in one file, in rows " +
                              std::to_string(at->second) + " and " + std::to_string(row),
                          shard.path()});
      break;
    }
  }
}

/// What a name says of the file's content, by key.
using NameNumbers = std::vector<std::pair<std::string, int64_t>>;

/// The numbers of the texts around a bar ("12_3"), or of one text ("12"); empty where one is none.
NameNumbers numbers_of(std::string_view text, const char* first, const char* second) {
  const size_t bar = std::min(text.find('_'), text.size());
  const auto before = parse_number<int64_t>(text.substr(0, bar));
  const auto behind = parse_number<int64_t>(text.substr(std::min(bar + 1, text.size())));
  if (!before || *before < 0 || (bar < text.size() && !behind)) return {};
  NameNumbers out = {{first, *before}};
  if (behind) out.emplace_back(second, *behind);
  return out;
}

/// The numbers of a name: "train_data/12_3.pt", "rollout_data/eval_12.pt" of an evaluation,
/// "policy_loss_debug/rank_0_call_2.pt"; empty for other names.
NameNumbers numbers_in(const std::filesystem::path& name) {
  const std::string folder = name.parent_path().filename().string();
  std::string stem = name.stem().string();
  const bool terms = folder == "policy_loss_debug" && stem.starts_with("rank_");
  const size_t call = stem.find("_call_");
  if (terms && call != stem.npos && call > 5) {
    return numbers_of(stem.substr(5, call - 4) + stem.substr(call + 6), "rank", "call");
  }
  if (folder != "train_data" && folder != "rollout_data") return {};
  return numbers_of(stem.substr(stem.starts_with("eval_") ? 5 : 0), "rollout_id", "rank");
}

/// What a file of this kind holds, in words.
std::string_view words_of(foreign::DumpKind kind) {
  if (kind == foreign::DumpKind::kRollout) return "samples of a rollout";
  return kind == foreign::DumpKind::kPolicyLoss ? "terms of the policy's loss" : "training data";
}

/// What a file in this folder of a run holds, in the same words.
std::string_view words_of_folder(std::string_view folder) {
  if (folder == "rollout_data") return words_of(foreign::DumpKind::kRollout);
  if (folder == "policy_loss_debug") return words_of(foreign::DumpKind::kPolicyLoss);
  return words_of(foreign::DumpKind::kTrainRank);
}

/// Does the work of one check: an error that ends it becomes a problem, and other checks follow.
template <class Work>
void guarded(std::vector<Problem>& problems, Work work) {
  try {
    work();
  } catch (const Error& error) {
    const bool incomplete = error.code() == ErrorCode::kIncomplete;
    problems.push_back({incomplete ? "slice-missing" : std::string(to_string(error.code())),
                        error.what(), error.where()});
  }
}

}  // namespace

bool names_dump(const std::string& name) { return !numbers_in(name).empty(); }

std::vector<Problem> check_name(const std::string& name, const TorchFile& file) {
  std::vector<Problem> problems;
  const foreign::DumpKind kind = dump_kind(file.tree(), file.root());
  const NameNumbers numbers = numbers_in(name);
  if (kind == foreign::DumpKind::kNone || numbers.empty()) return problems;
  const std::string folder = std::filesystem::path(name).parent_path().filename().string();
  if (const auto said = words_of_folder(folder); said != words_of(kind)) {
    return {{"name-mismatch",
             "the file holds " + std::string(words_of(kind)) + ", its name is of " +
                 std::string(said) + ": it may be a copy in another's place",
             file.path()}};
  }
  for (const auto& [key, said] : numbers) {
    const auto found = file.tree().integer(file.root(), key);
    if (!found || *found == said) continue;
    problems.push_back({"name-mismatch",
                        "the file says it is of " + key + " " + std::to_string(*found) +
                            ", its name of " + std::to_string(said) +
                            ": it may be a copy in another's place",
                        file.path()});
  }
  return problems;
}

std::vector<Problem> check_rank_files(std::span<const TorchFile* const> files, bool generated) {
  std::vector<Problem> problems;
  std::vector<TrainShard> shards;
  guarded(problems, [&] {
    for (const TorchFile* file : files) shards.emplace_back(*file);
  });
  check_twice(shards, problems);
  if (shards.empty() || !problems.empty()) return problems;
  for (const TorchFile* file : files) {
    guarded(problems,
            [&] { std::ranges::move(check_schedule(*file), std::back_inserter(problems)); });
  }
  std::ranges::move(compare_schedules(files), std::back_inserter(problems));
  // Sizes of batches that contradict themselves say nothing of other files.
  if (!shards.front().is_whole() || problems.empty()) {
    guarded(problems, [&] { check_batch_size(files, shards, problems); });
  }
  guarded(problems, [&] {
    for (const Problem& found : assemble_train(files).findings) {
      // What was settled by a rule is no contradiction.
      if (found.code != "padding-removed" && found.code != "partial-column") {
        problems.push_back(found);
      }
    }
    std::ranges::move(check_layouts(files), std::back_inserter(problems));
    if (!generated) std::ranges::move(compare_raw_rewards(files), std::back_inserter(problems));
  });
  return problems;
}

}  // namespace rlreplay::replay
