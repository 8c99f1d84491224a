#include <algorithm>
#include <filesystem>
#include <set>

#include "src/base/words.h"
#include "src/replay/doctor/checkpoint_rules.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kFiles = "RD801", kIndex = "RD802";

/// Names of all files that have a shard's number, those that are absent too.
std::map<std::string, std::map<int64_t, std::set<int64_t>>> shards_of(const WeightFiles& weights) {
  std::map<std::string, std::map<int64_t, std::set<int64_t>>> out;  // stem, total, numbers
  const auto add = [&](const std::string& name) {
    if (const auto shard = parse_shard_name(name)) {
      out[shard->stem][shard->total].insert(shard->number);
    }
  };
  for (const auto& file : weights.files) add(file->name);
  for (const BrokenFile& file : weights.broken) {
    if (!file.absent) add(file.name);
  }
  return out;
}

std::string numbered(const std::string& stem, int64_t number, int64_t total) {
  return stem + formatted("-%05lld-of-%05lld.safetensors", static_cast<long long>(number),
                          static_cast<long long>(total));
}

void check_numbers(const std::string& stem, int64_t total, const std::set<int64_t>& numbers,
                   Diagnosis& diagnosis) {
  DoctorFinding finding{kFiles, "", "", ""};
  const bool from_zero = numbers.contains(0);
  const int64_t begin = from_zero ? 0 : 1;
  for (int64_t i = begin; i < total + begin; ++i) {
    if (numbers.contains(i) || finding.places.size() == Diagnosis::kMostPlaces) continue;
    finding.places.push_back(numbered(stem, i, total));
  }
  if (!finding.places.empty()) {
    finding.fact = counted(finding.places.size(), "shard") + " of " + std::to_string(total) +
                   (finding.places.size() == 1 ? " is" : " are") + " not there";
    finding.observed = std::to_string(numbers.size()) + " of " + std::to_string(total) + " files";
    finding.damaged = true;
    diagnosis.add(std::move(finding));
  }
}

}  // namespace

void check_files(const WeightFiles& weights, Diagnosis& diagnosis) {
  for (const BrokenFile& file : weights.broken) {
    const bool numbered = file.absent && parse_shard_name(file.name);
    if (numbered) continue;  // said by its number
    diagnosis.add({.rule = kFiles,
                   .fact = file.absent ? "a file is not there" : "a file cannot be read",
                   .observed = file.problem,
                   .where = file.name,
                   .damaged = true});
  }
  if (!weights.is_folder) return;  // one shard was asked about
  for (const auto& [stem, totals] : shards_of(weights)) {
    if (totals.size() > 1) {
      DoctorFinding finding{kFiles, "shards of several totals lie beside each other", "", ""};
      for (const auto& [total, numbers] : totals) {
        finding.observed +=
            (finding.observed.empty() ? "totals " : " and ") + std::to_string(total);
        finding.places.push_back(numbered(stem, *numbers.begin(), total));
      }
      finding.fix = "remove the files of the older conversion";
      diagnosis.add(std::move(finding));
      continue;
    }
    check_numbers(stem, totals.begin()->first, totals.begin()->second, diagnosis);
  }
}

namespace {

/// Adds the finding where it has places.
void add_places(DoctorFinding finding, const std::string& what, Diagnosis& diagnosis) {
  if (finding.places.empty()) return;
  finding.observed = counted(finding.places.size(), what);
  diagnosis.add(std::move(finding));
}

void add_place(DoctorFinding& finding, std::string place) {
  if (finding.places.size() < Diagnosis::kMostPlaces) finding.places.push_back(std::move(place));
}

void check_twice(const WeightFiles& weights, Diagnosis& diagnosis) {
  DoctorFinding finding{kIndex, "tensors lie in several files", "", ""};
  std::map<std::string_view, std::string_view> seen;
  for (const WeightTensor& tensor : weights.tensors) {
    const auto [first, is_new] = seen.emplace(tensor.name(), tensor.file->name);
    if (is_new) continue;
    add_place(finding,
              tensor.name() + " in " + std::string(first->second) + " and " + tensor.file->name);
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
    if (file->second->content.find(tensor) == nullptr) add_place(lacking, tensor + " in " + name);
  }
  for (const BrokenFile& file : weights.broken) {
    if (file.absent) add_place(absent, file.name);
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
    add_place(finding, tensor.name() + " in " + tensor.file->name);
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
