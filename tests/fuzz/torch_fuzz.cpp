#include "format/foreign/canonical_json.h"
#include "format/foreign/dump_check.h"
#include "format/foreign/torch_file.h"
#include "tests/fuzz/answer.h"

/// A whole file of torch.save, zip and pickle together.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  const fuzz::MemoryFile memory(data, size);
  return fuzz::answer([&] {
    const foreign::TorchFile file(memory.path());
    check_dump(file.tree(), file.root());
    write_canonical_json(file.tree(), file.root(), [](std::string_view) {});
  });
}
