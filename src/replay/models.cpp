#include "src/replay/models.h"

#include <filesystem>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/demo.h"

namespace rlreplay::replay {

std::unique_ptr<ModelSource> find_model(const std::string& name, int64_t seed) {
  if (name.empty()) {
    throw Error(ErrorCode::kUsage, "no model: give --model a checkpoint's folder, or demo");
  }
  if (name == kDemo) return open_demo({static_cast<uint64_t>(seed), DemoOptions{}.warm_steps});
  return open_checkpoint(name);
}

Tokenizer open_tokenizer(const std::string& name) {
  namespace fs = std::filesystem;
  if (name.empty() || name == kDemo) return find_model(name, 0)->tokenizer();
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

JsonLines open_lines(const std::string& path) {
  if (path != "-") return JsonLines(path);
  return {std::make_unique<std::istream>(std::cin.rdbuf()), "standard input"};
}

}  // namespace rlreplay::replay
