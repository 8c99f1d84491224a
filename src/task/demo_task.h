#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/task/prompts.h"
#include "src/task/tokenizer.h"

namespace rlreplay {

/// The task of the built-in model: to add two numbers.
struct DemoTask {
  uint64_t seed = 0;
  int64_t max_operand = 99;  // both operands are drawn from 0 to this, at most 10^9
};

/// Tokenizer of the demo as the text of a tokenizer.json, so that a saved demo model is a
/// checkpoint like any other: the digits, '+', '=', ' ' and a new line, each a token, and
/// <|start|>, which is put before a text, and <|end|>.
[[nodiscard]] std::string demo_tokenizer_json();
[[nodiscard]] Tokenizer demo_tokenizer();

/// The token that ends a response of the demo.
inline constexpr std::string_view kDemoEnd = "<|end|>";

/// Problem `index` of the task: the prompt "37+48=" and the label "85". It depends on the task and
/// the index alone.
[[nodiscard]] Prompt demo_prompt(const DemoTask& task, uint64_t index);

/// The right answer to a problem as a supervised step needs it: ids of the prompt, of the label,
/// and of kDemoEnd.
struct DemoExample {
  std::vector<TokenId> ids;
  size_t prompt_length = 0;
};

/// `prompt`: one of demo_prompt. The prompt's ids begin with that of <|start|>.
[[nodiscard]] DemoExample demo_example(const Tokenizer& tokenizer, const Prompt& prompt);

}  // namespace rlreplay
