#include "format/upgrade.h"

#include <filesystem>
#include <utility>

#include "format/dataset_copy.h"
#include "format/dump_place.h"
#include "format/dump_reader.h"
#include "format/dump_writer.h"
#include "format/rule.h"
#include "format/verify.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

void refuse_what_is_not_whole(const std::string& path, const DumpReader& dump) {
  if (!dump.sealed()) {
    throw Error(ErrorCode::kUsage,
                "the dump is not sealed: go on with it with the version that began it, or close it "
                "(rlreplay seal --recovered), then upgrade it",
                path);
  }
  if (dump.version() == this_version()) {
    throw Error(ErrorCode::kUsage, "the dump is of version " + this_version() + " already", path);
  }
}

void copy_units(const DumpReader& dump, DumpWriter& writer, int threads) {
  ThreadPool pool(threads);
  for (const UnitRecord& record : dump.units()) {
    const UnitReader unit = dump.open_unit(record);
    UnitWriter out(record.path, pool);
    for (const StoredDataset& stored : unit.datasets()) {
      out.add(copy_as_stored(dump, unit, stored));
    }
    EncodedUnit encoded = out.finish();
    encoded.record.group_contents = record.group_contents;
    check(encoded.record.content == record.content, "a unit's content changed in rewriting it");
    writer.append(encoded);
  }
}

UpgradeReport upgrade_to(const std::string& from, DumpPlace place, int threads) {
  ReaderOptions reading;
  reading.threads = threads;
  const DumpReader dump = DumpReader::open(from, reading);
  refuse_what_is_not_whole(from, dump);
  Hash root;
  {
    // The writer has ended before the new dump takes its place.
    WriterOptions writing;
    writing.threads = threads;
    writing.durable = Durable::kSealed;
    DumpWriter writer = DumpWriter::create(place.path(), dump.meta(), writing);
    copy_units(dump, writer, threads);
    SealOptions seal;
    seal.complete = dump.complete();
    seal.unstable = dump.unstable();
    seal.derived_from = DerivedFrom{dump.version(), dump.root()};
    root = writer.seal(seal);
  }
  check(root == dump.root(), "the root changed in rewriting a dump");
  place.settle();
  return {dump.version(), this_version(), dump.units().size(), root};
}

}  // namespace

UpgradeReport upgrade(const std::string& from, const std::string& to, int threads, bool replace) {
  std::error_code absent;
  if (std::filesystem::equivalent(from, to, absent)) {
    throw Error(ErrorCode::kUsage, "-o is the dump itself: without -o the new one takes its place",
                to);
  }
  return upgrade_to(from, DumpPlace(to, replace, DumpPlace::Writer::kOneGo), threads);
}

UpgradeReport upgrade_in_place(const std::string& path, int threads) {
  for (const Problem& problem : verify(path, false).problems) {
    if (problem.rule != Rule::kUnlisted) throw FormatError(problem.rule, problem.message, path);
    throw Error(ErrorCode::kUsage,
                "the folder holds a file that no record names, which would be lost: move " +
                    problem.path + " away, or write the new dump elsewhere with -o",
                path);
  }
  return upgrade_to(path, DumpPlace(path, true, DumpPlace::Writer::kOneGo), threads);
}

}  // namespace rlreplay::format
