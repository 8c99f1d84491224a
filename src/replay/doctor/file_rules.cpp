#include <algorithm>
#include <filesystem>
#include <map>

#include "src/base/words.h"
#include "src/replay/doctor/checkpoint_rules.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kFiles = "RD801", kIndex = "RD802";

using Shards = std::map<int64_t, std::string>;  // the name of the file of each number

/// All files that are there and have a shard's number, by stem and total.
std::map<std::string, std::map<int64_t, Shards>> shards_of(const WeightFiles& weights) {
  std::map<std::string, std::map<int64_t, Shards>> out;
  const auto add = [&](const std::string& name) {
    if (const auto shard = parse_shard_name(name)) {
      out[shard->stem][shard->total].emplace(shard->number, name);
    }
  };
  for (const auto& file : weights.files) add(file->name);
  for (const BrokenFile& file : weights.broken) {
    if (!file.absent) add(file.name);
  }
  return out;
}

/// The name of another shard, with as many digits as that of the one `like` it.
std::string numbered(const std::string& like, int64_t number) {
  const size_t of = like.rfind("-of-"), begin = like.rfind('-', of - 1) + 1;
  std::string digits = std::to_string(number);
  if (digits.size() < of - begin) digits.insert(0, of - begin - digits.size(), '0');
  return like.substr(0, begin) + digits + like.substr(of);
}

/// Shards are counted from 1, or from 0 where there is one of this number.
bool is_within(int64_t number, int64_t total, const Shards& shards) {
  const int64_t begin = shards.contains(0) ? 0 : 1;
  return number >= begin && number < total + begin;
}

void check_numbers(int64_t total, const Shards& shards, Diagnosis& diagnosis) {
  DoctorFinding absent{kFiles, "", "", ""}, beyond{kFiles, "", "", ""};
  for (int64_t i = 0; i <= total; ++i) {
    if (!is_within(i, total, shards) || shards.contains(i)) continue;
    absent.add_place(numbered(shards.begin()->second, i));
  }
  for (const auto& [number, name] : shards) {
    if (!is_within(number, total, shards)) beyond.add_place(name);
  }
  const std::string of = " of " + std::to_string(total);
  if (absent.count > 0) {
    absent.fact = counted(absent.count, "shard") + of +
                  (absent.count == 1 ? " is not there" : " are not there");
    absent.observed = std::to_string(total - static_cast<int64_t>(absent.count)) + of + " files";
    absent.damaged = true;
    diagnosis.add(std::move(absent));
  }
  if (beyond.count == 0) return;
  beyond.fact = "shards have numbers beyond their total";
  beyond.observed = counted(beyond.count, "file") + " beyond the shards" + of;
  beyond.fix = "remove the files of the older conversion";
  diagnosis.add(std::move(beyond));
}

/// Whether check_numbers names this file, which is absent, too.
bool is_named_by_number(const std::string& name,
                        const std::map<std::string, std::map<int64_t, Shards>>& there) {
  const auto shard = parse_shard_name(name);
  const auto found = shard ? there.find(shard->stem) : there.end();
  if (found == there.end() || found->second.size() != 1) return false;
  const auto& [total, shards] = *found->second.begin();
  return total == shard->total && is_within(shard->number, total, shards);
}

}  // namespace

void check_files(const WeightFiles& weights, Diagnosis& diagnosis) {
  const auto there = shards_of(weights);
  DoctorFinding absent{kFiles, "", "", ""};
  for (const BrokenFile& file : weights.broken) {
    if (file.absent) {
      if (is_named_by_number(file.name, there)) continue;
      if (absent.count == 0) absent.observed = file.problem;
      absent.add_place(file.name);
      continue;
    }
    diagnosis.add({.rule = kFiles,
                   .fact = "a file cannot be read",
                   .observed = file.problem,
                   .where = file.name,
                   .damaged = true});
  }
  if (absent.count > 0) {
    absent.fact = absent.count == 1 ? "a file is not there" : "files are not there";
    if (absent.count > 1) absent.observed = counted(absent.count, "file") + " that the index names";
    absent.damaged = true;
    diagnosis.add(std::move(absent));
  }
  if (!weights.is_folder) return;  // one shard was asked about
  for (const auto& [stem, totals] : there) {
    if (totals.size() > 1) {
      DoctorFinding finding{kFiles, "shards of several totals lie beside each other", "", ""};
      for (const auto& [total, shards] : totals) {
        finding.observed +=
            (finding.observed.empty() ? "totals " : " and ") + std::to_string(total);
        finding.add_place(shards.begin()->second);
      }
      finding.fix = "remove the files of the older conversion";
      diagnosis.add(std::move(finding));
      continue;
    }
    check_numbers(totals.begin()->first, totals.begin()->second, diagnosis);
  }
}

namespace {

/// Adds the finding where it has places.
void add_places(DoctorFinding finding, const std::string& what, Diagnosis& diagnosis) {
  if (finding.count == 0) return;
  finding.observed = counted(finding.count, what);
  diagnosis.add(std::move(finding));
}

void check_twice(const WeightFiles& weights, Diagnosis& diagnosis) {
  DoctorFinding finding{kIndex, "tensors lie in several files", "", ""};
  std::map<std::string_view, std::string_view> seen;
  for (const WeightTensor& tensor : weights.tensors) {
    const auto [first, is_new] = seen.emplace(tensor.name(), tensor.file->name);
    if (is_new) continue;
    finding.add_place(tensor.name() + " in " + std::string(first->second) + " and " +
                      tensor.file->name);
  }
  add_places(std::move(finding), "tensor", diagnosis);
}

void check_promises(const WeightFiles& weights, Diagnosis& diagnosis) {
  DoctorFinding absent{kIndex, "files that the index names are not there", "", ""};
  DoctorFinding lacking{kIndex, "files lack tensors that the index places there", "", ""};
  absent.damaged = lacking.damaged = true;
  std::map<std::string_view, const WeightFile*> files;
  for (const auto& file : weights.files) files.emplace(file->name, file.get());
  for (const auto& [tensor, name] : weights.placed) {
    const auto file = files.find(name);
    if (file == files.end()) continue;  // absent or broken: below, or said of the file
    if (file->second->content.find(tensor) == nullptr) lacking.add_place(tensor + " in " + name);
  }
  for (const BrokenFile& file : weights.broken) {
    if (file.absent) absent.add_place(file.name);
  }
  absent.symptom_of = kFiles;
  add_places(std::move(absent), "file", diagnosis);
  add_places(std::move(lacking), "tensor", diagnosis);
}

void check_orphans(const WeightFiles& weights, Diagnosis& diagnosis) {
  DoctorFinding finding{kIndex, "files hold tensors that the index does not place there", "", ""};
  for (const WeightTensor& tensor : weights.tensors) {
    const auto placed = weights.placed.find(tensor.name());
    if (placed != weights.placed.end() && placed->second == tensor.file->name) continue;
    finding.add_place(tensor.name() + " in " + tensor.file->name);
  }
  add_places(std::move(finding), "tensor", diagnosis);
  if (weights.beside.empty()) return;
  diagnosis.add({.rule = kIndex,
                 .fact = "files of a model lie beside the index that does not name them",
                 .observed = counted(weights.beside.size(), "file"),
                 .where = "",
                 .fix = "remove what is stale: some loaders read these files, others the index",
                 .places = weights.beside});
}

void check_total(const WeightFiles& weights, Diagnosis& diagnosis) {
  const auto metadata = weights.index->root().find("metadata");
  const auto total =
      metadata && metadata->is_object() ? metadata->find("total_size") : std::optional<JsonValue>();
  if (!total || !total->is_integer() || !weights.whole()) return;
  int64_t bytes = 0;
  for (const WeightTensor& tensor : weights.tensors) {
    bytes += static_cast<int64_t>(tensor.stored->data.size());
  }
  if (total->dump() == std::to_string(bytes)) return;
  diagnosis.add({.rule = kIndex,
                 .fact = "total_size of the index is not the size of the tensors",
                 .observed = total->dump() + " said, " + std::to_string(bytes) + " bytes there",
                 .where = "model.safetensors.index.json",
                 .severity = Severity::kNote});
}

}  // namespace

void check_index(const WeightFiles& weights, Diagnosis& diagnosis) {
  check_twice(weights, diagnosis);
  if (!weights.index_problem.empty()) {
    diagnosis.add({.rule = kIndex,
                   .fact = "the index cannot be read",
                   .observed = weights.index_problem,
                   .where = "model.safetensors.index.json",
                   .damaged = true});
    return;
  }
  if (weights.index) {
    check_promises(weights, diagnosis);
    check_orphans(weights, diagnosis);
    check_total(weights, diagnosis);
  } else if (weights.files.size() + weights.broken.size() < 2) {
    diagnosis.not_applicable(kIndex, "one file without an index");
  } else {
    diagnosis.add({.rule = kIndex,
                   .fact = "several files have no index",
                   .observed = counted(weights.files.size() + weights.broken.size(), "file"),
                   .where = weights.path,
                   .severity = Severity::kWarning});
  }
}

}  // namespace rlreplay::replay
