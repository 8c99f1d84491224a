#include "src/replay/compare/beside_content.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "format/unit.h"
#include "src/base/hash.h"
#include "src/base/words.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/imported_samples.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kMostNamed = 6;

/// The units that keep foreign files, by path, and their contents.
using KeptUnits = std::map<std::string, Hash>;

KeptUnits kept_units(const format::DumpReader& dump) {
  KeptUnits out;
  for (const format::UnitRecord& unit : dump.units()) {
    const auto kind = format::kind_of(unit.path);
    const bool kept = kind.starts_with("x-") && kind != kFindingsKind && kind != kInputsKind;
    if (kept) out.emplace(unit.path, unit.content);
  }
  return out;
}

/// The foreign file that a unit keeps: "train_data/0_1.pt" of "x-slime/train_data/0_1.h5".
std::string file_of_unit(const std::string& path) {
  const size_t begin = path.find('/') + 1;
  return "kept file " + path.substr(begin, path.size() - begin - 3) + ".pt";
}

void compare_kept(const format::DumpReader& a, const format::DumpReader& b, const KeptFinder& find,
                  BesideContent& out) {
  const KeptUnits in_a = kept_units(a), in_b = kept_units(b);
  if (in_a.empty() != in_b.empty()) {
    out.keeps_alone = in_a.empty() ? "B" : "A";
    out.notes.push_back("what " + out.keeps_alone + " keeps of foreign files in x- units was not " +
                        "compared: the other keeps none");
    return;
  }
  std::vector<std::string> found;
  for (const auto& [path, content] : in_a) {
    const auto other = in_b.find(path);
    if (other == in_b.end()) found.push_back(file_of_unit(path) + " is only in A");
    if (other != in_b.end() && other->second != content) {
      const bool named = find && found.size() < kMostNamed;
      const auto field = named ? find(a, b, path) : std::nullopt;
      if (field && field->empty()) continue;  // it is written otherwise, and says the same
      found.push_back(file_of_unit(path) + " differs" + (field ? " (" + *field + ")" : ""));
    }
  }
  for (const auto& [path, content] : in_b) {
    if (!in_a.contains(path)) found.push_back(file_of_unit(path) + " is only in B");
  }
  out.kept = found.size();
  for (size_t i = 0; i < std::min(found.size(), kMostNamed); ++i) {
    out.notes.push_back(found[i] + ": what only the file says is no part of the content");
  }
  if (found.size() > kMostNamed) {
    out.notes.push_back("and " + std::to_string(found.size() - kMostNamed) + " more kept files");
  }
}

/// Rollouts that have samples made from more than their tokens.
void add_rollouts_with_inputs(const format::DumpReader& dump, std::set<std::string>& to) {
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) == kInputsKind)
      to.insert(unit.groups.begin(), unit.groups.end());
  }
}

void compare_inputs(const format::DumpReader& a, const format::DumpReader& b, BesideContent& out) {
  std::set<std::string> rollouts;
  add_rollouts_with_inputs(a, rollouts);
  add_rollouts_with_inputs(b, rollouts);
  const auto note_alone = [&](const std::string& rollout, const std::set<uint64_t>& has,
                              const std::set<uint64_t>& lacks, const char* name) {
    std::vector<uint64_t> alone;
    std::ranges::set_difference(has, lacks, std::back_inserter(alone));
    if (alone.empty()) return;
    out.inputs += alone.size();
    const std::string more = std::to_string(alone.size() - 1);
    out.notes.push_back("sample " + std::to_string(alone.front()) + " of rollout " + rollout +
                        (alone.size() > 1 ? " and " + more + " more have" : " has") +
                        " images or sound in " + name + " alone, which is no part of the content");
  };
  for (const std::string& rollout : rollouts) {
    const auto in_a = samples_with_inputs(a, rollout), in_b = samples_with_inputs(b, rollout);
    note_alone(rollout, in_a, in_b, "A");
    note_alone(rollout, in_b, in_a, "B");
  }
}

}  // namespace

BesideContent compare_beside(const format::DumpReader& a, const format::DumpReader& b,
                             const KeptFinder& find) {
  BesideContent out;
  compare_kept(a, b, find, out);
  compare_inputs(a, b, out);
  return out;
}

}  // namespace rlreplay::replay
