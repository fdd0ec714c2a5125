#include "runtime/access/api_keys.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(ApiKeys, HaveNames) {
  const ApiKeys keys = parse_api_keys("# the lab\nanna:k1\n\n  ben@lab : k:2 \r\nk3\nanna:k4", "keys");
  EXPECT_EQ(name_of_key(keys, "k1"), "anna");
  EXPECT_EQ(name_of_key(keys, "k:2"), "ben@lab") << "a key may contain colons";
  EXPECT_EQ(name_of_key(keys, "k3"), "");
  EXPECT_EQ(name_of_key(keys, "k4"), "anna") << "a second key, so that the first can be replaced";
  for (const char* wrong : {"", "k", "k11", "anna", "anna:k1"})
    EXPECT_EQ(name_of_key(keys, wrong), std::nullopt) << wrong;
}

TEST(ApiKeys, NameTheLineOfAMistakeAndNeverAKey) {
  const auto error_of = [](const std::string& text) {
    std::string error = test::error_of<ConfigError>([&] { parse_api_keys(text, "keys"); });
    EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
    return error;
  };
  EXPECT_EQ(error_of("anna:s3cret\n\nben:s3cret"),
            "keys: expected each key once, found the same key in lines 1 and 3");
  EXPECT_EQ(error_of("# none\n"), "keys: expected one name:key per line, found none");
  for (const std::string line : {":s3cret", "anna:", "a b:s3cret", "anna:s3cret with space", "an\"na:s3cret",
                                 "anna:s3cret\x01", "\xc3\xa4:s3cret"})
    EXPECT_TRUE(error_of("ok:k\n" + line).starts_with("keys: line 2: expected ")) << line;
  EXPECT_NE(error_of(std::string(65, 'n') + ":s3cret"), "");
  EXPECT_NE(error_of("n:" + std::string(1025, 'k')), "");
}

TEST(ApiKeys, AreReadFromAFileOfLimitedSize) {
  const test::TemporaryDirectory folder;
  EXPECT_EQ(name_of_key(read_api_keys(folder.write("keys", "anna:k1\n")), "k1"), "anna");
  EXPECT_THROW(read_api_keys(folder.path() / "none"), ConfigError);
  const std::string error = test::error_of<ConfigError>([&] { read_api_keys(folder.path()); });
  EXPECT_CONTAINS(error, "of --api-key-file: expected a file, found a folder");
  EXPECT_THROW(read_api_keys(folder.write("large", "anna:k1" + std::string(5 << 20, '\n'))), ConfigError);
}

}  // namespace
}  // namespace tp
