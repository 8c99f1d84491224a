#include "src/task/chat.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>\n";
constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

std::string_view without_leading_newlines(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

std::string_view without_trailing_newlines(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

void append(std::string& out, std::string_view role, std::string_view content) {
  out.append(kStart).append(role).append("\n").append(content).append(kEnd);
}

/// The user's message that the answers after it belong to. Results of tools are no questions.
size_t last_question(const std::vector<Message>& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    const auto& [role, content] = messages[i];
    if (role == "user" &&
        !(content.starts_with("<tool_response>") && content.ends_with("</tool_response>"))) {
      return i;
    }
  }
  return messages.size() - 1;
}

void append_answer(std::string& out, std::string_view content, bool answers_last, bool is_last) {
  std::string_view thought;
  const size_t end = content.find(kThinkEnd);
  if (end != content.npos) {
    thought = without_trailing_newlines(content.substr(0, end));
    const size_t begin = thought.rfind(kThinkBegin);
    if (begin != thought.npos) thought.remove_prefix(begin + kThinkBegin.size());
    thought = without_leading_newlines(thought);
    content = without_leading_newlines(content.substr(content.rfind(kThinkEnd) + kThinkEnd.size()));
  }
  if (!answers_last || (!is_last && thought.empty())) return append(out, "assistant", content);
  out.append(kStart).append("assistant\n<think>\n").append(without_trailing_newlines(thought));
  out.append("\n</think>\n\n").append(without_leading_newlines(content)).append(kEnd);
}

void require_known_roles(const std::vector<Message>& messages) {
  for (const auto& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      throw Error(ErrorCode::kUnsupported,
                  "the role \"" + message.role +
                      "\" is not rendered: system, user and assistant are; render the messages "
                      "first and give the prompt as text");
    }
  }
}

}  // namespace

std::string ChatTemplate::render(const std::vector<Message>& messages,
                                 const ChatOptions& options) const {
  if (messages.empty()) throw Error(ErrorCode::kCorrupt, "there are no messages to render");
  if (style_ != Style::kChatMl) require_known_roles(messages);
  std::string out;
  if (style_ == Style::kQwen2 && messages[0].role != "system") {
    append(out, "system", default_system_);
  }
  const size_t question = last_question(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, content] = messages[i];
    if (style_ == Style::kQwen3 && role == "assistant") {
      append_answer(out, content, i > question, i + 1 == messages.size());
    } else {
      append(out, role, content);
    }
  }
  if (options.add_generation_prompt) {
    out.append(kStart).append("assistant\n");
    if (style_ == Style::kQwen3 && !options.enable_thinking) out += "<think>\n\n</think>\n\n";
  }
  return out;
}

}  // namespace rlreplay
