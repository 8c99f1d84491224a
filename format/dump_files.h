#pragma once

#include <string>
#include <string_view>

#include "format/folder.h"

/// Which files of a folder are a dump's, and whose the folder is.
namespace rlreplay::format {

/// Whether a path below a dump is one that a writer makes, whole or under its temporary name.
[[nodiscard]] bool is_dump_file(std::string_view path);

/// Whether the folder is empty or holds only what a writer left that died before its first record
/// was whole.
bool nothing_acknowledged(const Folder& folder);

/// Whether the folder's journal begins with a record of this format.
bool begins_as_journal(const Folder& folder);

/// Why no dump is begun in a folder that holds something: the error to throw.
Error occupied_by_dump(const Folder& folder);

/// Opens the journal and takes the dump's lock: it is held until the file is closed. `flags` go to
/// open. Errors: kUsage where another process has it; kEnvironment.
Descriptor lock_journal(const Folder& folder, int flags);

/// Removes the mark of an unfinished dump from one that is sealed: its writer died in between.
/// Errors: kUsage where another process has the lock.
void finish_sealing(const Folder& folder);

/// Removes a dump that nobody is writing to, and nothing else: a folder without journal and
/// manifest is refused, and files that no dump has are left.
void remove_dump(const std::string& path);

}  // namespace rlreplay::format
