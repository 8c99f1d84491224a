#include "format/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "format/chain_reader.h"
#include "format/dump_content.h"
#include "format/dump_files.h"
#include "format/folder.h"
#include "format/held_bytes.h"
#include "format/incomplete.h"
#include "format/journal.h"
#include "format/logical_group.h"
#include "format/manifest.h"
#include "format/meaning.h"
#include "format/record.h"
#include "format/unit_counts.h"

namespace rlreplay::format {
namespace {

std::string group_of(const StoredDataset& dataset) {
  return dataset.path.substr(0, dataset.path.find('/'));
}

/// How far a unit is looked at: that its file is there, its bytes by their hash, its values.
enum class Depth { kRecords, kBytes, kValues };

/// Checks the units of one dump, one after another.
class UnitCheck {
 public:
  UnitCheck(const DumpReader& dump, Depth depth)
      : dump_(dump),
        depth_(depth),
        chain_(dump, [this](const StoredDataset& dataset) { return place_of(dataset); }) {}

  /// Whether nothing is wrong with the unit.
  bool check(const UnitRecord& record, VerifyReport& report) {
    problems_.clear();
    record_ = &record;
    guarded([&] {
      if (depth_ == Depth::kRecords) return dump_.check_there(record);
      if (depth_ == Depth::kBytes) return dump_.check_unit(record);
      const UnitReader unit = dump_.open_unit(record);
      std::set<std::string> groups;
      for (const StoredDataset& d : unit.datasets()) {
        groups.insert(group_of(d));
        if (is_cut(d.attributes)) cut_.emplace(kind_of(record.path), group_of(d));
      }
      for (const std::string& group : groups) check_group(unit, group);
      // What a value means is asked only where every value is what was written.
      if (problems_.empty()) check_meaning(unit, problems_);
    });
    std::ranges::stable_sort(problems_, {}, &Problem::rule);
    for (const Problem& problem : problems_) add_problem(problem, report);
    return problems_.empty();
  }

  /// The groups with a dataset of boxes, of the units that were looked at as far as their values.
  const GroupNames& cut_groups() const { return cut_; }

 private:
  /// Adds a problem once, however many differences rest on what is broken.
  void add_problem(const Problem& problem, VerifyReport& report) {
    if (!told_.emplace(problem.rule, problem.path, problem.dataset).second) return;
    report.problems.push_back(problem);
  }

  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const FormatError& e) {
      problems_.push_back(e.problem());
    }
  }

  void check_group(const UnitReader& unit, const std::string& group) {
    bool based = false;
    nonfinite_ = 0;
    content_.reset();
    guarded([&] { begin_content(unit, group); });
    guarded([&] {
      chain_.begin(unit, group);
      based = true;
    });
    for (const StoredDataset& dataset : unit.datasets_of(group)) {
      if (!dataset.base) add_plain(unit, dataset);
      if (dataset.base && based) {
        guarded([&] { take(dataset, chain_.read(unit, dataset)); });
      }
    }
    check_plain(unit);
    if (content_ && problems_.empty()) check_content(unit, group);
    if (unit.record().counts.contains(group) && problems_.empty()) {
      guarded([&] { check_counts(unit, group); });
    }
  }

  /// What the record counts of the group is counted again.
  void check_counts(const UnitReader& unit, const std::string& group) {
    std::vector<std::string> names;
    CountedTables tables;
    std::vector<std::vector<std::byte>> held;
    HeldBytes held_bytes;
    for (const StoredDataset& dataset : unit.datasets_of(group)) {
      names.push_back(dataset.path.substr(group.size() + 1));
      if (!is_counted(names.back())) continue;
      held_bytes.hold(unit.record(), dataset.path, dataset.bytes);
      held.push_back(read_table(dump_, unit, dataset.path));
      CountedTable table{dataset.dtype, held.back(), {}};
      const auto columns = dataset.attributes.find("columns");
      if (columns != dataset.attributes.end()) {
        if (const auto* text = std::get_if<std::string>(&columns->second)) table.columns = *text;
      }
      tables.emplace(names.back(), std::move(table));
    }
    const std::string& said = unit.record().counts.at(group);
    const std::string found = counts_json(kind_of(unit.record().path), names, tables, nonfinite_);
    if (found == said) return;
    problems_.push_back({Rule::kContent, unit.record().path, group,
                         "the group has " + found + ", its record counts " + said});
  }

  /// What the group says is computed again where the record names it.
  void begin_content(const UnitReader& unit, const std::string& group) {
    if (!unit.record().group_contents.contains(group)) return;
    content_.emplace(
        kind_of(unit.record().path), datasets_of(unit, group),
        [&](const GroupDataset& dataset) {
          return read_table(dump_, unit, group + "/" + dataset.name);
        },
        hold_for(unit, group, content_held_.emplace()));
  }

  void take(const StoredDataset& dataset, std::span<const std::byte> bytes) {
    count(dataset, bytes);
    if (content_) content_->add(dataset.name(), bytes, dataset.hash);
  }

  void count(const StoredDataset& dataset, std::span<const std::byte> bytes) {
    if (!counts_nonfinite(dataset.name())) return;
    nonfinite_ += count_nonfinite(dataset.dtype, bytes);
  }

  void check_content(const UnitReader& unit, const std::string& group) {
    if (content_->is_cut()) {
      problems_.push_back({Rule::kContent, unit.record().path, group,
                           "its record says what the group says, of which it holds parts alone"});
      return;
    }
    const Hash found = hash_of_fields(field_hashes({&content_->items(), 1}, {}));
    if (found == unit.record().group_contents.at(group)) return;
    problems_.push_back({Rule::kContent, unit.record().path, group,
                         "what the group says hashes to " + found.hex() + ", its record says " +
                             unit.record().group_contents.at(group).hex()});
  }

  /// Plain datasets are read many at once, as long as they are small together.
  void add_plain(const UnitReader& unit, const StoredDataset& dataset) {
    if (dataset.bytes > kPieceByPiece) {
      return guarded([&] {
        const auto count_piece = [&](std::span<const std::byte> piece) { count(dataset, piece); };
        if (content_) return format::add_plain(unit, dataset, *content_, count_piece);
        unit.stream(dataset, count_piece);
      });
    }
    if (plain_bytes_ + dataset.bytes > kPieceByPiece) check_plain(unit);
    plain_.push_back({&dataset, {}});
    plain_bytes_ += dataset.bytes;
  }

  void check_plain(const UnitReader& unit) {
    memory_.resize(std::max(memory_.size(), static_cast<size_t>(plain_bytes_)));
    std::byte* place = memory_.data();
    for (UnitReader::Read& read : plain_) {
      read.out = {place, static_cast<size_t>(read.dataset->bytes)};
      place += read.dataset->bytes;
    }
    try {
      unit.read(plain_);
      for (const UnitReader::Read& read : plain_) take(*read.dataset, read.out);
    } catch (const FormatError&) {
      for (const UnitReader::Read& read : plain_) {
        guarded([&] { unit.read(*read.dataset, read.out); });
      }
    }
    plain_.clear();
    plain_bytes_ = 0;
  }

  /// Differences alone are kept in memory.
  std::span<std::byte> place_of(const StoredDataset& dataset) {
    Buffer<std::byte>& place = places_[dataset.path.substr(dataset.path.find('/'))];
    if (place.size() != dataset.bytes) {
      check_memory(*record_, dataset.path, held_ - place.size() + dataset.bytes);
      held_ += dataset.bytes - place.size();
      place = Buffer<std::byte>(dataset.bytes);
    }
    return place;
  }

  const DumpReader& dump_;
  Depth depth_;
  const UnitRecord* record_ = nullptr;  // the unit at hand
  std::vector<Problem> problems_;       // of it
  std::set<std::tuple<Rule, std::string, std::string>> told_;
  std::map<std::string, Buffer<std::byte>> places_;
  uint64_t held_ = 0;  // bytes in these places
  ChainReader chain_;
  std::optional<GroupContent> content_;    // of the group at hand
  std::optional<HeldBytes> content_held_;  // of it
  std::vector<UnitReader::Read> plain_;    // not checked yet
  uint64_t plain_bytes_ = 0;
  uint64_t nonfinite_ = 0;  // of the group at hand
  GroupNames cut_;
  Buffer<std::byte> memory_;
};

/// Reports what is wrong with INCOMPLETE; nothing rests on it, so the dump is read on.
void report_incomplete(const std::string& path, VerifyReport& report) {
  try {
    static_cast<void>(read_incomplete(Folder::open(path)));
  } catch (const FormatError& e) {
    report.problems.push_back(e.problem());
  }
}

void report_unlisted(const std::string& path, const DumpReader& dump, VerifyReport& report) {
  std::set<std::string, std::less<>> known = {kManifestName, kIncompleteName};
  for (const JournalEntry& journal : dump.journals()) known.insert(journal_path(journal.writer));
  const Folder folder = Folder::open(path);
  if (!dump.sealed()) {  // a writer that has just begun, or died then, has a journal without a line
    for (const std::string& journal : list_journals(folder)) known.insert(journal);
  }
  if (dump.sealed() && dump.version() != kOldVersion) known.insert(kIndexName);
  for (const std::string& file : folder.list()) {
    if (known.contains(file) || dump.units().index().find(file)) continue;
    // A writer at work, or one that died, leaves its unfinished file behind: no finding.
    if (!dump.sealed() && file.ends_with(kTemporarySuffix)) continue;
    report.problems.push_back({Rule::kUnlisted, file, "",
                               dump.sealed() || !sound_unit_path(file)
                                   ? "no record names this file"
                                   : "no record acknowledges this file yet: its writer is at work "
                                     "or died; a resumed one writes it anew"});
  }
}

}  // namespace

namespace {

VerifyReport verify_to(Depth depth, const std::string& path, const ReaderOptions& options) {
  VerifyReport report;
  try {
    ReaderOptions all = options;
    all.frame_checksums = depth == Depth::kValues;
    const DumpReader dump = DumpReader::open(path, all);
    report.sealed = dump.sealed();
    report.complete = dump.complete();
    report.version = dump.version();
    report.root = dump.root();
    report.units = dump.units().size();
    if (!dump.sealed()) report_incomplete(path, report);
    std::map<std::string, std::set<int64_t>> whole_ranks;
    UnitCheck units(dump, depth);
    for (const UnitRecord& unit : dump.units()) {
      if (!units.check(unit, report)) continue;
      ++report.whole_units;
      if (kind_of(unit.path) != "train" || is_part(unit.path)) continue;
      for (const std::string& step : unit.groups) whole_ranks[step].insert(rank_of(unit.path));
    }
    const int64_t ranks = ranks_of(dump.meta());
    for (const auto& [step, whole] : whole_ranks) {
      report.whole_steps += static_cast<int64_t>(whole.size()) >= ranks;
    }
    // Of a dump that a writer has not ended, parts may be missing.
    if (depth == Depth::kValues && dump.complete() && report.problems.empty())
      check_cuts(dump, units.cut_groups(), report.problems);
    report_unlisted(path, dump, report);
  } catch (const FormatError& e) {
    report.problems.push_back(e.problem());
  }
  return report;
}

}  // namespace

VerifyReport verify(const std::string& path, bool deep, const ReaderOptions& options) {
  return verify_to(deep ? Depth::kValues : Depth::kBytes, path, options);
}

VerifyReport verify_quick(const std::string& path, const ReaderOptions& options) {
  return verify_to(Depth::kRecords, path, options);
}

}  // namespace rlreplay::format
