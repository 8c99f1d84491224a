#include "src/replay/launch/provenance.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include <sys/utsname.h>
#include <unistd.h>

#include "format/canonical.h"
#include "format/libraries.h"
#include "src/base/build_info.h"
#include "src/base/hash.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/thread_pool.h"
#include "src/base/words.h"
#include "src/replay/launch/recorded_command.h"
#include "src/task/pattern.h"
#include "src/task/unicode.h"

namespace rlreplay::replay {
namespace {

using format::JsonObject;

constexpr std::string_view kKept[] = {"CUBLAS_WORKSPACE_CONFIG",
                                      "CUDA_DEVICE_ORDER",
                                      "CUDA_LAUNCH_BLOCKING",
                                      "CUDA_VISIBLE_DEVICES",
                                      "GOMP_CPU_AFFINITY",
                                      "KMP_AFFINITY",
                                      "LANG",
                                      "LC_ALL",
                                      "LOCAL_RANK",
                                      "MKL_CBWR",
                                      "MKL_NUM_THREADS",
                                      "NCCL_ALGO",
                                      "NCCL_BUFFSIZE",
                                      "NCCL_COLLNET_ENABLE",
                                      "NCCL_MAX_NCHANNELS",
                                      "NCCL_MIN_NCHANNELS",
                                      "NCCL_NVLS_ENABLE",
                                      "NCCL_PROTO",
                                      "NVIDIA_TF32_OVERRIDE",
                                      "OMP_DYNAMIC",
                                      "OMP_NUM_THREADS",
                                      "OMP_PROC_BIND",
                                      "OMP_SCHEDULE",
                                      "OPENBLAS_NUM_THREADS",
                                      "PYTHONHASHSEED",
                                      "RANK",
                                      "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                                      "TZ",
                                      "WORLD_SIZE"};

/// What a dump may hold: bytes outside of ASCII, which need not be UTF-8, as \xHH.
std::string ascii(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += std::string("\\x") + kDigits[byte >> 4] + kDigits[byte & 15];
    }
  }
  return out;
}

std::string utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// The command line of this process as it would be typed, without what may be a secret.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::string out;
  for (const std::string& word : recorded_words(words, CommandOf::kRlreplay)) {
    out += (out.empty() ? "" : " ") + shell_word(word);
  }
  return ascii(out);
}

std::string machine(const Computing& computing) {
  utsname system{};
  uname(&system);
  JsonObject out;
  out.text("host", ascii(system.nodename))
      .text("system", ascii(std::string(system.sysname) + " " + system.release))
      .text("processor", processor_name())
      .number("processors", processors());
  if (!computing.instructions.empty()) out.text("instructions", computing.instructions);
  return out.str();
}

std::string libraries(const Computing& computing) {
  JsonObject out;
  out.text("hdf5", format::hdf5_version()).text("zstd", format::zstd_version());
  out.text("xxhash", xxhash_version()).text("pcre2", pcre2_version());
  out.text("utf8proc", utf8proc_library_version());
  if (!computing.torch.empty()) out.text("torch", computing.torch);
  return out.str();
}

std::string environment() {
  JsonObject out;
  for (char** at = ::environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view line = *at;
    const std::string_view name = line.substr(0, line.find('='));
    if (name.size() == line.size() || !is_kept_variable(name)) continue;
    out.text(ascii(name), ascii(line.substr(name.size() + 1)));
  }
  return out.str();
}

std::string program() {
  return JsonObject()
      .text("version", program_version())
      .text("revision", kRevision)
      .boolean("modified", kModified)
      .text("compiler", compiler())
      .str();
}

/// `NAME VALUE, NAME VALUE`
std::string joined(const JsonValue& object, std::string_view between) {
  std::string out;
  for (const auto& [name, value] : object.members()) {
    if (!out.empty()) out += ", ";
    out += std::string(name) + std::string(between);
    out += value.is_string() ? value.string() : value.dump();
  }
  return out;
}

JsonObject object(const Computing& computing, const std::string& began) {
  return JsonObject()
      .json("program", program())
      .text("command", command_line())
      .json("libraries", libraries(computing))
      .json("machine", machine(computing))
      .json("environment", environment())
      .text("began", began);
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return ascii(line.substr(line.find(':') + 2));
  }
  return "unknown";
}

bool is_kept_variable(std::string_view name) {
  return std::ranges::find(kKept, name) != std::end(kKept);
}

Provenance::Provenance(Computing computing) : computing_(std::move(computing)), began_(utc()) {}

std::string Provenance::begun() const { return object(computing_, began_).str(); }

std::string Provenance::json() const {
  return object(computing_, began_).text("ended", utc()).str();
}

std::string provenance_text(const std::string& unstable) {
  constexpr size_t kLabel = 12;
  const JsonDocument document = JsonDocument::parse(unstable, "unstable");
  std::string out;
  for (const auto& [name, value] : document.root().members()) {
    const std::string text = value.is_string()   ? value.string()
                             : value.is_object() ? joined(value, " ")
                                                 : value.dump();
    if (text.empty()) continue;
    out += std::string(name) + std::string(name.size() < kLabel ? kLabel - name.size() : 1, ' ') +
           (name == "command" ? text : wrapped(text, kLineWidth, kLabel)) + "\n";
  }
  return out;
}

}  // namespace rlreplay::replay
