#include "src/task/chat.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include <unistd.h>

#include "src/task/tokenizer.h"
#include "tests/task/support.h"

using namespace rlreplay;
using namespace rlreplay::test;
using Catch::Matchers::Contains;
using Style = ChatTemplate::Style;

namespace {

const std::string kQwen25System =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

// Plain ChatML in one line.
const std::string kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}";

std::vector<Message> messages_of(const JsonValue& list) {
  std::vector<Message> messages;
  for (size_t i = 0; i < list.size(); ++i) {
    messages.push_back({list.at(i)["role"].string(), list.at(i)["content"].string()});
  }
  return messages;
}

std::string temporary_folder(const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("rlreplay_chat_" + name + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

}  // namespace

TEST_CASE("messages are rendered as Jinja renders them by the published templates") {
  const std::map<std::string, ChatTemplate> templates = {
      {"chatml", ChatTemplate(Style::kChatMl)},
      {"qwen2", ChatTemplate(Style::kQwen2, kQwen25System)},
      {"qwen3", ChatTemplate(Style::kQwen3)}};
  const auto lines = read_lines(data_path("chat.cases.jsonl"));
  REQUIRE(lines.size() == 210);
  for (const auto& line : lines) {
    INFO(line);
    const auto document = JsonDocument::parse(line, "chat");
    const JsonValue root = document.root();
    ChatOptions options;
    options.add_generation_prompt = root["add_generation_prompt"].boolean();
    if (const auto thinking = root.find("enable_thinking")) {
      options.enable_thinking = thinking->boolean();
    }
    const auto& chat = templates.at(root["style"].string());
    CHECK(chat.render(messages_of(root["messages"]), options) == root["text"].string());
  }
}

void check_chats(const std::string& folder) {
  const auto tokenizer = Tokenizer::read(folder + "/tokenizer.json");
  const auto chat = ChatTemplate::read(folder);
  const auto document = JsonDocument::read(folder + "/tokenizer_cases.json");
  const auto cases = document.root()["chat"];
  REQUIRE(cases.size() > 0);
  for (size_t i = 0; i < cases.size(); ++i) {
    ChatOptions options;
    options.add_generation_prompt = cases.at(i)["add_generation_prompt"].boolean();
    const auto text = chat.render(messages_of(cases.at(i)["messages"]), options);
    CHECK(text == cases.at(i)["text"].string());
    CHECK(tokenizer.encode(text) == ids_of(cases.at(i)["ids"]));
  }
}

TEST_CASE("chats of a checkpoint's template and tokenizer") {
  for (const std::string& folder : tokenizer_folders()) check_chats(folder);
}

TEST_CASE("a template is recognised by its text") {
  CHECK(ChatTemplate::recognise(kChatMl, "t").style() == Style::kChatMl);
  std::string spaced;
  for (const char c : kChatMl) {
    spaced += c;
    if (spaced.ends_with(" + ")) spaced.erase(spaced.size() - 3).push_back('+');
  }
  CHECK(ChatTemplate::recognise(spaced + "\n", "t").style() == Style::kChatMl);

  for (size_t i = 0; i < kChatMl.size(); ++i) {
    std::string changed = kChatMl;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    const auto error =
        error_of([&] { static_cast<void>(ChatTemplate::recognise(changed, "config")); });
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::kUnsupported);
    CHECK(error->where() == "config");
    CHECK_THAT(error->what(), Contains("render the messages first"));
  }
}

TEST_CASE("a default system message and a branch for tools do not hide what a template is") {
  const auto with = [&](const std::string& who, const std::string& tools) {
    return chat_template_fingerprint(tools + "{{- '<|im_start|>system\\nBe " + who +
                                     ".<|im_end|>\\n' }}{{- message }}");
  };
  const std::string tools = "{%- if tools %}\n  {{- tools }}\n{%- else %}\n";
  CHECK(with("brief", "") == with("it\\'s \\\\boxed{}", ""));
  CHECK(with("brief", "") == with("kind", tools));
  CHECK(with("brief", "") != with("brief", "{%- set a = 1 %}"));
}

TEST_CASE("templates are found in a checkpoint's folder") {
  const std::string folder = temporary_folder("find");
  CHECK(error_of([&] { static_cast<void>(ChatTemplate::read(folder)); })->code() ==
        ErrorCode::kIncomplete);
  const auto config = [&](const std::string& json) {
    std::ofstream(folder + "/tokenizer_config.json") << json;
  };
  config("{}");
  CHECK(error_of([&] { static_cast<void>(ChatTemplate::read(folder)); })->code() ==
        ErrorCode::kIncomplete);
  config(R"({"chat_template": [{"name": "tool_use", "template": "x"}]})");
  CHECK(error_of([&] { static_cast<void>(ChatTemplate::read(folder)); })->code() ==
        ErrorCode::kUnsupported);
  config(R"({"chat_template": "{{ strange }}"})");
  const auto strange = error_of([&] { static_cast<void>(ChatTemplate::read(folder)); });
  CHECK_THAT(strange->where(), Contains("tokenizer_config.json /chat_template"));
  std::ofstream(folder + "/chat_template.jinja") << kChatMl;
  CHECK(ChatTemplate::read(folder).style() == Style::kChatMl);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what cannot be rendered is refused") {
  const ChatTemplate qwen(Style::kQwen2, kQwen25System);
  CHECK(error_of([&] { qwen.render({}); })->code() == ErrorCode::kCorrupt);
  const auto tool = error_of([&] { qwen.render({{"user", "a"}, {"tool", "b"}}); });
  REQUIRE(tool);
  CHECK(tool->code() == ErrorCode::kUnsupported);
  CHECK_THAT(tool->what(), Contains("the role \"tool\""));
  CHECK(ChatTemplate(Style::kChatMl).render({{"narrator", "b"}}, {false, true}) ==
        "<|im_start|>narrator\nb<|im_end|>\n");
}
