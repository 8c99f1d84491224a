#include "src/base/json_value.h"
#include "src/task/tokenizer.h"
#include "src/task/tokenizer_spec.h"
#include "tests/fuzz/answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  return fuzz::answer([&] {
    const JsonDocument document = JsonDocument::parse(fuzz::text_of(data, size), "tokenizer.json");
    const Tokenizer tokenizer(parse_tokenizer_spec(document));
    const auto ids = tokenizer.encode("Hello, 123 w\u00f6rlds!\n\n  <|im_end|>", AddSpecial::kYes);
    tokenizer.decode(ids);
  });
}
