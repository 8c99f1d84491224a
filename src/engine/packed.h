#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/error.h"

/// Values as bytes between processes of one program: nothing here is a file format.
namespace rlreplay::engine {

template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

/// Puts values one behind the other; of several of a type their number stands first.
class Packer {
 public:
  template <Plain T>
  Packer& add(const T& value) {
    return append(&value, sizeof value);
  }
  template <Plain T>
  Packer& add(std::span<const T> values) {
    return add(uint64_t{values.size()}).append(values.data(), values.size_bytes());
  }
  template <Plain T>
  Packer& add(const std::vector<T>& values) {
    return add(std::span<const T>(values));
  }
  Packer& add(const std::string& text) { return add(std::span<const char>(text)); }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  Packer& append(const void* data, size_t size) {
    const size_t at = bytes_.size();
    bytes_.resize(at + size);
    // Without a bound that it can see, the compiler warns of the copy (-Wstringop-overflow).
    check(size < size_t{1} << 62, "no message is that long");
    if (size > 0) std::memcpy(bytes_.data() + at, data, size);
    return *this;
  }
  std::vector<std::byte> bytes_;
};

/// Takes values off in the order in which they were packed. Errors: kInternal where fewer came.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <Plain T>
  void take(T& value) {
    const auto from = next(sizeof value);
    std::memcpy(static_cast<void*>(&value), from.data(), sizeof value);
  }
  template <Plain T>
  T take() {
    T out{};
    take(out);
    return out;
  }
  template <Plain T>
  void take(std::vector<T>& values) {
    const auto count = take<uint64_t>();
    check(count <= bytes_.size() / sizeof(T), kShort);
    const auto from = next(count * sizeof(T));
    values.resize(count);
    if (count > 0) std::memcpy(static_cast<void*>(values.data()), from.data(), from.size());
  }
  /// Fills `values`. Errors: kInternal where another number of them was packed.
  template <Plain T>
  void take_into(std::span<T> values) {
    check(take<uint64_t>() == values.size(),
          "another rank's numbers are not as many as this one's");
    const auto from = next(values.size_bytes());
    if (!values.empty()) std::memcpy(static_cast<void*>(values.data()), from.data(), from.size());
  }
  void take(std::string& text) {
    std::vector<char> chars;
    take(chars);
    text.assign(chars.begin(), chars.end());
  }
  size_t size() const { return bytes_.size(); }  // what is left

 private:
  static constexpr const char* kShort = "a message of another rank ends too early";
  std::span<const std::byte> next(size_t size) {
    check(size <= bytes_.size(), kShort);
    const auto out = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return out;
  }
  std::span<const std::byte> bytes_;
};

}  // namespace rlreplay::engine
