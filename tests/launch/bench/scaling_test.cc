// The scripts of bench/: a complete run of scaling, and the errors of all scripts without their programs.

#include "parallel/machine/file_text.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/temporary_directory.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

constexpr const char* kPython =
    "/usr/bin/python3";  // Debian's interpreter, for which apt-get installs packages

const StartOptions kNoBytecode = {.variables = {"PYTHONDONTWRITEBYTECODE=1"}};
const std::string kBench = TP_SOURCE_FOLDER "/bench/";

TEST(Scaling, WritesARowForEveryRankOfEveryMeasurementAndDrawsThem) {
  const TemporaryDirectory output;
  const std::string source = TP_SOURCE_FOLDER;
  const Finished finished =
      Process({kPython, source + "/bench/scaling", "--program", TP_INFER_PROGRAM, "--shape",
               source + "/bench/shapes/llama-tiny.json", "--ranks", "1,2", "--prompt", "8", "--generate", "4",
               "--repeat", "1", "--output", output.path()},
              kNoBytecode)
          .finish(120);
  ASSERT_EQ(finished.status, 0) << finished.err;

  std::istringstream csv(file_text(output.path() / "scaling.csv"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(csv, line);) rows.push_back(line);
  ASSERT_EQ(rows.size(), 1 + 2 * (1 + 2U)) << "a header; prefill and decode of one rank and of two";
  EXPECT_TRUE(rows[1].starts_with("prefill,1,1,1,8,")) << rows[1];
  EXPECT_TRUE(rows[6].starts_with("decode,2,1,1,8,")) << rows[6];
  for (const std::string& row : rows)
    EXPECT_EQ(std::count(row.begin(), row.end(), ','), std::count(rows[0].begin(), rows[0].end(), ','));

  if (Process({kPython, "-c", "import matplotlib"}).finish().status != 0)
    GTEST_SKIP() << "no drawing: Matplotlib is not installed (apt-get install python3-matplotlib)";
  const std::string svg = file_text(output.path() / "scaling.svg");
  for (const char* text :
       {"speed-up over one rank", "efficiency", "prefill", "decode", "ideal", "llama-tiny, ", "commit "})
    EXPECT_CONTAINS(svg, text);
  EXPECT_TRUE(file_text(output.path() / "scaling.pdf").starts_with("%PDF"));
}

TEST(BenchScripts, NameTheMissingProgram) {
  for (const Arguments& arguments :
       {Arguments{"prediction", "--program", "/none"}, Arguments{"scaling", "--program", "/none"},
        Arguments{"quality", "--program", "/none"}, Arguments{"prediction", "--mpirun", "/none -np 2"},
        Arguments{"quality", "--mpirun", "/none"}}) {
    SCOPED_TRACE(arguments[0] + " " + arguments[1]);
    Arguments command = {kPython, kBench + arguments[0]};
    command.insert(command.end(), arguments.begin() + 1, arguments.end());
    const Finished finished = Process(command, kNoBytecode).finish();
    EXPECT_EQ(finished.status, 1);
    EXPECT_EQ(finished.err.find(arguments[0] + ": cannot run /none: expected a program, found none"), 0U)
        << finished.err;
    EXPECT_CONTAINS(finished.err, "or give " + arguments[1]);
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  }
}

// launch/quickstart builds no simulated network, for example.
TEST(BenchScripts, OnHostsNameTheMissingProgram) {
  const TemporaryDirectory programs;
  const auto expect = [&](const Arguments& command, const std::string& missing) {
    const Finished finished = Process(command).finish();
    if (finished.status == 77) GTEST_SKIP() << finished.out;
    EXPECT_EQ(finished.status, 2);
    EXPECT_CONTAINS(finished.err, "cannot find " + programs.path().string() + "/" + missing);
    EXPECT_CONTAINS(finished.err, "--target " + missing + "\n");
  };
  const std::string folder = programs.path();
  expect({kBench + "on_hosts", folder, "2", "1", "-", "-", "true"}, "tp-infer");
  expect({kBench + "hosts", folder, "2", "1"}, "bench_collectives");
  std::filesystem::permissions(programs.write("tp-infer", "#!/bin/sh\n"), std::filesystem::perms::owner_all);
  expect({kBench + "on_hosts", folder, "2", "1", "100", "0", "true"}, "network_switch");
}

TEST(BenchScripts, OnHostsEndIfTheirNetworkEnds) {
  const TemporaryDirectory programs;
  for (const char* name : {"tp-infer", "network_switch"})
    std::filesystem::permissions(programs.write(name, "#!/bin/sh\necho no network >&2\n"),
                                 std::filesystem::perms::owner_all);
  const Finished finished =
      Process({kBench + "on_hosts", programs.path(), "2", "1", "100", "0", "true"}).finish();
  if (finished.status == 77) GTEST_SKIP() << finished.out;
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.err, "no network\non_hosts: the simulated network has ended before it began; what " +
                              programs.path().string() + "/network_switch says is above\n");
}

}  // namespace
}  // namespace tp::test
