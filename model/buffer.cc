#include "model/buffer.h"

#include "tp/error.h"

#include <sys/mman.h>

namespace tp {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Pages::Pages(std::size_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    throw_error<ConfigError>(
        "cannot reserve {} MiB for {}; use more ranks or hosts, or a smaller cache "
        "(--cache-tokens)",
        bytes >> 20, what);
  }
  if (bytes >= kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace tp
