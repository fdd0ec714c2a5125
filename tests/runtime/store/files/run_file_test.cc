// Files of stored prompts: whole, truncated, damaged and foreign.
#include "runtime/store/files/run_file.h"

#include "runtime/store/files/prompt_ids.h"

#include <cstring>

#include <gtest/gtest.h>

namespace tp {
namespace {

RunHeader header_of(std::size_t tokens) {
  RunHeader header{.kind = StoredKind::states, .layers = 2, .head = 5, .before = {1, 2}, .id = {3, 4}};
  header.first_block = 6;
  for (std::size_t i = 0; i < tokens; ++i) header.tokens.push_back(static_cast<TokenId>(7 * i));
  return header;
}

std::vector<std::byte> file_of(const RunHeader& header, std::size_t values) {
  std::vector<std::byte> file(run_offset(header.tokens.size()) + values);
  for (std::size_t i = 0; i < values; ++i) file[file.size() - values + i] = static_cast<std::byte>(i);
  complete_run(header, file);
  return file;
}

TEST(RunFile, ReturnsTheWrittenBytes) {
  for (const std::size_t tokens : {0U, 1U, 16U, 512U}) {
    for (const std::size_t values : {0U, 1U, 1000U}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, " << values << " bytes");
      const std::vector<std::byte> file = file_of(header_of(tokens), values);
      const ParsedRun run = parse_run(file);
      EXPECT_EQ(run.error, "");
      EXPECT_TRUE(run.header == header_of(tokens));
      ASSERT_EQ(run.values.size(), values);
      for (std::size_t i = 0; i < values; ++i) EXPECT_EQ(run.values[i], static_cast<std::byte>(i));
    }
  }
}

TEST(RunFile, RefusesEveryFlippedBit) {
  std::vector<std::byte> file = file_of(header_of(5), 90);
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(parse_run(file).error, "") << "bit " << bit;
    file[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_EQ(parse_run(file).error, "");
}

TEST(RunFile, RefusesEveryOtherSize) {
  std::vector<std::byte> file = file_of(header_of(5), 90);
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(parse_run(std::span(file).first(size)).error, "") << size << " bytes";
  file.emplace_back();
  EXPECT_EQ(parse_run(file).error, "it is cut short");
}

TEST(RunFile, ExplainsErrors) {
  EXPECT_EQ(parse_run({}).error, "it is cut short");
  const std::vector<std::byte> text(4096, std::byte{'x'});
  EXPECT_EQ(parse_run(text).error, "it is not a stored prompt");
  std::vector<std::byte> file = file_of(header_of(5), 90);
  file[8] = std::byte{1};
  EXPECT_EQ(parse_run(file).error, "it has another version's format");
  file = file_of(header_of(5), 90);
  file[12] = std::byte{9};
  EXPECT_EQ(parse_run(file).error, "its contents are unknown");
  file = file_of(header_of(5), 90);
  file.back() ^= std::byte{1};
  EXPECT_EQ(parse_run(file).error, "it is damaged");
  // This number of tokens would overflow the number of bytes.
  file = file_of(header_of(5), 90);
  const std::uint64_t many = UINT64_MAX / 4;
  std::memcpy(file.data() + 32, &many, sizeof many);
  EXPECT_EQ(parse_run(file).error, "it is damaged");
}

TEST(RunFile, HasAHeaderThatIsReadSeparately) {
  const std::vector<std::byte> file = file_of(header_of(5), 90);
  const auto beginning = std::span(file).first(run_offset(5));
  EXPECT_TRUE(parse_run_header(beginning, file.size()).header == header_of(5));
  EXPECT_EQ(parse_run_header(beginning, file.size() - 1).error, "it is cut short");
  EXPECT_EQ(parse_run_header(beginning.first(beginning.size() - 1), file.size()).error, "it is cut short");
}

TEST(PromptIds, DependOnFingerprintSaltAndAllTokensBefore) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7};
  const PromptId salt = id_of_salt({1}, "a");
  const std::vector<PromptId> ids = ids_after(salt, tokens, 3);
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(ids[1], id_after(ids[0], std::vector<TokenId>{4, 5, 6}));
  EXPECT_NE(ids[1], id_after(salt, std::vector<TokenId>{4, 5, 6}));
  EXPECT_NE(id_of_salt({1}, "a"), id_of_salt({1}, "b"));
  EXPECT_NE(id_of_salt({1}, "a"), id_of_salt({2}, "a"));
  EXPECT_EQ(hex_of(Sha256Digest{0x01, 0xab}, 3), "01ab00");
}

}  // namespace
}  // namespace tp
