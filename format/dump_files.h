#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/folder.h"
#include "format/journal.h"

/// Which files of a folder are a dump's, and whose the folder is.
namespace rlreplay::format {

/// Whether a path below a dump is one that a writer makes, whole or under its temporary name.
[[nodiscard]] bool is_dump_file(std::string_view path);

/// The paths of all journals, sorted by writer; of a dump of version 0.1 its one journal.
[[nodiscard]] std::vector<std::string> list_journals(const Folder& folder);

/// Whether there is a manifest or a journal in a folder, whatever they say.
[[nodiscard]] bool looks_like_dump(const std::string& path);

/// A journal to be read; nothing where it is absent. Errors: FormatError kFileType.
[[nodiscard]] std::optional<OpenFile> open_journal(const Folder& folder, const std::string& path);

/// Whether a journal has a whole line. Errors: FormatError kFileType.
[[nodiscard]] bool has_begun(const Folder& folder);

/// The journals that have a whole line, sorted by writer, which are together a dump's.
/// Errors: FormatError kNotADump without any, kFileType, kFileSize, and of records to kDuplicate.
[[nodiscard]] std::vector<Journal> read_journals(const Folder& folder);

/// The first lines of all journals that have one, sorted by writer, which are together a dump's.
/// Errors: as of read_journals, of these lines.
[[nodiscard]] std::vector<Journal> read_heads(const Folder& folder);

/// The units of all journals, and others, sorted by path. Errors: FormatError kDuplicate.
[[nodiscard]] std::vector<const UnitRecord*> sorted_units(std::span<const Journal> journals,
                                                          std::span<const UnitRecord> more = {});

/// Whether the folder is empty or holds only what a writer left that died before its first record
/// was whole.
[[nodiscard]] bool nothing_acknowledged(const Folder& folder);

/// Whether a journal of the folder begins with a record of this format.
[[nodiscard]] bool begins_as_dump(const Folder& folder);

/// Why no dump is begun in a folder that holds something: the error to throw.
[[nodiscard]] Error occupied_by_dump(const Folder& folder);

/// The lock of the dump as a whole, of its folder of journals: whoever adds a journal, seals or
/// removes the dump holds it meanwhile. Waits a while for another who has it. Empty where there is
/// no such folder. Errors: kUsage where somebody keeps it; kEnvironment.
[[nodiscard]] Descriptor lock_dump(const Folder& folder);

/// Opens a journal and takes its lock: it is held until the file is closed. `maker`: it is made
/// where it is missing, and its name is durable.
/// Errors: kUsage where another process has it; kEnvironment.
[[nodiscard]] Descriptor lock_journal(const Folder& folder, const std::string& path,
                                      System* maker = nullptr);

/// The locks of a dump that nobody writes to.
struct DumpLock {
  Descriptor dump;
  std::vector<std::pair<std::string, Descriptor>> journals;  // by path
};

/// Takes all of them. Errors: kUsage where somebody writes to the dump, naming the writer.
[[nodiscard]] DumpLock lock_whole(const Folder& folder);

/// Removes the mark of an unfinished dump from one that is sealed: its writer died in between.
/// Errors: kUsage where another process has the lock.
void finish_sealing(const Folder& folder);

/// Removes the files of a dump that no record acknowledges, while nobody writes to it. `kept`:
/// which paths are to be left.
void remove_leftovers(const Folder& folder, System& system,
                      const std::function<bool(const std::string&)>& kept);

/// Removes a dump that nobody is writing to, and nothing else: a folder without journal and
/// manifest is refused, and files that no dump has are left.
void remove_dump(const std::string& path);

}  // namespace rlreplay::format
