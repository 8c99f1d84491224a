#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "src/base/allocation.h"

namespace rlreplay {

/// Move-only array of trivially copyable elements, aligned to a cache line; its elements start
/// uninitialized. `resize` keeps no contents.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size) { resize(size); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  void resize(size_t size) {
    if (size > capacity_) {
      std::free(std::exchange(data_, nullptr));
      capacity_ = 0;
      if (size > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
      data_ = static_cast<T*>(allocate(size * sizeof(T)));
      capacity_ = size;
    }
    size_ = size;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace rlreplay
