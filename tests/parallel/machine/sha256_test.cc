#include "parallel/machine/sha256.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

std::string hex_of(const Sha256Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

// Adds the text in pieces of `piece` bytes.
std::string sha256_of(std::string_view text, std::size_t piece) {
  Sha256 hash;
  for (std::size_t i = 0; i < text.size(); i += piece)
    hash.add(std::as_bytes(std::span(text.substr(i, piece))));
  return hex_of(hash.finish());
}

// The first three are examples of FIPS 180-4, the others were computed by coreutils' sha256sum.
TEST(Sha256, HashesTheStandardsExamplesInPiecesOfAnySize) {
  for (const std::size_t piece : {1U, 3U, 55U, 64U, 1000U}) {
    SCOPED_TRACE(piece);
    EXPECT_EQ(sha256_of("", piece), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256_of("abc", piece), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", piece),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256_of(std::string(1000, 'a'), piece),
              "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
    EXPECT_EQ(sha256_of(std::string(55, 'a'), piece),
              "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    EXPECT_EQ(sha256_of(std::string(64, 'a'), piece),
              "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  }
}

}  // namespace
}  // namespace tp
