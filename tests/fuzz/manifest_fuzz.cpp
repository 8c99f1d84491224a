#include "format/canonical.h"
#include "format/manifest.h"
#include "tests/fuzz/answer.h"

/// A manifest as it lies in a file, and, so that the fuzzer needs to find no hash, as the body of
/// one with the hash that it should have.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  fuzz::answer([&] { format::parse_manifest(fuzz::bytes_of(data, size)); });
  const std::string sealed = format::record_line(fuzz::text_of(data, size));
  return fuzz::answer([&] {
    const format::Manifest manifest = format::parse_manifest(std::as_bytes(std::span(sealed)));
    if (manifest.version == format::kOldVersion) return;  // is not written any more
    // What was accepted is written as the same record, but for keys that are not ours.
    const std::string again = format::manifest_text(manifest);
    const format::Manifest twice = format::parse_manifest(std::as_bytes(std::span(again)));
    check(twice.root == manifest.root && twice.index == manifest.index &&
              twice.journals == manifest.journals,
          "another manifest");
  });
}
