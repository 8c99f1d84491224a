#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_lines.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/with_place.h"
#include "src/engine/backend.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/run_config.h"
#include "src/replay/source/model_source.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct ScoreArguments {
  RunOptions options;
  std::string tokens = "-";
};

std::string floats_json(std::span<const float> values) {
  return json_list(values, [](float value) { return shortest(value); });
}

Sample read_sample(const JsonValue& root) {
  Sample sample;
  const JsonValue tokens = root["tokens"];
  if (tokens.size() == 0) throw tokens.error("a sequence needs at least one token");
  for (size_t i = 0; i < tokens.size(); ++i) {
    sample.tokens.push_back(static_cast<int32_t>(tokens.at(i).integer(0, INT32_MAX)));
  }
  sample.prompt_length = root["prompt_len"].integer(1, static_cast<int64_t>(tokens.size()));
  return sample;
}

int score(const ScoreArguments& arguments) {
  if (!(arguments.options.rollout_temperature > 0)) {
    throw Error(ErrorCode::kUsage, "--temperature is above 0, not " +
                                       shortest_of(arguments.options.rollout_temperature) +
                                       ": logits are divided by it");
  }
  const Machine machine(arguments.options);
  const auto source = find_model(arguments.options.model, arguments.options.seed);
  const auto backend = engine::make_backend(
      arguments.options.kernels, machine.runtime(),
      {.model = source->config(), .rope = rope(arguments.options), .training = false});
  backend->write_state(0, [&](const StateSpans<float>& state) {
    source->load(machine.runtime(), backend->parameters(), state.weights);
  });
  const auto temperature = static_cast<float>(arguments.options.rollout_temperature);
  JsonLines lines = open_lines(arguments.tokens);
  while (const auto line = lines.next()) {
    const Sample sample = read_sample(line->root());
    const Scores scores = with_place(line->where(), [&] {
      return backend->score({&sample, 1}, temperature, /*micro_batch_size=*/0).front();
    });
    std::cout << JsonLine()
                     .json("log_probs", floats_json(scores.log_probs))
                     .json("entropy", floats_json(scores.entropy))
                     .str()
              << '\n';
  }
  return 0;
}

}  // namespace

void add_score(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<ScoreArguments>();
  CLI::App* verb = program.add_subcommand("score", "Log-probabilities of given sequences");
  RunOptions& options = arguments->options;
  verb->add_option("--model", options.model, "checkpoint folder, or demo")->required();
  verb->add_option("--tokens,tokens", arguments->tokens, "JSONL file, - for standard input");
  verb->add_option("--temperature", options.rollout_temperature, "logits are divided by it");
  verb->add_option("--rope", options.rope, "hf or exact")->check(CLI::IsMember({"hf", "exact"}));
  verb->add_option("--kernels", options.kernels, "portable or torch")
      ->check(CLI::IsMember({"portable", "torch"}));
  verb->add_option("--threads", options.threads, "0: one a processor")
      ->check(CLI::NonNegativeNumber);
  verb->footer(
      "Reads lines {\"tokens\": [...], \"prompt_len\": n} and prints, in their order, a line\n"
      "{\"log_probs\": [...], \"entropy\": [...]} of each one's response tokens.\n\n"
      "Example:\n  echo '{\"tokens\": [3, 1, 4, 1], \"prompt_len\": 2}' | "
      "rlreplay score --model demo");
  verb->callback([=, &chosen] { chosen = [=] { return score(*arguments); }; });
}

}  // namespace rlreplay::replay
