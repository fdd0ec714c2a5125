// Memory for weights, cache and workspace.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tp {

// What most memory is for.
inline constexpr const char* kWeightMemory = "weights";
inline constexpr const char* kCacheMemory = "the KV cache";

// Anonymous pages, zero when first read; they take physical memory only when touched, so that a large cache
// costs what is used of it, and a page lies near the thread that wrote it first. Huge pages are asked for,
// and neighbours share them: else a model's many small matrices would get none, or waste half of them. Memory
// is given back when its owner goes, address space when all neighbours have gone.
class Pages {
 public:
  Pages() = default;
  // Throws ConfigError if the address space is exhausted; `what` names the use, in the error and for
  // memory_of.
  Pages(std::size_t bytes, const char* what);
  Pages(Pages&&) noexcept = default;
  Pages& operator=(Pages&&) noexcept = default;

  void* data() const { return data_.get(); }

 private:
  std::shared_ptr<void> data_;  // keeps its region
};

// The memory of all Pages with that use in this process, now.
std::vector<std::span<const std::byte>> memory_of(std::string_view what);

// An array of T that begins on such a page.
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
