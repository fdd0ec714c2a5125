#include "parallel/exchange/archive.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"

#include <cstdint>
#include <string>
#include <vector>

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

struct Message {
  std::string text;
  std::vector<std::uint64_t> numbers;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& text& numbers;
  }
};

TEST(Archive, ReturnsTheArchivedValues) {
  Message sent{"a text\0with a zero", {1, 2, std::uint64_t{1} << 63}};
  sent.text.push_back('\0');
  Message received{"to be replaced", {9}};
  from_archive(to_archive(sent), received);
  EXPECT_EQ(received.text, sent.text);
  EXPECT_EQ(received.numbers, sent.numbers);
}

TEST(Archive, ReadsEmptyFields) {
  Message received{"to be replaced", {9}};
  from_archive(to_archive(Message{}), received);
  EXPECT_TRUE(received.text.empty());
  EXPECT_TRUE(received.numbers.empty());
}

TEST(Archive, RejectsTruncatedBytesWithAdvice) {
  const std::string whole = to_archive(Message{"text", {1, 2, 3}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Message received;
    const std::string text =
        test::error_of<CommError>([&] { from_archive(whole.substr(0, size), received); });
    EXPECT_EQ(text.find(fmt::format("cannot read a control message of {} bytes (", size)), 0U) << text;
    EXPECT_CONTAINS(text, "; do all ranks run the same version of the program?");
  }
}

// Imitates the bytes of a different program.
TEST(Archive, RejectsForeignBytes) {
  Message received;
  EXPECT_THROW(from_archive("GET / HTTP/1.1\r\n", received), CommError);
  EXPECT_THROW(from_archive(std::string(2040, '\xff'), received), CommError);
  EXPECT_THROW(from_archive("", received), CommError);
}

}  // namespace
}  // namespace tp
