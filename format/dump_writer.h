#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
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
  int threads = 2;
  Packing packing;
  Durable durable = Durable::kAppended;
  /// Null for the real system calls.
  std::shared_ptr<System> system;
  /// A JSON object of what may differ between equal runs, kept from the first moment, so that it
  /// outlives the writer; of a resumed dump nothing for what it has.
  std::optional<std::string> unstable = {};
  /// What no reader takes is not written.
  uint64_t unit_bytes = kMaxUnitBytes;
  uint64_t manifest_bytes = kMaxManifestBytes;
};

struct SealOptions {
  /// False when the dump is sealed by another than its writer.
  bool complete = true;
  /// A JSON object of what may differ between equal runs; nothing for what the writer began with.
  std::optional<std::string> unstable = {};
  /// The older dump that this one is a copy of.
  std::optional<DerivedFrom> derived_from;
};

/// Writes one dump. A unit is *acknowledged* when `append` returns: from then on no death of the
/// process, no full disk and no later error can lose it, and as far as `durable` says none of the
/// machine. One writer at a time: the folder is locked
/// from `create` or `resume` until the writer is destroyed, however that happens.
class DumpWriter {
 public:
  /// Begins a dump in a folder that is absent or empty. `meta` is a JSON object without fractions
  /// that has at least `ranks`.
  /// Errors: kUsage when the folder holds something or another process writes to it.
  static DumpWriter create(const std::string& path, std::string_view meta,
                           const WriterOptions& options = {});

  /// Goes on with a dump whose writer died: checks every acknowledged unit and removes what was
  /// not acknowledged. Of a sealed dump it removes the mark that sealing left behind.
  /// Errors: kUsage when it is sealed or another process writes to it; FormatError when an
  /// acknowledged unit is not whole.
  static DumpWriter resume(const std::string& path, const WriterOptions& options = {});

  ~DumpWriter();
  DumpWriter(DumpWriter&&) noexcept;

  const std::string& meta() const;
  /// The acknowledged units, in the order of their journal lines.
  const std::vector<UnitRecord>& units() const;
  [[nodiscard]] const UnitRecord* find(std::string_view path) const;

  /// Encodes, stores and acknowledges one unit.
  /// Errors: kUsage for a path that is there already or a bad dataset; kUnsupported for more than a
  /// reader takes; kEnvironment when it could not be stored: then nothing has changed, and it may
  /// be tried again; or when another program has changed the journal, which then is written anew.
  UnitRecord append(const std::string& path, std::span<const Dataset> datasets);

  /// Stores and acknowledges a unit that was encoded before.
  UnitRecord append(const EncodedUnit& unit);

  /// Ends the dump and returns its root. Nothing can be appended afterwards.
  Hash seal(const SealOptions& options = {});

 private:
  struct State;
  explicit DumpWriter(std::unique_ptr<State> state);
  void check_free(const std::string& path) const;
  void check_room(const UnitRecord& record) const;
  UnitRecord acknowledge(const UnitRecord& record);
  std::unique_ptr<State> state_;
};

}  // namespace rlreplay::format
