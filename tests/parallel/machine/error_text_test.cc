#include "parallel/machine/error_text.h"

#include "tests/expect_contains.h"

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(ErrorText, SaysWhatToDoIfMemoryRanOut) {
  for (const char* part : {"out of memory; ", "more ranks", "`cache_tokens`", "ulimit -v"})
    EXPECT_CONTAINS(std::string(error_text(std::bad_alloc())), part);
  EXPECT_STREQ(error_text(std::bad_array_new_length()), kRankOutOfMemory);
  EXPECT_STREQ(error_text(std::length_error("vector::reserve")), kRankOutOfMemory);
}

TEST(ErrorText, SaysWhatToDoIfNoThreadCanBeStarted) {
  // std::thread throws this error.
  const std::system_error error(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_CONTAINS(std::string(error_text(error)), "cannot start a thread: ");
  EXPECT_FALSE(is_out_of_memory(error));
}

TEST(ErrorText, LeavesOtherErrorsAlone) {
  EXPECT_STREQ(error_text(std::runtime_error("the disk is full")), "the disk is full");
  const std::system_error busy(std::make_error_code(std::errc::device_or_resource_busy), "lock");
  EXPECT_STREQ(error_text(busy), busy.what());
}

}  // namespace
}  // namespace tp
