#include "launch/hub/fetch_file.h"

#include "tp/internal/require.h"

namespace tp {
namespace {

// After this many new bytes, earlier failures don't count any more. A smaller limit would let a server that
// sends single bytes keep us forever.
constexpr std::uint64_t kProgress = 1 << 20;

class Fetch {
 public:
  Fetch(HubClient& client, const HubPurpose& purpose, const std::string& url, const HubFile& file,
        PartialFile& partial, const std::function<void(std::uint64_t)>& on_bytes)
      : client_(client), purpose_(purpose), url_(url), file_(file), partial_(partial), on_bytes_(on_bytes) {}

  void run() {
    // The partial file may be damaged, or another program's. In this case, the whole file is fetched once
    // more.
    bool may_restart = partial_.size() > 0;
    for (;;) {
      receive_all();
      if (partial_.is_valid()) return;
      if (!may_restart) break;
      may_restart = false;
      partial_.restart();
    }
    partial_.remove();
    throw_error<DownloadError>(
        "{}: expected the content with the checksum {}, found a different one; the file is removed; try "
        "again, and "
        "if the error repeats, report it to the repository's owner",
        purpose_.what, file_.checksum);
  }

 private:
  void receive_all() {
    Retries retries = client_.retries(purpose_);
    std::uint64_t counted = partial_.size();
    while (partial_.size() < file_.size) {
      if (!has_ranges_) partial_.restart();
      try {
        receive_some();
        if (partial_.size() < file_.size)
          throw TransientError(
              fmt::format("the transfer ended after {} of {} bytes", partial_.size(), file_.size));
      } catch (const TransientError& error) {
        if (partial_.size() >= counted + kProgress) {
          counted = partial_.size();
          retries.progressed();
        }
        retries.wait(error);
      }
    }
  }

  void receive_some() {
    const auto on_head = [&](const HttpHead& head) { return begin(head); };
    const auto on_body = [&](std::string_view bytes) {
      if (partial_.size() + bytes.size() > file_.size) {
        partial_.remove();
        throw_error<DownloadError>(
            "{}: expected {} bytes, found more; the file is removed; try again, and if the error repeats, "
            "report it to the repository's owner",
            purpose_.what, file_.size);
      }
      partial_.append(bytes);
      on_bytes_(partial_.size());
      return true;
    };
    client_.get(purpose_, url_, partial_.size(), {on_head, on_body});
  }

  // Whether the body continues the partial file. If not, the file is fetched from its beginning.
  bool begin(const HttpHead& head) {
    if (head.status == 206) {
      const std::string range = fmt::format("bytes {}-", partial_.size());
      if (partial_.size() > 0 && head.field("content-range").starts_with(range)) return true;
      has_ranges_ = false;
      return false;
    }
    if (head.status == 416) {  // the server's file is shorter, or the server has no ranges
      has_ranges_ = false;
      return false;
    }
    if (partial_.size() > 0) partial_.restart();
    return true;
  }

  HubClient& client_;
  const HubPurpose& purpose_;
  const std::string& url_;
  const HubFile& file_;
  PartialFile& partial_;
  const std::function<void(std::uint64_t)>& on_bytes_;
  bool has_ranges_ = true;
};

}  // namespace

void fetch_file(HubClient& client, const HubPurpose& purpose, const std::string& url, const HubFile& file,
                PartialFile& partial, const std::function<void(std::uint64_t)>& on_bytes) {
  Fetch(client, purpose, url, file, partial, on_bytes).run();
}

}  // namespace tp
