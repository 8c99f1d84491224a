#include "src/replay/inspect/token_texts.h"

#include <filesystem>
#include <system_error>

#include "src/base/error.h"
#include "src/base/text_table.h"
#include "src/task/demo_task.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::replay {
namespace {

std::optional<Tokenizer> read(const std::string& model) {
  if (model == kDemo) return demo_tokenizer();
  const std::string path = model + "/tokenizer.json";
  std::error_code absent;  // also where a recorded path can be none
  if (!std::filesystem::exists(path, absent)) return std::nullopt;
  return Tokenizer::read(path);
}

}  // namespace

std::optional<Tokenizer> find_tokenizer(const RecordedRun& run, const std::string& model) {
  if (!model.empty()) return open_tokenizer(model);
  try {
    return read(run.config().options.model);
  } catch (const Error&) {
    return std::nullopt;  // an imported dump names no model; another's tokenizer may be unsupported
  }
}

std::string token_text(const std::optional<Tokenizer>& tokenizer, int32_t id) {
  if (!tokenizer) return std::to_string(id);
  const std::string text = tokenizer->decode({&id, 1});
  return text.empty() ? std::to_string(id) : "\"" + one_line(text, 24) + "\"";
}

}  // namespace rlreplay::replay
