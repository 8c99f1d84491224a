#include <sstream>

#include "src/task/prompts.h"
#include "tests/fuzz/answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  return fuzz::answer([&] {
    PromptReader reader(
        std::make_unique<std::istringstream>(std::string(fuzz::text_of(data, size))), "prompts",
        {});
    while (reader.next()) {
    }
  });
}
