#include "launch/common/table.h"

#include "launch/common/rate.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({"rank", "host", "read"});
  table.add({"0", "a-host-with-a-name-of-some-length", "3.1 GiB"});
  table.add({"10000", "b", "17 B"});
  EXPECT_EQ(table.text(),
            " rank                               host     read\n"
            "    0  a-host-with-a-name-of-some-length  3.1 GiB\n"
            "10000                                  b     17 B\n");
}

TEST(Table, LinesThatWerePrintedBeforeAWiderOneStillHaveSpacesBetweenCells) {
  const Table table({"batch", "tokens/s", "of streaming"}, {5, 10});
  EXPECT_EQ(table.header(), "batch    tokens/s  of streaming\n");
  EXPECT_EQ(table.line({"1", "12.5", "0.80"}), "    1        12.5          0.80\n");
  EXPECT_EQ(table.line({"1234567", "12345678901.5", "0.80"}), "1234567  12345678901.5          0.80\n");
}

TEST(Rate, HasNoShareOfAPeakThatItExceeds) {
  EXPECT_EQ((Rate{10.0, 20.0}).share(), "0.50");
  EXPECT_EQ((Rate{20.0, 20.0}).share(), "1.00");
  EXPECT_FALSE((Rate{20.0, 20.0}).exceeds());
  const Rate cached{34.24, 19.8};
  EXPECT_TRUE(cached.exceeds());
  EXPECT_EQ(cached.share(), "over");
  EXPECT_EQ(cached.excess("GB/s"), "34.2 GB/s, above the measured peak of 19.8");
}

}  // namespace
}  // namespace tp
