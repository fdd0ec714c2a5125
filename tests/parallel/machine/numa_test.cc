#include "parallel/machine/numa.h"

#include "tests/temporary_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tp {
namespace {

using Numbers = std::vector<std::size_t>;

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// A folder such as /sys/devices/system/node.
class Machine {
 public:
  Machine(const std::string& online, const std::string& has_memory) {
    directory_.write("online", online + "\n");
    if (!has_memory.empty()) directory_.write("has_memory", has_memory + "\n");
  }
  Machine& node(const std::string& id, const std::string& processors) {
    std::filesystem::create_directory(directory_.path() / ("node" + id));
    directory_.write("node" + id + "/cpulist", processors + "\n");
    return *this;
  }
  std::vector<NumaNode> nodes() const { return numa_nodes(directory_.path()); }

 private:
  test::TemporaryDirectory directory_;
};

// Memory of that many pages.
class Memory {
 public:
  explicit Memory(std::size_t pages)
      : bytes_(pages * page_bytes()),
        data_(static_cast<std::byte*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    madvise(data_, bytes_, MADV_NOHUGEPAGE);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::span<const std::byte> pages(std::size_t begin, std::size_t end) const {
    return {data_ + begin * page_bytes(), (end - begin) * page_bytes()};
  }
  void touch(std::size_t page) { data_[page * page_bytes()] = std::byte{1}; }
  std::size_t page_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - data_) / page_bytes();
  }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

TEST(NumberList, IsWrittenInRangesAndSingleNumbers) {
  EXPECT_EQ(parse_number_list("0-3,8-11\n"), Numbers({0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(parse_number_list("5"), Numbers({5}));
  EXPECT_EQ(parse_number_list("0,2-2,64-65\n"), Numbers({0, 2, 64, 65}));
  EXPECT_EQ(parse_number_list("\n"), Numbers());
}

TEST(NumberList, IsEmptyForInvalidText) {
  for (const char* text : {"x", "0-", "0,", "0-3;5", "-3", "1,,2"})
    EXPECT_EQ(parse_number_list(text), Numbers()) << text;
}

TEST(NumaNodes, AreReadFromSysfs) {
  const std::vector<NumaNode> nodes =
      Machine("0-1", "0-1").node("0", "0-3,8-11").node("1", "4-7,12-15").nodes();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].processors, Numbers({0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(nodes[1].id, 1U);
  EXPECT_EQ(nodes[1].processors, Numbers({4, 5, 6, 7, 12, 13, 14, 15}));
}

TEST(NumaNodes, MayHaveMemoryOnlyOrProcessorsOnlyButNotNeither) {
  const std::vector<NumaNode> nodes =
      Machine("0-2,5", "0,5").node("0", "0-1").node("1", "2-3").node("2", "").node("5", "").nodes();
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[1].id, 1U);
  EXPECT_EQ(nodes[2].id, 5U);
  EXPECT_TRUE(nodes[2].processors.empty());
}

TEST(NumaNodes, WithoutAListOfThoseWithMemoryAllHaveSome) {
  EXPECT_EQ(Machine("0-1", "").node("0", "0").node("1", "").nodes().size(), 2U);
}

TEST(NumaNodes, AreUnknownWithoutTheFolderAndBeyondTheNumbersThatWeCount) {
  EXPECT_TRUE(numa_nodes("/no/such/folder").empty());
  EXPECT_TRUE(Machine("0,64", "0,64").node("0", "0").node("64", "1").nodes().empty());
}

TEST(NumaNodes, ContainingProcessorsAreReturnedAsBits) {
  const std::vector<NumaNode> nodes = {{0, {0, 1}}, {1, {2, 3}}, {5, {}}, {63, {4}}};
  const auto of = [&](const Numbers& processors) { return nodes_of(processors, nodes); };
  EXPECT_EQ(of({1}), 0b1U);
  EXPECT_EQ(of({0, 3}), 0b11U);
  EXPECT_EQ(of({4}), std::uint64_t{1} << 63);
  EXPECT_EQ(of({}), 0U);
}

TEST(Processors, CountEvenIfOneThreadIsBoundElsewhere) {
  const Numbers before = processors_of_all_threads();
  if (before.size() < 2) GTEST_SKIP() << "one processor: threads cannot be bound to different ones";
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  std::mutex mutex;
  mutex.lock();
  std::thread other([&] { mutex.lock(); });  // keeps the mask of this thread until now
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(before.front(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(processors_of_all_threads(), before);
  mutex.unlock();
  other.join();
  EXPECT_EQ(processors_of_all_threads(), Numbers({before.front()}));
  sched_setaffinity(0, sizeof(all), &all);
}

TEST(NodePages, RemoteShareLeavesOutPagesOutsideMemory) {
  const Memory memory(100);
  // Five of every ten pages are absent, four are on node 1, and one is on node 2.
  const PageQuery query = [&](std::span<void*> addresses, std::span<int> nodes) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::size_t digit = memory.page_of(addresses[i]) % 10;
      nodes[i] = digit < 5 ? -ENOENT : digit < 9 ? 1 : 2;
    }
    return true;
  };
  const std::optional<NodePages> pages = count_pages({memory.pages(0, 100)}, query);
  ASSERT_TRUE(pages);
  EXPECT_EQ(pages->total(), 50U);
  EXPECT_EQ(pages->on_node[1], 40U);
  EXPECT_EQ(pages->on_node[2], 10U);
  EXPECT_DOUBLE_EQ(pages->remote_share(0b010), 0.2);
  EXPECT_DOUBLE_EQ(pages->remote_share(0b100), 0.8);
  EXPECT_DOUBLE_EQ(pages->remote_share(0b110), 0.0);
  EXPECT_DOUBLE_EQ(pages->remote_share(0b001), 1.0);
  EXPECT_DOUBLE_EQ(NodePages().remote_share(0b001), 0.0);
}

TEST(NodePages, AreAnEvenSampleOfLargeMemoryForAnyRanges) {
  const Memory memory(1000);
  std::vector<std::size_t> asked;
  const PageQuery query = [&](std::span<void*> addresses, std::span<int> nodes) {
    for (const void* address : addresses) asked.push_back(memory.page_of(address));
    std::ranges::fill(nodes, 0);
    return true;
  };
  MemoryRanges ranges;
  for (std::size_t begin = 0; begin < 1000; begin += 20) {
    ranges.push_back(memory.pages(begin, begin + 3));
    ranges.push_back(memory.pages(begin + 3, begin + 20));
    ranges.emplace_back();
  }
  ASSERT_TRUE(count_pages(ranges, query, 100));
  EXPECT_LE(asked.size(), 100U);
  EXPECT_GE(asked.size(), 80U);
  for (std::size_t i = 1; i < asked.size(); ++i) EXPECT_EQ(asked[i] - asked[i - 1], asked[1] - asked[0]) << i;
  EXPECT_LT(asked.front(), asked[1] - asked[0]);
  EXPECT_GE(asked.back() + asked[1] - asked[0], 1000U);
}

TEST(NodePages, AreUnknownIfLinuxDoesNotReportThem) {
  const Memory memory(1);
  EXPECT_FALSE(count_pages({memory.pages(0, 1)}, [](auto, auto) { return false; }));
  EXPECT_TRUE(count_pages({}, [](auto, auto) { return false; })) << "there is nothing to ask";
}

TEST(NodePages, CountTouchedPagesOfThisMachine) {
  Memory memory(64);
  for (const std::size_t page : {1, 2, 30, 63}) memory.touch(page);
  const std::optional<NodePages> pages = count_pages({memory.pages(0, 64)});
  if (!pages) GTEST_SKIP() << "move_pages is refused here: " << std::strerror(errno);
  EXPECT_EQ(pages->total(), 4U);
  std::uint64_t all_nodes = 0;
  for (const NumaNode& node : numa_nodes()) all_nodes |= std::uint64_t{1} << node.id;
  EXPECT_DOUBLE_EQ(pages->remote_share(all_nodes), 0.0);
}

}  // namespace
}  // namespace tp
