#pragma once

#include <memory>
#include <span>
#include <string>

#include "format/dataset.h"
#include "format/sink.h"
#include "format/unit.h"
#include "src/base/thread_pool.h"

namespace rlreplay::format {

/// How units are packed. It changes stored bytes and never the content.
struct Packing {
  int level = 1;
  /// Bytes of a chunk: 64 KiB to 4 MiB.
  size_t chunk_bytes = size_t{1} << 19;
  /// Datasets up to this size are stored as they are.
  size_t plain_bytes = 1024;
};

/// Encodes one unit. The bytes depend on the calls and the packing alone, never on the
/// number of threads.
class UnitWriter {
 public:
  /// Errors: kUsage for a path outside the grammar.
  UnitWriter(std::string path, ThreadPool& pool, const Packing& packing = {});
  /// Encodes the unit to a sink instead of memory, while further datasets are added.
  UnitWriter(std::string path, ThreadPool& pool, const Packing& packing, Sink& sink);
  ~UnitWriter();
  UnitWriter(UnitWriter&&) noexcept;

  /// Errors: kUsage for a path outside the grammar or used twice, a shape that does not fit the
  /// bytes, or a base of another size; kUnsupported for attributes that no reader takes.
  void add(const Dataset& dataset);
  /// Ends a unit in memory.
  [[nodiscard]] EncodedUnit finish();
  /// Ends a unit that went to a sink: its bytes are read back and hashed.
  [[nodiscard]] UnitRecord finish_file();

 private:
  struct State;
  static std::unique_ptr<State> begin(std::string path, ThreadPool& pool, const Packing& packing,
                                      Sink* sink);
  std::unique_ptr<State> state_;
};

/// The content hash of a unit of these datasets, which is the same however they are packed.
[[nodiscard]] Hash content_of(std::span<const Dataset> datasets);

}  // namespace rlreplay::format
