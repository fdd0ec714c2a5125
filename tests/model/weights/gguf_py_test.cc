// Compares values of blocks with gguf-py, llama.cpp's package for Python.
#include "model/weights/gguf/gguf_dequantize.h"
#include "parallel/machine/file_text.h"
#include "tests/model/weights/random_gguf_rows.h"
#include "tests/temporary_directory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kColumns = 64 * 256;

// Dequantizes each NAME.blocks of a folder to NAME.values, in float32.
constexpr const char* kScript = R"(import pathlib, sys
import gguf, numpy
for path in pathlib.Path(sys.argv[1]).glob('*.blocks'):
    blocks = numpy.fromfile(path, numpy.uint8)
    values = gguf.dequantize(blocks, gguf.GGMLQuantizationType[path.stem])
    values.astype(numpy.float32).tofile(path.with_suffix('.values'))
)";

bool runs(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()) == 0; }

bool has_blocks(const GgufType& type) { return type.readable && !plain_type(type); }

TEST(GgufPy, DequantizesTheSameBits) {
  if (!runs("python3 -c 'import gguf, numpy'"))
    GTEST_SKIP() << "python3 cannot import gguf and numpy: put them in PYTHONPATH, or pip install gguf";
  const test::TemporaryDirectory directory;
  std::mt19937 random(4);
  std::map<std::string_view, std::vector<std::uint8_t>> rows;
  for (const GgufType& type : kGgufTypes) {
    if (!has_blocks(type)) continue;
    std::vector<std::uint8_t>& row = rows[type.name] = test::random_gguf_row(type, kColumns, random);
    directory.write(std::string(type.name) + ".blocks",
                    {reinterpret_cast<const char*>(row.data()), row.size()});
  }
  const auto script = directory.write("dequantize.py", kScript);
  ASSERT_TRUE(runs(fmt::format("python3 {} {}", script.string(), directory.path().string())));
  for (const auto& [name, row] : rows) {
    const std::string expected = file_text(directory.path() / (std::string(name) + ".values"));
    std::vector<float> values(kColumns);
    ASSERT_EQ(expected.size(), values.size() * sizeof(float)) << name;
    dequantize(*find_gguf_type(name), reinterpret_cast<const std::byte*>(row.data()), {0, kColumns},
               values.data());
    EXPECT_EQ(std::memcmp(expected.data(), values.data(), expected.size()), 0) << name;
  }
}

}  // namespace
}  // namespace tp
