#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/json_line.h"
#include "src/base/json_lines.h"
#include "src/base/json_value.h"
#include "src/replay/verbs/verb.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::replay {
namespace {

struct TokenizeArguments {
  std::string model;
  std::string input = "-";
  bool decode = false;
  bool add_special = false;
};

std::string ids_json(std::span<const TokenId> ids) {
  return json_list(ids, [](TokenId id) { return std::to_string(id); });
}

/// The ids of a list. Errors: kCorrupt for an id that names no token.
std::vector<TokenId> read_ids(const JsonValue& list, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < list.size(); ++i) {
    ids.push_back(static_cast<TokenId>(list.at(i).integer(0, INT32_MAX)));
    if (tokenizer.bytes(ids.back()).empty()) {
      throw list.at(i).error("the tokenizer has no token " + std::to_string(ids.back()) +
                             "; its ids end at " + std::to_string(tokenizer.size() - 1));
    }
  }
  return ids;
}

int tokenize(const TokenizeArguments& arguments) {
  const Tokenizer tokenizer = open_tokenizer(arguments.model);
  JsonLines lines = open_lines(arguments.input);
  while (const auto line = lines.next()) {
    JsonLine out;
    if (arguments.decode) {
      out.text("text", tokenizer.decode(read_ids(line->root()["ids"], tokenizer)));
    } else {
      const auto add = arguments.add_special ? AddSpecial::kYes : AddSpecial::kNo;
      out.json("ids", ids_json(tokenizer.encode(line->root()["text"].string(), add)));
    }
    std::cout << out.str() << '\n';
  }
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* verb = program.add_subcommand("tokenize", "Text to token ids and back");
  verb->add_option("--model", arguments->model, "folder with a tokenizer.json, or demo")
      ->required();
  verb->add_option("input", arguments->input, "JSONL file, - for standard input");
  verb->add_flag("--decode", arguments->decode, "lines {\"ids\": [...]} in, {\"text\": ...} out");
  verb->add_flag("--add-special", arguments->add_special,
                 "put the tokenizer's own special tokens around the text");
  verb->footer(
      "Reads lines {\"text\": ...} and prints a line {\"ids\": [...]} for each, in their order.\n\n"
      "Example:\n  echo '{\"text\": \"12+34=\"}' | rlreplay tokenize --model demo");
  verb->callback([=, &chosen] { chosen = [=] { return tokenize(*arguments); }; });
}

}  // namespace rlreplay::replay
