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

/// When a unit is safe: from then on no death of the machine takes it away.
enum class Durable {
  kAppended,  // when `append` returns
  kSealed,    // when `seal` does: for what would be made again from the beginning
  kNever      // what its maker reads and throws away
};

/// How a writer stores units, and what it refuses.
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
  /// Whether a writer that goes on reads the units that a journal acknowledges and compares them
  /// with their hashes, or only looks for them.
  bool check = false;
  /// A larger unit or index is refused: by default what no reader takes.
  uint64_t unit_bytes = kMaxUnitBytes;
  uint64_t index_bytes = kMaxIndexBytes;
};

/// A unit to be written.
struct NewUnit {
  std::string path;
  std::span<const Dataset> datasets;
};

/// What the manifest says of how the dump came about.
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
  [[nodiscard]] static DumpWriter create(const std::string& path, std::string_view meta,
                                         const WriterOptions& options = {});

  /// Writes to a dump that another began, beside its other writers, or goes on where the writer of
  /// this name died.
  /// Errors: kUsage when the dump is sealed, or the writer of this name has ended or is at work;
  /// FormatError when there is no dump, or its journals break a rule.
  [[nodiscard]] static DumpWriter join(const std::string& path, const WriterOptions& options);

  /// Goes on with a dump whose writers died, in the place of all of them: every acknowledged unit
  /// must be there (`check`: and whole), what was not acknowledged is removed. Of a sealed dump it
  /// removes the mark that sealing left behind. Errors: kUsage when it is sealed or another process
  /// writes to it; FormatError when an acknowledged unit is not whole.
  [[nodiscard]] static DumpWriter resume(const std::string& path,
                                         const WriterOptions& options = {});

  ~DumpWriter();
  DumpWriter(DumpWriter&&) noexcept;

  const std::string& meta() const;
  /// The units of the writer's journal, and of the journals that it goes on for, in their order.
  const std::vector<UnitRecord>& units() const;
  [[nodiscard]] const UnitRecord* find(std::string_view path) const;

  /// Encodes, stores and acknowledges one unit.
  /// Errors: kUsage for a path that is there already, another writer's too, or a bad dataset;
  /// kUnsupported for more than a reader takes; kEnvironment when it could not be stored: then
  /// nothing has changed, and it may be tried again; or when another program has changed the
  /// journal, which then is written anew.
  UnitRecord append(const std::string& path, std::span<const Dataset> datasets);

  /// Encodes, stores and acknowledges several units. They are made durable together, and
  /// acknowledged all or none. Errors: as of one unit.
  std::vector<UnitRecord> append(std::span<const NewUnit> units);

  /// Stores and acknowledges a unit that was encoded before.
  UnitRecord append(const EncodedUnit& unit);

  /// Ends this writer, who leaves the sealing to another. Nothing can be appended afterwards.
  void end();

  /// Ends this writer and, where all others have ended, the dump, whose root it returns. Nothing
  /// where one has not ended, or another has sealed the dump just now.
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
