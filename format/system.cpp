#include "format/system.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rlreplay::format {

ssize_t System::write(int file, const void* bytes, size_t size) {
  return ::write(file, bytes, size);
}
ssize_t System::write_at(int file, const void* bytes, size_t size, off_t at) {
  return ::pwrite(file, bytes, size, at);
}
int System::fsync(int file) { return ::fsync(file); }
int System::syncfs(int file) { return ::syncfs(file); }
int System::rename(int folder, const char* from, int to_folder, const char* to) {
  return ::renameat(folder, from, to_folder, to);
}
int System::make_folder(int folder, const char* name) { return ::mkdirat(folder, name, 0777); }
int System::remove(int folder, const char* name) { return ::unlinkat(folder, name, 0); }

}  // namespace rlreplay::format
