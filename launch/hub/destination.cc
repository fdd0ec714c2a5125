#include "launch/hub/destination.h"

#include "launch/hub/download_error.h"
#include "tp/internal/require.h"

#include <cstdio>
#include <fstream>
#include <system_error>

#include <unistd.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

bool has_size(const fs::path& path, std::uint64_t size) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) == size && !error;
}

void make_folder_of(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  require<DownloadError>(
      !error,
      "cannot write {}: expected its folder or permission to make it, found: {}; choose another one "
      "with --to or HF_HUB_CACHE",
      path.string(), error.message());
}

// Returns a name next to `path` that no other process uses.
fs::path temporary_name(const fs::path& path) { return path.string() + fmt::format(".{}.tmp", ::getpid()); }

class Folder : public Destination {
 public:
  explicit Folder(fs::path folder) : folder_(std::move(folder)) {}

  fs::path folder() const override { return folder_; }
  fs::path place(const HubFile& file) const override { return folder_ / file.path; }
  // Other revisions have separate partial files.
  fs::path partial(const HubFile& file) const override {
    return folder_ / (file.path + "." + file.checksum.substr(0, 16) + ".incomplete");
  }
  fs::path lock(const HubFile&) const override { return {}; }
  bool has(const HubFile& file) const override {
    return has_size(place(file), file.size) && has_checksum(place(file), file);
  }
  void publish(const HubFile&) const override {}
  void finish() const override {}

 private:
  static bool has_checksum(const fs::path& path, const HubFile& file) {
    Checksum checksum(file.kind, file.size);
    std::ifstream stream(path, std::ios::binary);
    std::vector<char> buffer(1 << 20);
    while (stream) {
      stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
      checksum.add({buffer.data(), static_cast<std::size_t>(stream.gcount())});
    }
    return checksum.finish() == file.checksum;
  }

  fs::path folder_;
};

class Cache : public Destination {
 public:
  Cache(const fs::path& cache, const std::string& repository, std::string revision, std::string commit)
      : root_(cache / cache_folder_name(repository)),
        locks_(cache / ".locks" / cache_folder_name(repository)),
        revision_(std::move(revision)),
        commit_(std::move(commit)) {}

  fs::path folder() const override { return root_ / "snapshots" / commit_; }
  fs::path place(const HubFile& file) const override { return root_ / "blobs" / file.checksum; }
  fs::path partial(const HubFile& file) const override {
    return root_ / "blobs" / (file.checksum + ".incomplete");
  }
  fs::path lock(const HubFile& file) const override { return locks_ / (file.checksum + ".lock"); }

  // A file gets its checksum's name only after it was checked, also by other programs.
  bool has(const HubFile& file) const override { return has_size(place(file), file.size); }

  void publish(const HubFile& file) const override {
    const fs::path link = folder() / file.path;
    const fs::path target = fs::relative(place(file), link.parent_path());
    std::error_code error;
    if (fs::read_symlink(link, error) == target && !error) return;
    make_folder_of(link);
    const fs::path temporary = temporary_name(link);
    fs::remove(temporary, error);
    fs::create_symlink(target, temporary, error);
    if (!error) fs::rename(temporary, link, error);
    require<DownloadError>(
        !error,
        "cannot write {}: expected a file system with symbolic links, found: {}; download into a "
        "folder with --to DIR",
        link.string(), error.message());
  }

  void finish() const override {
    if (revision_ == commit_) return;
    const fs::path ref = root_ / "refs" / revision_;
    make_folder_of(ref);
    const fs::path temporary = temporary_name(ref);
    std::ofstream stream(temporary, std::ios::binary);
    stream << commit_;
    stream.close();
    std::error_code error;
    if (stream) fs::rename(temporary, ref, error);
    require<DownloadError>(
        stream.good() && !error,
        "cannot write {}: expected the commit in it, found: {}; check free space and permissions",
        ref.string(), error ? error.message() : "an error of writing");
  }

 private:
  fs::path root_;
  fs::path locks_;
  std::string revision_;
  std::string commit_;
};

}  // namespace

std::unique_ptr<Destination> folder_destination(const fs::path& folder) {
  return std::make_unique<Folder>(folder);
}

std::unique_ptr<Destination> cache_destination(const fs::path& cache, const std::string& repository,
                                               const std::string& revision, const std::string& commit) {
  return std::make_unique<Cache>(cache, repository, revision, commit);
}

std::string cache_folder_name(const std::string& repository) {
  std::string name = "models--" + repository;
  return name.replace(name.find('/'), 1, "--");
}

}  // namespace tp
