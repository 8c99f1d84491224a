#include "src/base/model_shape.h"

#include <string_view>
#include <utility>

namespace rlreplay {
namespace {

constexpr std::pair<std::string_view, int64_t ModelConfig::*> kSizes[] = {
    {"hidden", &ModelConfig::hidden},     {"intermediate", &ModelConfig::intermediate},
    {"layers", &ModelConfig::layers},     {"heads", &ModelConfig::heads},
    {"kv_heads", &ModelConfig::kv_heads}, {"head_dim", &ModelConfig::head_dim},
    {"vocab", &ModelConfig::vocab}};

}  // namespace

std::string shape_difference(const ModelConfig& found, const ModelConfig& expected) {
  std::string out;
  const auto add = [&](std::string_view what, const std::string& a, const std::string& b) {
    if (a == b) return;
    out += (out.empty() ? "" : ", ") + std::string(what) + " " + a + " (expected " + b + ")";
  };
  add("architecture", std::string(name(found.architecture)),
      std::string(name(expected.architecture)));
  for (const auto& [what, size] : kSizes) {
    add(what, std::to_string(found.*size), std::to_string(expected.*size));
  }
  add("head", found.tied ? "tied" : "untied", expected.tied ? "tied" : "untied");
  return out;
}

}  // namespace rlreplay
