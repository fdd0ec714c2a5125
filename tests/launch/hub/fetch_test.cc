// Fetching a file over a bad network from a bad server, and moving it to its place.

#include "launch/hub/destination.h"
#include "launch/hub/download.h"
#include "launch/hub/fetch_file.h"
#include "launch/hub/hub_listing.h"
#include "parallel/machine/file_text.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/launch/hub/hub_under_test.h"
#include "tests/temporary_directory.h"

#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSize = 3'000'000;

// A large file, its place in a folder, and downloads of it.
struct FetchUnderTest : HubUnderTest {
  TemporaryDirectory folder;
  std::string content = some_bytes(kSize);
  HubFile file = hub_file("weights", content, true);
  std::vector<std::string> lines{};

  FetchUnderTest() { hub.add("weights", content); }

  fs::path partial() const { return folder_destination(folder.path())->partial(file); }

  DownloadResult fetch() {
    HubClient hub_client = client();
    const DownloadEvents events{[&](const std::string& line) { lines.push_back(line); }, [](auto, auto) {}};
    return download(hub_client, "org/name", FakeHub::kCommit, {{file}, {}},
                    *folder_destination(folder.path()), events);
  }

  std::string error() {
    return error_of<DownloadError>([&] { fetch(); });
  }

  void expect_fetched() {
    EXPECT_EQ(file_text(folder.path() / "weights"), content);
    EXPECT_EQ(folder.files(), std::vector<std::string>{"weights"}) << "nothing half done is left";
  }

  // Returns the requested ranges at the server that has the file.
  std::vector<std::string> ranges() const {
    std::vector<std::string> found;
    for (const SeenRequest& request : hub.requests())
      if (request.is_cdn) found.push_back(request.range);
    return found;
  }
};

TEST(Fetch, ContinuesATransferThatBreaks) {
  FetchUnderTest test;
  test.hub.set_fault("weights", {.times = 2, .cut_after = 1'000'000});
  EXPECT_EQ(test.fetch().fetched_bytes, kSize);
  test.expect_fetched();
  EXPECT_EQ(test.ranges(), (std::vector<std::string>{"", "bytes=1000000-", "bytes=2000000-"}));
}

TEST(Fetch, ContinuesAnEarlierProcesssFile) {
  FetchUnderTest test;
  std::ofstream(test.partial(), std::ios::binary) << test.content.substr(0, 2'500'000);
  EXPECT_EQ(test.fetch().fetched_bytes, kSize - 2'500'000);
  test.expect_fetched();
  EXPECT_EQ(test.ranges(), std::vector<std::string>{"bytes=2500000-"});
  EXPECT_EQ(test.lines.front(), "fetching weights (2.9 MiB, of which 2.4 MiB are there)");
}

TEST(Fetch, BeginsAnewIfAnEarlierPartIsDamaged) {
  FetchUnderTest test;
  std::ofstream(test.partial(), std::ios::binary) << std::string(2'500'000, 'x');
  test.fetch();
  test.expect_fetched();
  EXPECT_EQ(test.ranges(), (std::vector<std::string>{"bytes=2500000-", ""}));
}

TEST(Fetch, NeedsNoRequestForAWholePartialFile) {
  FetchUnderTest test;
  std::ofstream(test.partial(), std::ios::binary) << test.content;
  test.fetch();
  test.expect_fetched();
  EXPECT_TRUE(test.ranges().empty());
}

TEST(Fetch, DropsAPartialFileThatIsTooLong) {
  FetchUnderTest test;
  std::ofstream(test.partial(), std::ios::binary) << test.content << "more";
  test.fetch();
  test.expect_fetched();
}

TEST(Fetch, BeginsAnewIfTheServerHasNoRanges) {
  FetchUnderTest test;
  test.hub.has_ranges = false;
  test.hub.set_fault("weights", {.times = 2, .cut_after = 1'000'000});
  test.fetch();
  test.expect_fetched();
}

TEST(Fetch, BeginsAnewAfterAnotherRangeThanItAskedFor) {
  FetchUnderTest test;
  test.hub.has_wrong_ranges = true;
  test.hub.set_fault("weights", {.times = 1, .cut_after = 1'000'000});
  test.fetch();
  test.expect_fetched();
  EXPECT_EQ(test.ranges(), (std::vector<std::string>{"", "bytes=1000000-", ""}));
}

TEST(Fetch, GivesUpWithoutLosingReceivedBytes) {
  FetchUnderTest test;
  test.hub.set_fault("weights", {.times = -1, .cut_after = 1000});
  EXPECT_CONTAINS(test.error(),
                  "cannot fetch org/name/weights: expected an answer within 5 attempts, found: ");
  EXPECT_EQ(fs::file_size(test.partial()), 5000U);
  test.hub.set_fault("weights", {.times = 0});
  test.fetch();
  test.expect_fetched();
}

TEST(Fetch, DoesNotCountAttemptsThatMadeProgress) {
  FetchUnderTest test;
  test.content = some_bytes(12 << 20);
  test.file = hub_file("weights", test.content, true);
  test.hub.add("weights", test.content);
  test.hub.set_fault("weights", {.times = -1, .cut_after = (1 << 20) + 1});
  test.fetch();
  test.expect_fetched();
  EXPECT_EQ(test.ranges().size(), 12U);
}

TEST(Fetch, EndsATransferThatStalls) {
  FetchUnderTest test;
  test.hub.set_fault("weights", {.times = 1, .cut_after = 2'000'000, .stalls = true});
  test.fetch();
  test.expect_fetched();
  EXPECT_CONTAINS(test.notes.front(), "too slow");
}

TEST(Fetch, RemovesAFileWithAnotherChecksum) {
  FetchUnderTest test;
  test.hub.set_fault("weights", {.times = -1, .is_corrupt = true});
  EXPECT_CONTAINS(test.error(), "cannot fetch org/name/weights: expected the content with the checksum " +
                                    test.file.checksum);
  EXPECT_TRUE(test.folder.files().empty());
}

TEST(Fetch, BeginsAnewOnlyOnce) {
  FetchUnderTest test;
  std::ofstream(test.partial(), std::ios::binary) << std::string(2'500'000, 'x');
  test.hub.set_fault("weights", {.times = -1, .is_corrupt = true});
  EXPECT_CONTAINS(test.error(), "expected the content with the checksum");
  EXPECT_EQ(test.ranges(), (std::vector<std::string>{"bytes=2500000-", ""}));
  EXPECT_TRUE(test.folder.files().empty());
}

TEST(LockedFile, IsTheOneOfThatNameAfterWaiting) {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "file";
  std::atomic<bool> waits = false;
  auto first = std::make_unique<LockedFile>(path, [] {});
  std::thread other([&] {
    const LockedFile second(path, [&] { waits = true; });
    EXPECT_EQ(::write(second.descriptor(), "x", 1), 1);
  });
  while (!waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  fs::remove(path);
  first.reset();
  other.join();
  EXPECT_EQ(file_text(path), "x");
}

// Writing to a pipe would wait for a reader.
TEST(LockedFile, RejectsPipes) {
  const TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo((folder.path() / "file").c_str(), 0600), 0);
  EXPECT_CONTAINS(error_of<DownloadError>([&] { LockedFile(folder.path() / "file", [] {}); }),
                  "it is not a regular file");
}

TEST(Fetch, ChecksSmallFiles) {
  FetchUnderTest test;
  test.content = "{\"a\": 1}";
  test.file = hub_file("config.json", test.content, false);
  test.hub.add("config.json", test.content);
  test.hub.set_fault("config.json", {.times = 1, .is_corrupt = true});
  EXPECT_CONTAINS(test.error(), "expected the content with the checksum");
  test.fetch();
  EXPECT_EQ(file_text(test.folder.path() / "config.json"), test.content);
}

TEST(Fetch, CutsOffABodyWithoutEnd) {
  FetchUnderTest test;
  test.hub.set_fault("weights", {.times = -1, .is_endless = true});
  EXPECT_CONTAINS(test.error(), "cannot fetch org/name/weights: expected 3000000 bytes, found more");
  EXPECT_TRUE(test.folder.files().empty());
}

TEST(Fetch, NoticesABodyThatIsTooShort) {
  FetchUnderTest test;
  test.hub.has_ranges = false;
  test.hub.set_fault("weights", {.times = -1, .shorter = 10});
  EXPECT_CONTAINS(test.error(), "the transfer ended after 2999990 of 3000000 bytes");
}

TEST(Fetch, SaysBeforeItBeginsThatTheDiskIsTooSmall) {
  FetchUnderTest test;
  test.file.size = std::uint64_t{1} << 50;
  EXPECT_CONTAINS(test.error(), "of free space, found ");
  EXPECT_TRUE(test.ranges().empty());
  EXPECT_TRUE(test.folder.files().empty());
}

TEST(Fetch, KeepsEqualFilesAndReplacesOthers) {
  FetchUnderTest test;
  test.folder.write("weights", std::string(kSize, 'x'));
  test.fetch();
  test.expect_fetched();
  EXPECT_CONTAINS(test.lines.front(), "weights, which is another version");
  const std::size_t requests = test.hub.requests().size();
  EXPECT_EQ(test.fetch().fetched_files, 0U);
  EXPECT_EQ(test.hub.requests().size(), requests);
}

TEST(Fetch, HappensOnceIfTwoThreadsStartIt) {
  FetchUnderTest first;
  // The second download has a separate connection and state, but the same folder.
  CurlHttp http(std::chrono::seconds(5));
  std::atomic<bool> waited = false;
  first.hub.set_fault("weights",
                      {.times = 1, .cut_after = 1'000'000, .pause = std::chrono::milliseconds(500)});
  std::thread other([&] {
    while (!fs::exists(first.partial())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    HubClient client(
        http, {.endpoint = first.hub.endpoint()}, [](auto) {}, [](const auto&) {});
    const DownloadEvents events{[&](const std::string& line) {
                                  waited =
                                      waited || line == "waiting for another process that fetches weights";
                                },
                                [](auto, auto) {}};
    download(client, "org/name", FakeHub::kCommit, {{first.file}, {}},
             *folder_destination(first.folder.path()), events);
  });
  first.fetch();
  other.join();
  first.expect_fetched();
  EXPECT_TRUE(waited);
  EXPECT_EQ(first.ranges(), (std::vector<std::string>{"", "bytes=1000000-"}));
}

TEST(Fetch, NamesAFolderThatCannotBeWritten) {
  FetchUnderTest test;
  const fs::path file = test.folder.write("file", "");
  HubClient client = test.client();
  const std::string error = error_of<DownloadError>([&] {
    download(client, "org/name", FakeHub::kCommit, {{test.file}, {}}, *folder_destination(file / "sub"),
             {[](const auto&) {}, [](auto, auto) {}});
  });
  EXPECT_CONTAINS(error, "cannot write " + (file / "sub").string());
  EXPECT_CONTAINS(error, "Not a directory");
}

TEST(CacheDestination, HasTheLayoutOfHuggingFacesTools) {
  FetchUnderTest test;
  const fs::path cache = test.folder.path();
  const auto destination = cache_destination(cache, "org/name", "main", FakeHub::kCommit);
  HubFile inner = test.file;
  inner.path = "folder/weights";
  HubClient client = test.client();
  download(client, "org/name", FakeHub::kCommit, {{test.file, inner}, {}}, *destination,
           {[](const auto&) {}, [](auto, auto) {}});
  const fs::path root = cache / "models--org--name";
  const fs::path snapshot = root / "snapshots" / FakeHub::kCommit;
  EXPECT_EQ(file_text(root / "blobs" / test.file.checksum), test.content);
  EXPECT_EQ(fs::read_symlink(snapshot / "weights"), "../../blobs/" + test.file.checksum);
  EXPECT_EQ(fs::read_symlink(snapshot / "folder/weights"), "../../../blobs/" + test.file.checksum);
  EXPECT_EQ(file_text(snapshot / "folder/weights"), test.content);
  EXPECT_EQ(file_text(root / "refs/main"), FakeHub::kCommit);
  EXPECT_TRUE(fs::exists(cache / ".locks/models--org--name" / (test.file.checksum + ".lock")));
  EXPECT_FALSE(fs::exists(root / "blobs" / (test.file.checksum + ".incomplete")));
  EXPECT_EQ(test.ranges().size(), 1U) << "the same content is fetched once";
}

}  // namespace
}  // namespace tp::test
