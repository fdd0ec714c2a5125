#include "model/memory/buffer.h"

#include "tp/internal/require.h"

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace tp {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kRegionBytes = std::size_t{256} << 20;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

// Address space that begins at a huge page, allocated from beginning to end.
class Region {
 public:
  Region(std::size_t bytes, const char* what) : mapped_bytes_(bytes + kHugePage) {
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ == MAP_FAILED) {
      throw_error<ConfigError>(
          "cannot reserve {} MiB for {}; use more ranks or hosts, or a smaller cache (`cache_tokens`)",
          bytes >> 20, what);
    }
    void* begin = mapped_;
    std::size_t space = mapped_bytes_;
    next_ = static_cast<std::byte*>(std::align(kHugePage, bytes, begin, space));
    end_ = next_ + bytes;
    madvise(next_, bytes, MADV_HUGEPAGE);
  }
  ~Region() { munmap(mapped_, mapped_bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Null if the region has less space left.
  void* take(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(end_ - next_)) return nullptr;
    return std::exchange(next_, next_ + bytes);
  }

 private:
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

std::shared_ptr<void> allocate(std::size_t bytes, const char* what) {
  // Large objects have separate regions. So does every object if address space is short.
  const auto own_region = [&]() -> std::shared_ptr<void> {
    auto region = std::make_shared<Region>(round_up(bytes, kHugePage), what);
    void* data = region->take(bytes);
    return {std::move(region), data};
  };
  if (bytes >= kRegionBytes / 2) return own_region();
  static std::mutex mutex;
  static std::weak_ptr<Region> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Region> region = shared.lock();
  void* data = region ? region->take(bytes) : nullptr;
  if (data == nullptr) {
    try {
      region = std::make_shared<Region>(kRegionBytes, what);
    } catch (const ConfigError&) {
      return own_region();
    }
    shared = region;
    data = region->take(bytes);
  }
  return {data, [region, bytes](void* pages) { madvise(pages, bytes, MADV_DONTNEED); }};
}

// Registers pages under their use while they live.
class LivePages {
 public:
  LivePages(std::shared_ptr<void> pages, std::size_t bytes, const char* what)
      : pages_(std::move(pages)), bytes_(bytes), what_(what) {
    const std::lock_guard lock(mutex());
    all().insert(this);
  }
  ~LivePages() {
    const std::lock_guard lock(mutex());
    all().erase(this);
  }
  LivePages(const LivePages&) = delete;
  LivePages& operator=(const LivePages&) = delete;

  static std::vector<std::span<const std::byte>> memory_of(std::string_view what) {
    std::vector<std::span<const std::byte>> memory;
    const std::lock_guard lock(mutex());
    for (const LivePages* one : all()) {
      if (one->what_ == what)
        memory.emplace_back(static_cast<const std::byte*>(one->pages_.get()), one->bytes_);
    }
    return memory;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::set<const LivePages*>& all() {
    static std::set<const LivePages*> all;
    return all;
  }

  std::shared_ptr<void> pages_;
  std::size_t bytes_;
  std::string what_;
};

}  // namespace

std::vector<std::span<const std::byte>> memory_of(std::string_view what) {
  return LivePages::memory_of(what);
}

Pages::Pages(std::size_t bytes, const char* what) {
  // Whole pages, because only whole pages can be released.
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0) return;
  std::shared_ptr<void> pages = allocate(round_up(bytes, page), what);
  void* const data = pages.get();
  data_ = {std::make_shared<LivePages>(std::move(pages), round_up(bytes, page), what), data};
}

}  // namespace tp
