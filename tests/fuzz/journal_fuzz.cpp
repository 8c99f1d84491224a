#include "format/canonical.h"
#include "format/journal.h"
#include "tests/fuzz/answer.h"

/// A journal as it lies in a file, and as the bodies of its lines, each with the hash that it
/// should have and that of the line before it where it says `PREVIOUS`.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  const std::string path = format::journal_path("0");
  fuzz::answer([&] { format::parse_journal(fuzz::bytes_of(data, size), path); });
  std::string sealed, previous;
  std::string_view rest = fuzz::text_of(data, size);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string body(rest.substr(0, end));
    constexpr std::string_view kMark = "PREVIOUS";
    if (const size_t at = body.find(kMark); at != body.npos) {
      body.replace(at, kMark.size(), previous);
    }
    previous = hash_of(body).hex();
    sealed += format::record_line(body);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return fuzz::answer([&] { format::parse_journal(std::as_bytes(std::span(sealed)), path); });
}
