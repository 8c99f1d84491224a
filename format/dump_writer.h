#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/folder.h"
#include "format/journal.h"
#include "format/manifest.h"
#include "format/system.h"
#include "format/unit.h"
#include "format/unit_writer.h"

namespace rlreplay::format {

/// From when on no death of the machine takes a unit away.
enum class Durable {
  kAppended,  // when `append` returns
  kSealed,    // when `seal` does: for what would be made again from the beginning
  kNever      // what its maker reads and throws away
};

struct WriterOptions {
  /// The writer's name, of those of a path (`sound_name`).
  std::string writer = "0";
  int threads = 2;
  Packing packing;
  Durable durable = Durable::kAppended;
  /// Null for the real system calls.
  std::shared_ptr<System> system;
  /// A JSON object of what may differ between equal runs, kept from the first moment, so that it
  /// outlives the writer; of a resumed dump nothing for what it has.
  std::optional<std::string> unstable = {};
  /// Of a writer that goes on: whether units that a journal acknowledges are read and compared with
  /// their hashes, or only looked for.
  bool check = false;
  /// What no reader takes is not written.
  uint64_t unit_bytes = kMaxUnitBytes;
  uint64_t index_bytes = kMaxIndexBytes;
};

/// A unit to be written.
struct NewUnit {
  std::string path;
  std::span<const Dataset> datasets;
};

struct SealOptions {
  /// False where the dump is closed for a writer that died: its journal is left without its end.
  bool complete = true;
  /// A JSON object of what may differ between equal runs; nothing for what the writer began with.
  std::optional<std::string> unstable = {};
  /// The older dump that this one is a copy of.
  std::optional<DerivedFrom> derived_from;
};

/// One of the writers of a dump, often the only one. A unit is *acknowledged* when `append`
/// returns: from then on no death of the process, no full disk and no later error can lose it, and
/// as far as `durable` says none of the machine. A writer has a journal of its own, which is locked
/// until the writer is destroyed, however that happens; all of them share one folder.
class DumpWriter {
 public:
  /// Begins a dump in a folder that is absent or empty. `meta` is a JSON object without fractions
  /// that has at least `ranks`.
  /// Errors: kUsage when the folder holds something or another process writes to it.
  static DumpWriter create(const std::string& path, std::string_view meta,
                           const WriterOptions& options = {});

  /// Writes to a dump that another began, beside its other writers, or goes on where the writer of
  /// this name died.
  /// Errors: kUsage when the dump is sealed, or the writer of this name has ended or is at work;
  /// FormatError when there is no dump, or its journals break a rule.
  static DumpWriter join(const std::string& path, const WriterOptions& options);

  /// Goes on with a dump whose writers died, in the place of all of them: every acknowledged unit
  /// must be there (`check`: and whole), what was not acknowledged is removed. Of a sealed dump it
  /// removes the mark that sealing left behind. Errors: kUsage when it is sealed or another process
  /// writes to it; FormatError when an acknowledged unit is not whole.
  static DumpWriter resume(const std::string& path, const WriterOptions& options = {});

  ~DumpWriter();
  DumpWriter(DumpWriter&&) noexcept;

  const std::string& meta() const;
  /// The units that this writer acknowledged, or whom it goes on for, in the order of their journal
  /// lines.
  const std::vector<UnitRecord>& units() const;
  [[nodiscard]] const UnitRecord* find(std::string_view path) const;

  /// Encodes, stores and acknowledges one unit.
  /// Errors: kUsage for a path that is there already, another writer's too, or a bad dataset;
  /// kUnsupported for more than a reader takes; kEnvironment when it could not be stored: then
  /// nothing has changed, and it may be tried again; or when another program has changed the
  /// journal, which then is written anew.
  UnitRecord append(const std::string& path, std::span<const Dataset> datasets);

  /// The same of several units, which are made durable together: they are acknowledged all or none.
  std::vector<UnitRecord> append(std::span<const NewUnit> units);

  /// Stores and acknowledges a unit that was encoded before.
  UnitRecord append(const EncodedUnit& unit);

  /// Ends this writer, who leaves the sealing to another. Nothing can be appended afterwards.
  void end();

  /// Ends this writer and, where all others have ended, the dump: its root. Nothing where one has
  /// not, or another has sealed it just now.
  [[nodiscard]] std::optional<Hash> finish(const SealOptions& options = {});

  /// Ends the dump and returns its root. Nothing can be appended afterwards.
  /// Errors: kUsage where another writer has not ended.
  Hash seal(const SealOptions& options = {});

 private:
  struct State;
  explicit DumpWriter(std::unique_ptr<State> state);
  void check_free(const std::string& path) const;
  void check_claim(const PendingFile& file, const std::string& path) const;
  Hash seal_all(const SealOptions& options, std::vector<Journal> others);
  void check_room(const UnitRecord& record, uint64_t units, uint64_t bytes) const;
  struct Stored;
  [[nodiscard]] Stored store(const NewUnit& unit);
  void acknowledge(std::span<const UnitRecord> records);
  std::unique_ptr<State> state_;
};

}  // namespace rlreplay::format
