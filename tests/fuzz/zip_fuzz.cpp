#include "format/foreign/zip_archive.h"
#include "tests/fuzz/answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  return fuzz::answer([&] {
    const foreign::ZipArchive archive({data, size});
    for (const foreign::ZipArchive::Member& member : archive.members()) {
      check(archive.find(member.name) == &member, "a member is not found by its name");
    }
  });
}
