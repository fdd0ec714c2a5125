// Memory for weights, cache and workspace.
#pragma once

#include <cstddef>
#include <utility>

namespace tp {

// Anonymous pages, zero when first read; they take physical memory only when touched, so that a large cache
// costs what is used of it, and a page lies near the thread that wrote it first. Huge pages are asked for.
class Pages {
 public:
  Pages() = default;
  // Throws ConfigError if the address space is exhausted; `what` names the use in the error.
  Pages(std::size_t bytes, const char* what);
  ~Pages();
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// An array of T on pages of its own.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t size, const char* what) : pages_(size * sizeof(T), what), size_(size) {}

  T* data() const { return static_cast<T*>(pages_.data()); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) const { return data()[index]; }

 private:
  Pages pages_;
  std::size_t size_ = 0;
};

}  // namespace tp
