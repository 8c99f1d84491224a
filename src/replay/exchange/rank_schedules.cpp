#include "src/replay/exchange/rank_schedules.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "format/foreign/numbers.h"
#include "format/foreign/train_columns.h"
#include "format/foreign/tree_difference.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using foreign::Numbers;
using foreign::Value;

/// Adds what a file says otherwise than another one of its rollout.
auto reporting(std::vector<foreign::Problem>& problems) {
  return [&problems](const foreign::TorchFile* file, const std::string& message) {
    problems.push_back({"schedule-mismatch", message + ", of the same rollout", file->path()});
  };
}

/// Reports each file of a rollout that lacks a key which another one has, as `find` sees it.
template <class Find, class Report>
void check_presence(std::span<const foreign::TorchFile* const> files, std::string_view key,
                    Find find, Report report) {
  const auto has = std::ranges::find_if(files, [&](auto* file) { return find(*file) != nullptr; });
  if (has == files.end()) return;
  for (const foreign::TorchFile* file : files) {
    if (find(*file) != nullptr) continue;
    report(file, std::string(key) + " is missing in " + file->name() + ", and " + (*has)->name() +
                     " has it");
  }
}

/// The dict of each of several files that says what they are to say alike.
using FileDicts = std::vector<std::pair<const foreign::TorchFile*, Value>>;

/// Files that say something else than the first which says it. `read`: what one says, or nothing;
/// `unlike`: the difference of two in words, or nothing.
template <class Read, class Unlike, class Report>
void check_alike(const FileDicts& dicts, Read read, Unlike unlike, Report report) {
  const foreign::TorchFile* by = nullptr;
  decltype(read(*by, Value())) said;
  for (const auto& [file, dict] : dicts) {
    auto own = read(*file, dict);
    if (!own) continue;
    if (!said) {
      by = file;
      said = std::move(own);
    } else if (const auto found = unlike(*file, *own, *by, *said)) {
      report(file, *found);
    }
  }
}

std::string unlike_words(const std::string& key, const std::string& a,
                         const foreign::TorchFile& in_a, const std::string& b,
                         const foreign::TorchFile& in_b) {
  return key + " is " + a + " in " + in_a.name() + ", " + b + " in " + in_b.name();
}

template <class Report>
void check_words_alike(const FileDicts& dicts, const char* key, Report report) {
  const auto read = [&](const foreign::TorchFile& file, Value dict) {
    const Value* value = schedule_value(file, dict, key);
    return value == nullptr ? std::nullopt : std::optional(foreign::in_words(file.tree(), *value));
  };
  const auto unlike = [&](const foreign::TorchFile& file, const std::string& own,
                          const foreign::TorchFile& by, const std::string& said) {
    return own == said ? std::nullopt : std::optional(unlike_words(key, own, file, said, by));
  };
  check_alike(dicts, read, unlike, report);
}

template <class Report>
void check_numbers_alike(const FileDicts& dicts, const char* key, Report report) {
  const auto read = [&](const foreign::TorchFile& file, Value dict) {
    return schedule_numbers(file, dict, key);
  };
  const auto unlike = [&](const foreign::TorchFile& file, const Numbers& own,
                          const foreign::TorchFile& by, const Numbers& said) {
    return unlike_numbers(key, own, file.name(), said, by.name());
  };
  check_alike(dicts, read, unlike, report);
}

template <class Report>
void check_values_alike(const FileDicts& dicts, const std::string& key, Report report) {
  const auto read = [&](const foreign::TorchFile& file, Value dict) {
    const Value* value = schedule_value(file, dict, key);
    return value == nullptr ? std::nullopt : std::optional(*value);
  };
  const auto unlike = [&](const foreign::TorchFile& file, Value own, const foreign::TorchFile& by,
                          Value said) -> std::optional<std::string> {
    const auto found = tree_difference(file.tree(), own, by.tree(), said);
    if (!found) return std::nullopt;
    return unlike_words(foreign::place_in(key, found->place), found->a, file, found->b, by);
  };
  check_alike(dicts, read, unlike, report);
}

using RankShards = std::vector<std::pair<const foreign::TorchFile*, ScheduleShard>>;

/// The shards of the ranks' files, one of each set of samples: those of the same samples are
/// replicas, which are held to each other whole.
RankShards distinct_shards(std::span<const foreign::TorchFile* const> files) {
  RankShards out;
  std::set<std::set<int64_t>> seen;
  for (const foreign::TorchFile* file : files) {
    if (file->tree().find(file->root(), "rollout_data") == nullptr) continue;
    ScheduleShard shard = schedule_shards(*file).front();
    std::set<int64_t> samples;
    for (size_t i = 0; shard.samples && i < shard.samples->size(); ++i) {
      samples.insert(shard.samples->integer(i));
    }
    if (seen.insert(std::move(samples)).second) out.emplace_back(file, std::move(shard));
  }
  return out;
}

/// Reports the one of the two lists that say the steps where no shard of a rollout has it, and one
/// has the other: trainers write both, and without one of them all samples would be of one step.
void check_halves(std::span<const foreign::TorchFile* const> files,
                  std::vector<foreign::Problem>& problems) {
  constexpr std::string_view kCounts = "num_microbatches", kRows = "micro_batch_indices";
  const auto has = [&](std::string_view key) {
    return std::ranges::any_of(files, [&](const foreign::TorchFile* file) {
      return std::ranges::any_of(schedule_shards(*file), [&](const ScheduleShard& shard) {
        return schedule_value(*file, shard.dict, key) != nullptr;
      });
    });
  };
  const bool counts = has(kCounts), rows = has(kRows);
  if (counts == rows) return;
  const size_t sizes = read_batch_sizes(files).size();
  problems.push_back(
      {"schedule-mismatch",
       std::string(counts ? kRows : kCounts) + " is missing, and " +
           std::string(counts ? kCounts : kRows) + " is there" +
           (sizes > 1 ? ", with the sizes of " + std::to_string(sizes) + " batches" : "") +
           ": which samples are of which step is not known",
       files.front()->path()});
}

/// Ranks of other samples that say another number of steps, or other sizes of batches, than the
/// first which says some.
void check_steps_alike(std::span<const foreign::TorchFile* const> files,
                       std::vector<foreign::Problem>& problems) {
  const auto shards = distinct_shards(files);
  const auto report = reporting(problems);
  const auto first =
      std::ranges::find_if(shards, [](const auto& s) { return s.second.counts.has_value(); });
  for (auto at = first; at != shards.end(); ++at) {
    const size_t steps = at->second.counts ? at->second.counts->size() : 0;
    const size_t said = first->second.counts->size();
    if (!at->second.counts || steps == said) continue;
    report(at->first, "num_microbatches is of " + counted(steps, "step") + " in " +
                          at->first->name() + ", of " + std::to_string(said) + " in " +
                          first->first->name());
  }
  FileDicts dicts;
  for (const auto& [file, shard] : shards) dicts.emplace_back(file, shard.dict);
  for (const char* key : kBatchSizes) check_numbers_alike(dicts, key, report);
  for (const foreign::TrainColumn& column : foreign::kTrainColumns) {
    if (column.holds != foreign::Holds::kRollout) continue;
    check_values_alike(dicts, std::string(column.name), report);
  }
}

}  // namespace

std::vector<foreign::Problem> compare_schedules(std::span<const foreign::TorchFile* const> files) {
  std::vector<foreign::Problem> problems;
  for (const foreign::TrainColumn& column : foreign::kTrainColumns) {
    if (column.had_by != foreign::HadBy::kSchedule) continue;
    const std::string_view key = column.name;
    const auto find = [&](const foreign::TorchFile& file) -> const Value* {
      const Value* data = file.tree().find(file.root(), "rollout_data");
      return data == nullptr ? nullptr : schedule_value(file, *data, key);
    };
    check_presence(files, key, find, reporting(problems));
  }
  check_halves(files, problems);
  check_steps_alike(files, problems);
  return problems;
}

std::vector<foreign::Problem> check_layouts(std::span<const foreign::TorchFile* const> files) {
  std::vector<foreign::Problem> problems;
  for (const char* key : {"rank", "cp_rank", "cp_size", "qkv_format"}) {
    const auto find = [&](const foreign::TorchFile& file) {
      return schedule_value(file, file.root(), key);
    };
    check_presence(files, key, find, reporting(problems));
  }
  FileDicts roots;
  for (const foreign::TorchFile* file : files) roots.emplace_back(file, file->root());
  for (const char* key : {"cp_size", "qkv_format"}) {
    check_words_alike(roots, key, reporting(problems));
  }
  return problems;
}

}  // namespace rlreplay::replay
