#pragma once

#include <mutex>
#include <string>
#include <utility>

#include <hdf5.h>

#include "src/base/error.h"

/// What owns an HDF5 id, and whose turn it is to call the library.
namespace rlreplay::format::h5 {

inline constexpr H5Z_filter_t kZstdFilter = 32015;  // registered by the HDF Group

/// libhdf5 is one state machine for the whole process, and not every build of it locks itself:
/// whoever calls it holds this.
class Turn {
 public:
  Turn() : lock_(mutex()) {}

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex one;
    return one;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

/// One owner of one HDF5 id.
class Id {
 public:
  using Close = herr_t (*)(hid_t);

  Id() = default;
  Id(hid_t id, Close close) : id_(id), close_(close) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Id& operator=(Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Id() { static_cast<void>(reset()); }  // who must know resets it before

  /// False when libhdf5 reports that closing failed.
  [[nodiscard]] bool reset() {
    if (id_ < 0) return true;
    const Turn turn;
    return close_(std::exchange(id_, -1)) >= 0;
  }
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// A name for a file in memory. libhdf5 takes two open files of one name for the same file, so each
/// has the address of what owns it.
[[nodiscard]] inline std::string name_of(const void* owner) {
  return "memory-" + std::to_string(reinterpret_cast<uintptr_t>(owner));
}

}  // namespace rlreplay::format::h5
