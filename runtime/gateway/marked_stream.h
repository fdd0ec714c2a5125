// Divides a marked stream into pieces and their marks: README.md.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tp {

class MarkedStream {
 public:
  // Adds received bytes. Calls `take` for each complete piece, with its mark. Stops early if `take` returns
  // false. Throws Error if a piece becomes larger than `max` bytes.
  using Take = std::function<bool(std::string_view piece, std::string_view mark)>;
  void add(std::string_view bytes, const Take& take);

  explicit MarkedStream(std::size_t max) : max_(max) {}

 private:
  std::size_t max_;
  std::string pending_{};     // an incomplete piece
  std::size_t block_ = 0;     // begin of the first block in `pending_` that is not known to be complete
  std::size_t searched_ = 0;  // bytes of `pending_` that don't end that block
};

}  // namespace tp
