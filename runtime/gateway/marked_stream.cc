#include "runtime/gateway/marked_stream.h"

#include "runtime/api/record.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {

// An event's data has no line breaks of its own, so an empty line ends a block: an event or a comment.
void MarkedStream::add(std::string_view bytes, const Take& take) {
  constexpr std::string_view kEnd = "\n\n";
  pending_ += bytes;
  std::size_t taken = 0;  // bytes of `pending_` in complete pieces
  while (true) {
    const std::size_t end = pending_.find(kEnd, searched_);
    if (end == std::string::npos) break;
    std::string_view block = std::string_view(pending_).substr(block_, end - block_);
    const std::size_t begin = block_;
    block_ = searched_ = end + kEnd.size();
    if (!block.starts_with(kMarkBegin)) continue;
    block.remove_prefix(kMarkBegin.size());
    const std::string_view piece = std::string_view(pending_).substr(taken, begin - taken);
    taken = block_;
    if (!take(piece, block)) break;
  }
  pending_.erase(0, taken);
  block_ -= taken;
  searched_ = std::max(block_, pending_.empty() ? 0 : pending_.size() - 1);
  require<Error>(pending_.size() <= max_, "a piece of the stream is larger than {} bytes", max_);
}

}  // namespace tp
