// Compares files that `quantize` writes with those of llama.cpp's converter.
#pragma once

#include "model/quantize/quantize_model.h"
#include "model/weights/gguf/gguf_files.h"
#include "tests/model/gguf_conversion.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

// Compares the file itself, because the reader would reverse any change that the writer makes.
inline void expect_written_as(const GgufConversion& expected, const reference::Fixture& fixture) {
  const TemporaryDirectory directory;
  const std::filesystem::path written = directory.path() / "written.gguf";
  quantize_model({.model = fixture.folder, .name = "model", .weights = "f32", .output = written},
                 [](std::uint64_t, std::uint64_t) {});
  const GgufFiles files(written);
  EXPECT_EQ(files.tensors().size(), expected.tensors().size());
  for (const auto& [name, values] : expected.tensors()) {
    const GgufFiles::Entry* const entry = files.find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->tensor.shape, values.shape) << name;
    ASSERT_EQ(entry->tensor.bytes.size(), values.elements.size() * sizeof(float)) << name;
    std::vector<float> found(values.elements.size());
    std::memcpy(found.data(), entry->file.bytes().data() + entry->tensor.bytes.begin,
                entry->tensor.bytes.size());
    for (std::size_t i = 0; i < found.size(); ++i)  // one product of factors is rounded, or two
      ASSERT_NEAR(found[i], values.elements[i], 3e-7 * std::abs(values.elements[i])) << name << ", " << i;
  }
}

}  // namespace tp::test
