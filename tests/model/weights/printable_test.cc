#include "model/files/printable.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(Printable, HasNoControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2J\r\n\tb\x7f"), "a?[2J???b?");
  EXPECT_EQ(printable(std::string("\0", 1)), "?");
  // U+009B begins a terminal command like ESC [ does. U+00A0 is a space.
  EXPECT_EQ(printable("a\u0080\u009b2J\u00a0"), "a??2J\u00a0");
  EXPECT_EQ(printable("caf\u00e9 \u4f60 \u0099\u00c2"), "caf\u00e9 \u4f60 ?\u00c2");
  // These characters reverse text, so that "exe.txt" looks like "txt.exe".
  EXPECT_EQ(printable("\u200e\u200f\u2028\u202e\u2066\u2069"), "??????");
  EXPECT_EQ(printable("\u200d\u2010\u2027\u202f\u2065\u206a\xe2\x80"),
            "\u200d\u2010\u2027\u202f\u2065\u206a\xe2\x80");
}

TEST(Printable, RespectsTheMaximumLength) {
  EXPECT_EQ(printable(std::string(160, 'x')), std::string(160, 'x'));
  EXPECT_EQ(printable(std::string(100, 'a') + std::string(100, 'b')),
            fmt::format("{:a<80}...{:b<80}", "", ""));
  EXPECT_EQ(printable("abcdefgh", 4), "ab...gh");
}

TEST(WithoutControls, KeepsLinesAndMarksOfDirection) {
  EXPECT_EQ(without_controls("a\x1b[2J\r\n\tb\u009b\u200f"), "a?[2J?\n\tb?\u200f");
  EXPECT_EQ(without_controls(std::string(5000, 'x')), std::string(5000, 'x'));
}

}  // namespace
}  // namespace tp
