#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/dump_writer.h"
#include "src/base/descriptor.h"
#include "src/base/thread_pool.h"

/// What a writer knows between its calls. Included by dump_writer*.cpp only.
namespace rlreplay::format {

inline constexpr char kWriterDone[] = "the dump is sealed, or this writer of it has ended";

/// The system calls that seal a dump.
[[nodiscard]] inline std::shared_ptr<System> sealing_system(const WriterOptions& options) {
  return options.system ? options.system : std::make_shared<System>();
}

/// The state of a DumpWriter. Its `units` are those that the own journal and adopted ones name.
struct DumpWriter::State {
  State(Folder where, const WriterOptions& how, std::shared_ptr<System> calls)
      : folder(std::move(where)), options(how), system(std::move(calls)), pool(how.threads) {}

  Folder folder;
  WriterOptions options;
  std::shared_ptr<System> system;
  ThreadPool pool;
  std::string meta, unstable;
  std::vector<UnitRecord> units;
  std::set<std::string, std::less<>> paths;    // of the units
  std::set<std::string, std::less<>> writers;  // whose units they are
  uint64_t bytes = 0;                          // of the units in the index
  std::optional<JournalWriter> journal;        // the own one
  std::vector<JournalWriter> adopted;          // of writers that died, in whose place this one is
  bool done = false;
  uint64_t foreign = 0;  // units of other writers, as far as they were counted
  std::map<std::string, std::pair<uint64_t, uint64_t>> counted;  // bytes and lines of a journal

  void count_others();
  void take(const Journal& journal);
  void take(const UnitRecord& unit);
  void adopt(Descriptor file, const Journal& journal);
  void begin_journal();
  void keep_journal(bool reread);
  void end_journals();
  void release();
  [[nodiscard]] std::vector<Journal> read_others() const;
  void remove_unacknowledged(std::span<const Journal> others);
  [[nodiscard]] std::vector<JournalEntry> entries(std::span<const Journal> others) const;
};

}  // namespace rlreplay::format
