#include "src/task/byte_level.h"

#include <array>
#include <cstdint>

#include "src/base/utf8.h"

namespace rlreplay {
namespace {

constexpr int kSymbols = 256 + 68;  // the highest symbol is U+0143

constexpr bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr std::array<char32_t, 256> make_symbols() {
  std::array<char32_t, 256> symbols{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    symbols[static_cast<size_t>(byte)] = prints(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return symbols;
}

constexpr auto kSymbolOfByte = make_symbols();

constexpr std::array<int16_t, kSymbols> make_bytes() {
  std::array<int16_t, kSymbols> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) {
    bytes[kSymbolOfByte[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr auto kByteOfSymbol = make_bytes();

}  // namespace

std::optional<std::string> bytes_of_symbols(std::string_view symbols) {
  std::string bytes;
  for (size_t i = 0; i < symbols.size();) {
    const char32_t symbol = next_code_point(symbols, i);
    if (symbol >= kSymbols || kByteOfSymbol[symbol] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOfSymbol[symbol]);
  }
  return bytes;
}

}  // namespace rlreplay
