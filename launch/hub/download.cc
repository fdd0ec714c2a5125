#include "launch/hub/download.h"

#include "launch/hub/fetch_file.h"
#include "launch/hub/url.h"
#include "runtime/text/format_bytes.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestInMemory = 64 << 20;

HubPurpose purpose_of(const std::string& repository, const HubFile& file) {
  return {fmt::format("cannot fetch {}/{}", repository, file.path), repository};
}

std::string url_of(const HubClient& client, const std::string& repository, const std::string& commit,
                   const HubFile& file) {
  return client.url(fmt::format("/{}/resolve/{}/{}", repository, commit, escaped(file.path)));
}

// Returns the size of a partial file. Its bytes need no further disk space.
std::uint64_t partial_size(const Destination& destination, const HubFile& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(destination.partial(file), error);
  return error ? 0 : std::min<std::uint64_t>(size, file.size);
}

void require_space(const fs::path& folder, std::uint64_t bytes) {
  constexpr std::uint64_t kReserve = 1 << 20;  // folders, links
  fs::path existing = fs::absolute(folder);
  std::error_code error;
  while (!fs::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
  const fs::space_info space = fs::space(existing, error);
  require<DownloadError>(
      error || space.available >= bytes + kReserve,
      "cannot download to {}: expected {} of free space, found {}; free some, or choose another disk "
      "with --to or HF_HUB_CACHE",
      folder.string(), format_bytes(bytes + kReserve), format_bytes(space.available));
}

// One download of all files.
class Download {
 public:
  Download(HubClient& client, const std::string& repository, const std::string& commit,
           const Destination& destination, const DownloadEvents& events)
      : client_(client),
        repository_(repository),
        commit_(commit),
        destination_(destination),
        events_(events) {}

  DownloadResult run(const std::vector<HubFile>& files) {
    std::vector<HubFile> missing;
    std::uint64_t wanted = 0;
    for (const HubFile& file : files) {
      total_ += file.size;
      if (destination_.has(file)) {
        done_ += file.size;
        destination_.publish(file);
      } else {
        missing.push_back(file);
        wanted += file.size - partial_size(destination_, file);
      }
    }
    if (!missing.empty()) require_space(destination_.folder(), wanted);
    for (const HubFile& file : missing) {
      obtain(file);
      destination_.publish(file);
      done_ += file.size;
    }
    destination_.finish();
    return result_;
  }

 private:
  void obtain(const HubFile& file) {
    const auto on_wait = [&] {
      events_.line(fmt::format("waiting for another process that fetches {}", file.path));
    };
    std::optional<LockedFile> lock;
    if (const fs::path path = destination_.lock(file); !path.empty()) lock.emplace(path, on_wait);
    PartialFile partial(destination_.partial(file), file, on_wait);
    if (destination_.has(file)) return partial.remove();  // another process has completed the file meanwhile
    const std::uint64_t before = partial.size();
    std::error_code ignored;
    if (fs::exists(destination_.place(file), ignored))
      events_.line(fmt::format("replacing {}, which is another version", destination_.place(file).string()));
    events_.line(before == 0 ? fmt::format("fetching {} ({})", file.path, format_bytes(file.size))
                             : fmt::format("fetching {} ({}, of which {} are there)", file.path,
                                           format_bytes(file.size), format_bytes(before)));
    fetch_file(client_, purpose_of(repository_, file), url_of(client_, repository_, commit_, file), file,
               partial, [&](std::uint64_t size) { events_.progress(done_ + size, total_); });
    partial.move_to(destination_.place(file));
    result_.fetched_files += 1;
    result_.fetched_bytes += file.size - before;
  }

  HubClient& client_;
  const std::string& repository_;
  const std::string& commit_;
  const Destination& destination_;
  const DownloadEvents& events_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
  DownloadResult result_;
};

}  // namespace

std::string read_hub_file(HubClient& client, const std::string& repository, const std::string& commit,
                          const HubFile& file) {
  const HubPurpose purpose = purpose_of(repository, file);
  std::string text = client.read(purpose, url_of(client, repository, commit, file), kLargestInMemory).text;
  Checksum checksum(file.kind, file.size);
  checksum.add(text);
  require<DownloadError>(
      checksum.finish() == file.checksum,
      "{}: expected the content with the checksum {}, found a different one; try again, and if "
      "the error repeats, report it to the repository's owner",
      purpose.what, file.checksum);
  return text;
}

DownloadResult download(HubClient& client, const std::string& repository, const std::string& commit,
                        const Selection& selection, const Destination& destination,
                        const DownloadEvents& events) {
  return Download(client, repository, commit, destination, events).run(selection.files);
}

}  // namespace tp
