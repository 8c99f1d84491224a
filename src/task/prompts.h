#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/json_lines.h"
#include "src/task/chat.h"
#include "src/task/tokenizer.h"

namespace rlreplay {

/// Where a line of a prompts file has its input and its label, and how long it may be.
struct PromptOptions {
  /// Empty: the first of prompt_token_ids, messages, prompt, text, input, question that a line has.
  std::string input_key;
  /// Empty: the first of label, answer that a line has.
  std::string label_key;
  size_t max_line_bytes = JsonLines::kMaxLine;
};

/// One line of a prompts file. The type of its input decides what it is.
struct Prompt {
  std::variant<std::string, std::vector<Message>, std::vector<TokenId>> input;
  std::optional<std::string> label;
  std::string where;  // path:line
};

/// Reads prompts line by line: JSONL, blank lines skipped.
class PromptReader {
 public:
  /// Errors: kIncomplete when the file cannot be opened.
  PromptReader(const std::string& path, PromptOptions options);
  /// `name` stands for the path in errors.
  PromptReader(std::unique_ptr<std::istream> stream, std::string name, PromptOptions options);

  /// The next prompt, or nothing at the end.
  /// Errors: kCorrupt with path:line when a line is too long, no JSON object, or lacks its input.
  [[nodiscard]] std::optional<Prompt> next();

 private:
  JsonLines lines_;
  PromptOptions options_;
};

/// All prompts of a file.
/// Errors: as PromptReader, and kIncomplete when there are none.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::string& path,
                                               const PromptOptions& options = {});

/// How the input of a prompt becomes ids: ids are taken as they are, messages are rendered first.
struct PromptEncoding {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat = nullptr;  // needed for messages only
  ChatOptions chat_options;
  bool apply_chat_template = false;          // text is rendered as one message of the user
  AddSpecial add_special = AddSpecial::kNo;  // for text that is not rendered
};

/// The ids of a prompt.
/// Errors: kUsage when messages come without a template; kCorrupt when there are no ids.
[[nodiscard]] std::vector<TokenId> encode_prompt(const Prompt& prompt,
                                                 const PromptEncoding& encoding);

}  // namespace rlreplay
