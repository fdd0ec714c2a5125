// Compares files that `quantize` writes with those of llama.cpp's converter.
#pragma once

#include "model/quantize/quantize_model.h"
#include "model/weights/gguf/gguf_files.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

inline void write_f32(const std::filesystem::path& model, const std::filesystem::path& output) {
  quantize_model({.model = model, .name = "model", .weights = "f32", .output = output},
                 [](std::uint64_t, std::uint64_t) {});
}

// Writes a fixture as quantize does.
inline std::filesystem::path write_gguf(const reference::Fixture& fixture,
                                        const TemporaryDirectory& directory) {
  const std::filesystem::path written = directory.path() / "written.gguf";
  write_f32(fixture.folder, written);
  return written;
}

// Compares the logits of a file and of the checkpoint that it was made from.
inline void expect_same_logits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
}

// Compares the file itself, because the reader would reverse any change that the writer makes.
inline void expect_written_as(const GgufConversion& expected, const reference::Fixture& fixture) {
  const TemporaryDirectory directory;
  const GgufFiles files(write_gguf(fixture, directory));
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

// A value of metadata as numbers; true is 1.
inline std::vector<double> numbers_in(const GgufMetadata& metadata, const std::string& key) {
  const GgufValue& value = metadata.values().at(key);
  if (!value.is_list) return {metadata.number(key)};
  if (value.kind != GgufKind::boolean) return metadata.numbers(key);
  const std::vector<bool> flags = metadata.booleans(key);
  return {flags.begin(), flags.end()};
}

// Compares the model's metadata. The file may have further keys.
inline void expect_metadata_as(const GgufConversion& expected, const std::string& architecture,
                               const reference::Fixture& fixture) {
  const TemporaryDirectory directory;
  const GgufFiles written(write_gguf(fixture, directory));
  const GgufFiles wanted(directory.write("expected.gguf", expected.file()));
  for (const auto& [key, value] : wanted.metadata().values()) {
    if (!key.starts_with(architecture + ".")) continue;
    ASSERT_TRUE(written.metadata().has(key)) << key;
    const std::vector<double> found = numbers_in(written.metadata(), key);
    const std::vector<double> numbers = numbers_in(wanted.metadata(), key);
    ASSERT_EQ(found.size(), numbers.size()) << key;
    for (std::size_t i = 0; i < found.size(); ++i)  // some are infinite
      EXPECT_TRUE(found[i] == numbers[i] || std::abs(found[i] - numbers[i]) < 1e-6)
          << key << ", " << found[i];
  }
}

}  // namespace tp::test
