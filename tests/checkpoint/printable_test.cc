#include "model/checkpoint/printable.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(Printable, HasNoControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2J\r\n\tb\x7f"), "a?[2J???b?");
  EXPECT_EQ(printable(std::string("\0", 1)), "?");
  // U+009B begins a command of a terminal as ESC [ does; U+00A0 is a space.
  EXPECT_EQ(printable("a\u0080\u009b2J\u00a0"), "a??2J\u00a0");
  EXPECT_EQ(printable("caf\u00e9 \u4f60 \u0099\u00c2"), "caf\u00e9 \u4f60 ?\u00c2");
}

TEST(Printable, IsNoLongerThanAskedFor) {
  EXPECT_EQ(printable(std::string(160, 'x')), std::string(160, 'x'));
  EXPECT_EQ(printable(std::string(100, 'a') + std::string(100, 'b')),
            std::string(80, 'a') + "..." + std::string(80, 'b'));
  EXPECT_EQ(printable("abcdefgh", 4), "ab...gh");
}

}  // namespace
}  // namespace tp
