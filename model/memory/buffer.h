// Memory for weights, cache and workspace.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tp {

// The most common values of `what`.
inline constexpr const char* kWeightMemory = "weights";
inline constexpr const char* kCacheMemory = "the KV cache";

// Anonymous pages, zero when first read. A page takes physical memory only when touched: a large cache costs
// only the part in use, and a page lies near the thread that wrote it first. Adjacent objects share huge
// pages. Otherwise a model's many small matrices would get none, or waste half of them. Physical memory is
// released with its owner, address space when all objects of a region are gone.
class Pages {
 public:
  Pages() = default;
  // Throws ConfigError if the address space is exhausted. `what` names the use, in the error and for
  // memory_of.
  Pages(std::size_t bytes, const char* what);
  Pages(Pages&&) noexcept = default;
  Pages& operator=(Pages&&) noexcept = default;

  void* data() const { return data_.get(); }

 private:
  std::shared_ptr<void> data_;  // also keeps the region alive
};

// The memory of all live Pages of this process with the use `what`.
std::vector<std::span<const std::byte>> memory_of(std::string_view what);

// An array of T at the beginning of Pages.
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
