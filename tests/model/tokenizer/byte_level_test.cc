#include "model/tokenizer/steps/byte_level.h"

#include <gtest/gtest.h>

namespace tp::byte_level {
namespace {

std::string encoded(std::string_view text) {
  std::string out;
  append_encoded(out, text);
  return out;
}

std::string decoded(std::string_view token) {
  std::string out;
  append_decoded(out, token);
  return out;
}

TEST(ByteLevel, WritesSpaceAndControlBytesAsTheLettersOfGpt2) {
  EXPECT_EQ(encoded(" \n\t"), "ĠĊĉ");
  EXPECT_EQ(encoded("a~!"), "a~!");
  EXPECT_EQ(encoded("é"), "Ã©");
  EXPECT_EQ(encoded("\x7F\x80\xA0\xAD\xFF"), "ġĢłŃÿ");
}

TEST(ByteLevel, ReadsAllBytesBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(decoded(encoded(bytes)), bytes);
}

TEST(ByteLevel, LeavesTokensWithOtherCharactersUnchanged) {
  EXPECT_EQ(decoded("Ġ中"), "Ġ中");
  EXPECT_EQ(decoded("Ġ a"), "Ġ a");
}

}  // namespace
}  // namespace tp::byte_level
