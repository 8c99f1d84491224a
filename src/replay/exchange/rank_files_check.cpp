#include "src/replay/exchange/rank_files_check.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "format/foreign/dump_check.h"
#include "format/foreign/train_batch.h"
#include "format/foreign/train_shard.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/words.h"
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

std::string list_of(const std::vector<int64_t>& ranks) {
  constexpr size_t kMost = 8;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return out + (ranks.size() > kMost ? ", ..." : "");
}

/// The first ranks that are not there, by the numbers of those that are. Ranks are counted from 0;
/// Miles since 2026-09 writes those of tensor rank 0 alone: every second, say.
std::vector<int64_t> rank_gaps(const std::set<int64_t>& there) {
  constexpr size_t kMost = 100;
  int64_t step = 0;
  for (const int64_t rank : there) step = std::gcd(step, rank);
  std::vector<int64_t> out;
  for (int64_t rank = 0; step > 0 && rank < *there.rbegin() && out.size() < kMost; rank += step) {
    if (!there.contains(rank)) out.push_back(rank);
  }
  return out;
}

/// Whether some samples are in more of the files than others, which compare_replicas says.
bool has_other_copies(const std::vector<TrainShard>& shards) {
  std::map<std::vector<int64_t>, size_t> copies;
  for (const TrainShard& shard : shards) ++copies[shard.indices()];
  return std::ranges::any_of(copies,
                             [&](const auto& of) { return of.second != copies.begin()->second; });
}

/// That files hold too few samples, and of which ranks they lack those.
Problem rank_missing(const std::vector<TrainShard>& shards, const std::string& found) {
  std::set<int64_t> there;
  for (const TrainShard& shard : shards) there.insert(shard.rank());
  const std::string where = rollout_name(shards.front());
  if (shards.front().is_whole()) {
    return {"rank-missing", found + ": those of another rank are missing", where};
  }
  const std::vector<int64_t> gaps = rank_gaps(there);
  if (!gaps.empty()) {
    return {"rank-missing",
            found + ": the " + (gaps.size() == 1 ? "file" : "files") + " of " + list_of(gaps) +
                (gaps.size() == 1 ? " is missing" : " are missing"),
            where};
  }
  const int64_t last = *there.rbegin();
  const bool alternate = last > 0 && last + 1 != std::ssize(there);
  return {"rank-missing",
          found + ": another rank's file is missing" +
              (alternate ? ", of a number between these (from rank 1 on) or above them" : ""),
          where};
}

/// Holds the sizes of batches against the samples that are there, and those against the numbers of
/// the ranks. `generated`: samples of their rollout, where that is there.
void check_batch_size(std::span<const TorchFile* const> files,
                      const std::vector<TrainShard>& shards, std::optional<size_t> generated,
                      std::vector<Problem>& problems) {
  const TorchFile& file = *files.front();
  // A selection of samples, exported, is divided by the numbers of all.
  if (file.tree().find(file.root(), "rlreplay") != nullptr) return;
  const std::vector<int64_t> sizes = read_taken(files);
  const TrajectoryCheck found = check_trajectories(shards, sizes);
  std::ranges::copy(found.problems, std::back_inserter(problems));
  std::set<int64_t> ranks, samples;
  for (const TrainShard& shard : shards) {
    ranks.insert(shard.rank());
    samples.insert(shard.indices().begin(), shard.indices().end());
  }
  const bool whole = shards.front().is_whole();
  const std::string hold = (whole ? "the file holds "
                                  : (ranks.size() == 1 ? "the file of " : "the files of ") +
                                        list_of({ranks.begin(), ranks.end()}) +
                                        (ranks.size() == 1 ? " holds " : " hold "));
  if (found.missing() <= 0) {
    std::ranges::move(check_step_sizes(files, sizes, found), std::back_inserter(problems));
    const bool all = found.missing() == 0;
    const bool numbered = ranks.size() == shards.size();  // each says another rank
    const bool told = !ranks.contains(0);                 // as the gap before the first file
    if (all || whole || !numbered || told || has_other_copies(shards) || rank_gaps(ranks).empty())
      return;
    problems.push_back(rank_missing(shards, hold + counted(samples.size(), "sample")));
    return;
  }
  auto oversized = check_sizes_of_all(shards, found, generated);
  if (!oversized.empty()) {
    std::ranges::move(oversized, std::back_inserter(problems));
    return;
  }
  problems.push_back(rank_missing(shards, "the steps took " + std::to_string(found.taken) +
                                              " samples, " + hold + std::to_string(found.named)));
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

std::vector<Problem> check_rank_files(std::span<const TorchFile* const> files,
                                      std::optional<size_t> generated) {
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
    guarded(problems, [&] { check_batch_size(files, shards, generated, problems); });
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
