#include "format/foreign/safetensors_file.h"
#include "tests/fuzz/answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  const fuzz::MemoryFile file(data, size);
  return fuzz::answer([&] {
    const foreign::SafetensorsFile tensors(file.path());
    size_t bytes = 0;
    for (const foreign::StoredTensor& tensor : tensors.tensors()) {
      for (const uint8_t byte : tensor.data) bytes += byte > 1 ? 1 : 0;
      check(tensors.find(tensor.name) == &tensor, "a tensor is not found by its name");
    }
    check(bytes <= size, "more tensor bytes than the file has");
  });
}
