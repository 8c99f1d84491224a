#include "src/replay/exchange/strip.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "format/canonical.h"
#include "format/columns.h"
#include "format/dataset_copy.h"
#include "format/dump_place.h"
#include "format/dump_reader.h"
#include "format/dump_writer.h"
#include "format/group_io.h"
#include "format/rule.h"
#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/exchange/group_strip.h"
#include "src/replay/record/chosen_ids.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {
namespace {

using format::Dataset;
using format::DumpReader;
using format::KnownDataset;
using format::StoredDataset;
using format::UnitReader;
using format::UnitRecord;
using format::Values;
using Lengths = GroupStrip::Lengths;

constexpr std::string_view kNeeded[] = {"sample_id", "offsets",     "tokens", "slice_offsets",
                                        "slices",    "coordinates", "lengths"};

/// The column to which a dataset belongs: `nucleus` for `nucleus_size`.
std::string column_of(std::string_view kind, std::string_view name) {
  if (name.starts_with("events/")) return "events";
  if (name.ends_with(format::kPresenceSuffix)) {
    name.remove_suffix(format::kPresenceSuffix.size());
  }
  const KnownDataset* known = format::find_known(kind, name);
  return std::string(known == nullptr || known->part_of.empty() ? name : known->part_of);
}

/// Writes a dump again without what was asked for. All that can be refused is, before the new dump
/// begins; units are copied one by one, and it takes its name once it is sealed.
class Strip {
 public:
  explicit Strip(const StripOptions& options)
      : options_(options), dump_(DumpReader::open(options.dump, reading(options))) {
    if (!options.steps) return;
    dump_.keep([part = *options.steps](std::string_view kind, const std::string& group) {
      return part.holds_group(kind, group);
    });
  }

  StripReport run() {
    check_asked();
    format::DumpPlace place(options_.output, options_.replace, format::DumpPlace::Writer::kOneGo);
    write(place.path());
    if (options_.judge) check_left(place.path());
    made_.content = content_root(place.path());
    place.settle();
    for (const auto& [what, count] : also_)
      made_.also.push_back(counted(count, what.first) + what.second);
    return std::move(made_);
  }

 private:
  static format::ReaderOptions reading(const StripOptions& options) {
    format::ReaderOptions out;
    out.threads = options.threads;
    return out;
  }

  /// Sees that what is left is whole: copied bytes may be those that were written and mean nothing.
  void check_left(const std::string& path) const {
    const auto found = options_.judge(path, options_.threads);
    if (!found) return;
    throw format::FormatError(found->rule,
                              found->message +
                                  ", which stays in what is left: leave it out by --samples or "
                                  "--steps; rlreplay verify --deep " +
                                  shell_word(options_.dump) + " tells all",
                              found->path, found->dataset, found->offset);
  }

  [[noreturn]] void refuse(const std::string& message) const {
    throw Error(ErrorCode::kUsage, message, options_.dump);
  }

  /// Writes the new dump. It names the writers that died, too, where there are several: each
  /// leaves a journal there that has no end.
  void write(const std::string& path) {
    format::WriterOptions writing;
    writing.threads = options_.threads;
    writing.durable = format::Durable::kSealed;
    const auto& all = dump_.journals();
    const bool named = all.size() > 1 && !dump_.complete();
    const auto ended = std::ranges::find(all, true, &format::JournalEntry::ended);
    if (named) writing.writer = (ended == all.end() ? all.front() : *ended).writer;
    std::optional writer(format::DumpWriter::create(path, meta(), writing));
    for (const UnitRecord& record : dump_.units()) write_unit(record, *writer);
    if (named) {
      format::WriterOptions dead = writing;
      for (const std::string& name : unended_writers(dump_)) {
        dead.writer = name;
        if (name != writing.writer) static_cast<void>(format::DumpWriter::join(path, dead));
      }
      if (ended != all.end()) writer->end();
      writer.reset();
      writer.emplace(format::DumpWriter::resume(path, writing));
    }
    format::SealOptions seal;
    seal.complete = dump_.complete();
    seal.unstable = options_.unstable;
    made_.root = writer->seal(seal);
  }

  /// The `meta` of the new dump: the old one, with the part of its run that is left.
  [[nodiscard]] std::string meta() const {
    if (!options_.steps) return dump_.meta();
    const JsonDocument old = JsonDocument::parse(dump_.meta(), options_.dump);
    format::JsonObject out;
    for (const auto& [key, value] : old.root().members()) out.json(std::string(key), value.dump());
    return out.text("part", options_.steps->text()).str();
  }

  static bool has_samples(const UnitRecord& record) {
    const std::string_view kind = format::kind_of(record.path);
    return kind == "rollout" || kind == "train";
  }

  /// Sees, before any work, that all that is to go is there, and that something is to go.
  void check_asked() {
    if (!dump_.sealed()) {
      refuse("the dump is not sealed: close it first (rlreplay seal --recovered)");
    }
    std::error_code absent;
    if (std::filesystem::equivalent(options_.dump, options_.output, absent)) {
      refuse("-o is the dump itself");
    }
    for (const std::string& column : options_.columns) {
      if (std::ranges::find(kNeeded, column) == std::end(kNeeded)) continue;
      refuse("without " + column + " no samples can be read: --samples takes whole samples out");
    }
    std::set<uint64_t> ids;
    std::set<std::string> columns;
    for (const UnitRecord& record : dump_.units()) {
      if (!has_samples(record)) continue;
      const UnitReader unit = dump_.open_unit(record);
      for (const StoredDataset& dataset : unit.datasets()) {
        columns.insert(column_of(format::kind_of(record.path), dataset.name()));
      }
      for (const std::string& group : record.groups) {
        const Lengths of = GroupStrip(dump_, unit, group).numbers("sample_id");
        ids.insert(of.begin(), of.end());
        const bool left = std::ranges::any_of(of, [&](uint64_t id) { return !goes(id); });
        if (of.empty() || left) left_.insert(key_of(record, group));
        if (!of.empty()) sampled_.insert(key_of(record, group));
        const bool loses = std::ranges::any_of(of, [&](uint64_t id) { return goes(id); });
        if (loses) cut_.insert(key_of(record, group));
      }
    }
    check_chosen("sample", options_.samples, ids, options_.dump);
    if (options_.only) check_chosen("sample", *options_.only, ids, options_.dump);
    for (const std::string_view needed : kNeeded) columns.erase(std::string(needed));
    for (const std::string& column : options_.columns) {
      if (columns.contains(column)) continue;
      const std::vector<std::string> there(columns.begin(), columns.end());
      refuse("there is no column " + column + "; there are " + joined(there, ", "));
    }
    for (const uint64_t id : ids) made_.samples += goes(id) ? 1 : 0;
    if (!ids.empty() && made_.samples == ids.size()) refuse("no sample would be left");
  }

  [[nodiscard]] bool goes(uint64_t id) const {
    return options_.samples.contains(id) || (options_.only && !options_.only->contains(id));
  }

  [[nodiscard]] bool goes(std::string_view kind, const std::string& name) const {
    const std::string column = column_of(kind, name);
    const KnownDataset* known = format::find_known(kind, column);
    const bool text = known != nullptr && known->values == Values::kText;
    return (options_.texts && text) || options_.columns.contains(column) ||
           (column == "version_starts" && options_.columns.contains("versions"));
  }

  static std::string key_of(const UnitRecord& record, const std::string& group) {
    return std::string(format::kind_of(record.path)) + " " + group;
  }

  void note(const std::string& what, const std::string& why) { ++also_[{what, why}]; }

  void write_unit(const UnitRecord& record, format::DumpWriter& writer) {
    const std::string_view kind = format::kind_of(record.path);
    if (options_.takes_nothing()) return copy(record, writer);
    if (kind == "x-slime" || kind == "x-miles" || kind == "x-relax") {
      return note("kept file", " of the framework, which holds all that it said");
    }
    const bool known = kind == "x-inputs" || kind == "weights" || has_samples(record);
    if (kind == "x-findings" && made_.samples == 0 && options_.columns.empty())
      return copy(record, writer);
    if (!known)
      return note("unit", " of " + std::string(kind) + ", which may say what was taken out");
    if (kind == "weights") return copy(record, writer);
    strip_unit(record, writer);
  }

  /// Whether the base of a difference stays: units of other kinds may lose samples or columns.
  [[nodiscard]] bool stays(const UnitReader& unit, const format::Base& base) const {
    return format::kind_of(unit.record().path) == "weights" &&
           dump_.units().index().find(base.unit).has_value();
  }

  /// A difference stays one where its base stays.
  Dataset copied(const UnitReader& unit, const StoredDataset& stored) const {
    const bool difference = stored.base && stays(unit, *stored.base);
    return difference ? format::copy_as_stored(dump_, unit, stored)
                      : format::copy_of(dump_, unit, stored);
  }

  /// Whether all groups of a unit stay as they are stored.
  [[nodiscard]] bool stays_whole(const UnitReader& unit, const UnitRecord& left) const {
    if (unit.record().groups != left.groups) return false;
    return std::ranges::all_of(unit.datasets(), [&](const StoredDataset& stored) {
      return !stored.base || stays(unit, *stored.base);
    });
  }

  void copy(const UnitRecord& record, format::DumpWriter& writer) {
    const UnitReader unit = dump_.open_unit(record);
    ++made_.units;
    if (stays_whole(unit, record)) {
      // Decoded it may be larger than memory: it is checked piece by piece, and its file copied.
      for (const StoredDataset& stored : unit.datasets()) {
        stored.base ? static_cast<void>(dump_.read(unit, stored)) : unit.stream(stored);
      }
      writer.append(format::stored_unit(options_.dump, unit.record()));
      return;
    }
    std::vector<Dataset> datasets;
    for (const std::string& group : record.groups) {
      for (const StoredDataset& stored : unit.datasets_of(group)) {
        datasets.push_back(copied(unit, stored));
      }
    }
    writer.append(record.path, datasets);
  }

  /// Whether something is taken out of a unit.
  [[nodiscard]] bool loses(const UnitReader& unit) const {
    const std::string_view kind = format::kind_of(unit.record().path);
    const auto cut = [&](const std::string& group) {
      return cut_.contains(key_of(unit.record(), group));
    };
    return std::ranges::any_of(unit.record().groups, cut) ||
           std::ranges::any_of(unit.datasets(), [&](const StoredDataset& stored) {
             const std::string_view name = stored.name();
             return goes(kind, std::string(name)) ||
                    (made_.samples > 0 && name.starts_with("events/"));
           });
  }

  void strip_unit(const UnitRecord& record, format::DumpWriter& writer) {
    const UnitReader unit = dump_.open_unit(record);
    if (!loses(unit)) return copy(record, writer);
    const std::string_view kind = format::kind_of(record.path);
    std::vector<Dataset> datasets;
    for (const std::string& group : record.groups) {
      GroupStrip cut(dump_, unit, group);
      const Lengths ids = cut.numbers("sample_id");
      std::vector<uint8_t> rows;
      for (const uint64_t id : ids) rows.push_back(goes(id) ? 0 : 1);
      cut.keep(std::move(rows));
      const bool alone = made_.samples > 0 && !sampled_.contains(key_of(record, group));
      // A rank without samples stays where the step has others.
      if (!ids.empty() && cut.keeps_none() && !left_.contains(key_of(record, group))) continue;
      for (const StoredDataset& stored : unit.datasets_of(group)) {
        const std::string name(stored.name());
        if (goes(kind, name)) {
          made_.columns.insert(column_of(kind, name));
          continue;
        }
        const bool events = name.starts_with("events/");
        if (events && (alone || cut_.contains(key_of(record, group)))) {
          if (name == "events/tensors") note("table", " of events, which are of all samples");
          continue;
        }
        Dataset copy = copied(unit, stored);
        if (!cut.cut(name, copy)) {
          note("dataset", " of unknown rows (" + name + ")");
          continue;
        }
        datasets.push_back(std::move(copy));
      }
    }
    if (datasets.empty()) return;
    writer.append(record.path, datasets);
    ++made_.units;
  }

  const StripOptions& options_;
  DumpReader dump_;
  StripReport made_;
  std::set<std::string> left_;     // groups that some sample stays in
  std::set<std::string> sampled_;  // groups with samples: events of others are of them all
  std::set<std::string> cut_;      // groups that some sample goes from, on whichever rank
  std::map<std::pair<std::string, std::string>, uint64_t> also_;  // what else went, how many
};

}  // namespace

RunPart chosen_part(const std::string& dump, const std::string& steps) {
  RecordedRun run(dump);
  run.keep_steps(steps);
  return {run.steps().front(), run.steps().back()};
}

StripReport strip(const StripOptions& options) { return Strip(options).run(); }

}  // namespace rlreplay::replay
