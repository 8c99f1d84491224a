#include "src/task/demo_task.h"

#include "src/base/error.h"

namespace rlreplay {
namespace {

constexpr int64_t kMaxOperand = 1'000'000'000;

/// SplitMix64's output function: each index draws its own numbers, in any order.
uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t draw(uint64_t seed, uint64_t index, uint64_t which) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  return mix(mix(mix(seed + kStep) + index * kStep) + (which + 1) * kStep);
}

/// A number of [0, max]: the high half of a product, which favours none by more than max / 2^32.
int64_t operand(uint64_t random, int64_t max) {
  return static_cast<int64_t>((random >> 32) * static_cast<uint64_t>(max + 1) >> 32);
}

}  // namespace

std::string demo_tokenizer_json() {
  return R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [
    {"id": 14, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 15, "content": "<|start|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}
  ],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|start|>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|start|>": {"id": "<|start|>", "ids": [15], "tokens": ["<|start|>"]}}
  },
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {
    "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
    "vocab": {"0": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "7": 7, "8": 8, "9": 9,
              "+": 10, "=": 11, "Ġ": 12, "Ċ": 13},
    "merges": []
  }
}
)";
}

Tokenizer demo_tokenizer() {
  return Tokenizer(parse_tokenizer_spec(JsonDocument::parse(demo_tokenizer_json(), "demo")));
}

Prompt demo_prompt(const DemoTask& task, uint64_t index) {
  if (task.max_operand < 0 || task.max_operand > kMaxOperand) {
    throw Error(ErrorCode::kUsage, "the largest operand of the demo task is " +
                                       std::to_string(task.max_operand) +
                                       "; it must be from 0 to " + std::to_string(kMaxOperand));
  }
  const int64_t a = operand(draw(task.seed, index, 0), task.max_operand);
  const int64_t b = operand(draw(task.seed, index, 1), task.max_operand);
  return {std::to_string(a) + "+" + std::to_string(b) + "=", std::to_string(a + b),
          "demo:" + std::to_string(index)};
}

DemoExample demo_example(const Tokenizer& tokenizer, const Prompt& prompt) {
  DemoExample example;
  example.ids = tokenizer.encode(std::get<std::string>(prompt.input), AddSpecial::kYes);
  example.prompt_length = example.ids.size();
  for (const TokenId id : tokenizer.encode(*prompt.label)) example.ids.push_back(id);
  example.ids.push_back(*tokenizer.find(kDemoEnd));
  return example;
}

}  // namespace rlreplay
