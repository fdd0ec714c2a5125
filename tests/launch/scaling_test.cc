// bench/scaling from beginning to end.

#include "tests/checkpoint/checkpoint_files.h"
#include "tests/launch/process.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

constexpr const char* kPython = "/usr/bin/python3";  // Debian's, which has the packages of apt-get

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Scaling, WritesARowForEveryRankOfEveryMeasurementAndDrawsThem) {
  const TemporaryDirectory output;
  const std::string source = TP_SOURCE_FOLDER;
  const Finished finished =
      Process({kPython, source + "/bench/scaling", "--program", TP_INFER_PROGRAM, "--shape",
               source + "/bench/shapes/llama-tiny.json", "--ranks", "1,2", "--prompt", "8", "--generate", "4",
               "--repeat", "1", "--output", output.path()})
          .finish(120);
  ASSERT_EQ(finished.status, 0) << finished.err;

  std::istringstream csv(read(output.path() / "scaling.csv"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(csv, line);) rows.push_back(line);
  ASSERT_EQ(rows.size(), 1 + 2 * (1 + 2U)) << "a header; prefill and decode of one rank and of two";
  EXPECT_TRUE(rows[1].starts_with("prefill,1,1,1,8,")) << rows[1];
  EXPECT_TRUE(rows[6].starts_with("decode,2,1,1,8,")) << rows[6];
  for (const std::string& row : rows)
    EXPECT_EQ(std::count(row.begin(), row.end(), ','), std::count(rows[0].begin(), rows[0].end(), ','));

  if (Process({kPython, "-c", "import matplotlib"}).finish().status != 0)
    GTEST_SKIP() << "no drawing: Matplotlib is not installed (apt-get install python3-matplotlib)";
  const std::string svg = read(output.path() / "scaling.svg");
  for (const char* text :
       {"speed-up over one rank", "efficiency", "prefill", "decode", "ideal", "llama-tiny, ", "commit "})
    EXPECT_CONTAINS(svg, text);
  EXPECT_TRUE(read(output.path() / "scaling.pdf").starts_with("%PDF"));
}

}  // namespace
}  // namespace tp::test
