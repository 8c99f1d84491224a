#include "src/task/find_tokenizer.h"

#include <filesystem>
#include <system_error>

#include "src/base/error.h"
#include "src/task/demo_task.h"

namespace rlreplay {

void check_model_name(const std::string& name) {
  if (!name.empty()) return;
  throw Error(ErrorCode::kUsage, "no model: give --model a checkpoint's folder, or demo");
}

Tokenizer open_tokenizer(const std::string& name) {
  namespace fs = std::filesystem;
  check_model_name(name);
  if (name == kDemo) return demo_tokenizer();
  std::error_code absent;
  const fs::path path =
      fs::is_directory(name, absent) ? fs::path(name) / "tokenizer.json" : fs::path(name);
  if (!fs::exists(path, absent)) {
    throw Error(ErrorCode::kIncomplete,
                "there is no tokenizer.json; transformers writes one: "
                "AutoTokenizer.from_pretrained(...).save_pretrained(...)",
                path.string());
  }
  return Tokenizer::read(path.string());
}

}  // namespace rlreplay
