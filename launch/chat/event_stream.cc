#include "launch/chat/event_stream.h"

#include "tp/internal/require.h"

#include <utility>

namespace tp {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

}  // namespace

void EventStream::read(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    require<RequestError>(
        line_.size() + data_.size() <= kMaxBytes,
        "the answer broke off: expected events of at most {} bytes, found more; is this the "
        "address of an API?",
        kMaxBytes);
    if (end == bytes.npos) return;
    bytes.remove_prefix(end + 1);
    end_line();
  }
}

void EventStream::end_line() {
  std::string line = std::exchange(line_, {});
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) {
    if (std::exchange(has_data_, false)) receive_(std::exchange(data_, {}));
    return;
  }
  // Other lines are skipped: comments, which keep connections alive, and names of events.
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) return;
  if (has_data_) data_ += '\n';
  has_data_ = true;
  const std::size_t blank = line.size() > kData.size() && line[kData.size()] == ' ' ? 1 : 0;
  data_ += line.substr(kData.size() + blank);
}

}  // namespace tp
