// The seeded fixtures: the formula of their weights, the comparison of rows, and a fixture for every family.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/reference/drafter_fixture.h"
#include "tests/reference/fixture.h"
#include "tests/reference/seeded_weights.h"
#include "tp/error.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using reference::ExpectedRows;
using reference::fixture_architectures;
using reference::seeded_folder;

constexpr std::array kKinds = {"logits", "encoders", "rerank", "seq2seq", "diffusion"};

template <class T>
std::vector<T> first_elements(json entry, const std::string& salt = "") {
  entry.update({{"name", "lm_head.weight"}});
  if (!entry.contains("shape")) entry["shape"] = {3};
  const std::string bytes = reference::seeded_tensor(entry, salt).bytes;
  std::vector<T> elements(bytes.size() / sizeof(T));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

// Every implementation of the formula is tested with these values from the fixtures' description.
TEST(SeededWeights, HashNamesAndNumbersAsDescribed) {
  EXPECT_EQ(reference::splitmix64(0), 0xe220a8397b1dcdafU);
  EXPECT_EQ(reference::fnv1a64("lm_head.weight"), 0xab67eb515e1b6f0dU);
  EXPECT_EQ(reference::fnv1a64("lm_head.weight#1"), 0xabc6d7b144567ee1U);
  const reference::ElementHash hash("lm_head.weight", "");
  EXPECT_EQ(hash(0), 0xfe26d58e17aadb45U);
  EXPECT_EQ(hash(1), 0x43544e9955b59fbfU);
  EXPECT_EQ(hash(2), 0x3e2f77eb65e23330U);
}

TEST(SeededWeights, HaveTheElementsOfTheDescription) {
  const json f32 = {{"dtype", "F32"}, {"base", 1.0}, {"amplitude", 0.25}};
  EXPECT_EQ(first_elements<float>(f32), (std::vector<float>{1.24638999F, 0.881502569F, 0.871455908F}));
  EXPECT_EQ(first_elements<float>(f32, "1"), (std::vector<float>{1.14945292F, 1.01294863F, 1.20422804F}));
  const json bf16 = {{"dtype", "BF16"}, {"base", 1.0}, {"amplitude", 0.25}};
  EXPECT_EQ(first_elements<std::uint16_t>(bf16),  // 1.25, 0.8828125, 0.87109375
            (std::vector<std::uint16_t>{0x3FA0, 0x3F62, 0x3F5F}));
  const json bytes = {{"dtype", "U8"}, {"formula", "bytes"}};
  EXPECT_EQ(first_elements<std::uint8_t>(bytes), (std::vector<std::uint8_t>{254, 67, 62}));
  const json scales = {{"dtype", "U8"}, {"formula", "scales"}, {"base", 122}};
  EXPECT_EQ(first_elements<std::uint8_t>(scales), (std::vector<std::uint8_t>{125, 123, 122}));
  const json consecutive = {{"dtype", "I64"}, {"formula", "consecutive"}, {"modulus", 8}, {"shape", {3, 2}}};
  EXPECT_EQ(first_elements<std::int64_t>(consecutive), (std::vector<std::int64_t>{5, 6, 0, 1, 1, 2}));
}

// Two rows of four elements, whose two largest are listed. The signs of the first columns in the first
// two sums are `- - - -` and `- + - -`, from the description.
json two_rows() {
  const auto row = [](std::size_t position, std::vector<double> sums) {
    sums.resize(8);
    return json{{"position", position},
                {"ids", {3, 2}},
                {"values", {4.0, 3.0}},
                {"projections", std::move(sums)},
                {"logsumexp", std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0) + std::exp(4.0))}};
  };
  return json::array({row(0, {-10.0, -6.0}), row(1, {-10.0, -6.0})});
}

TEST(ExpectedRows, KnowEveryElementByItsValueOrByTheSums) {
  const std::vector<float> right = {1, 2, 3, 4, 1, 2, 3, 4};
  json rows = two_rows();
  for (json& row : rows) {  // the other six sums, by the definition of their signs
    for (std::size_t j = 2; j < 8; ++j) {
      double sum = 0.0;
      for (std::size_t v = 0; v < 4; ++v)
        sum += (reference::splitmix64(0xABCD + v) >> j & 1) != 0 ? right[v] : -right[v];
      row["projections"][j] = sum;
    }
  }
  const ExpectedRows expected(reference::row_table(rows, 2, 4));
  EXPECT_LE(expected.difference(right), 1e-6);
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::vector<float> wrong = right;
    wrong[i] += 0.5F;
    EXPECT_GE(expected.difference(wrong), 0.25) << i;  // a sum is divided by sqrt(4)
    EXPECT_LE(expected.difference(wrong), 0.5) << i;
    wrong[i] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(expected.difference(wrong), INFINITY) << i;
  }
  EXPECT_EQ(expected.difference(std::vector<float>(4)), INFINITY) << "a row too few";
  EXPECT_LE(expected.difference(1, std::span(right).first(4)), 1e-6);
  EXPECT_EQ(expected.difference(2, std::span(right).first(4)), INFINITY) << "there is no such position";
}

bool is_supported(const std::filesystem::path& folder) {
  try {
    make_spec(load_config(folder));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(SeededFixtures, AreOfSupportedModels) {
  for (const char* kind : kKinds) {
    for (const auto& [name, architecture] : fixture_architectures(kind))
      EXPECT_TRUE(is_supported(seeded_folder(kind, name))) << name << " (" << architecture << ")";
  }
}

// Returns the body of an encoder, which is the same for all heads: "Bert" for BertForMaskedLM.
std::string body_of(const std::string& architecture) {
  return architecture.substr(
      0, std::min({architecture.find("For"), architecture.find("LMHead"), architecture.rfind("Model")}));
}

bool is_encoder(ModelKind kind) {
  return kind != ModelKind::decoder && kind != ModelKind::seq2seq && kind != ModelKind::diffusion;
}

// Encoders need a fixture for each body and each kind of head. Other models need one for each architecture.
TEST(SeededFixtures, AreThereForEveryFamily) {
  std::set<std::string> architectures;
  std::set<std::string> bodies;
  std::set<ModelKind> kinds;
  for (const char* folder : kKinds) {
    for (const auto& [name, architecture] : fixture_architectures(folder)) {
      const Family& family = family_of(architecture);
      architectures.insert(family.architecture);
      if (is_encoder(family.kind)) bodies.insert(body_of(family.architecture));
      if (!family.reranker.empty()) bodies.insert(body_of(family.reranker));
      kinds.insert(family.kind);
    }
  }
  std::set<std::string> drafters;
  for (const reference::DrafterFixture& fixture : reference::drafter_fixtures())
    drafters.insert(load_config(fixture.draft).architecture);
  for (const std::string& name : supported_architectures()) {
    const std::string& architecture = family_of(name).architecture;
    const ModelKind kind = family_of(name).kind;
    if (kind == ModelKind::drafter) {
      EXPECT_TRUE(drafters.contains(architecture)) << architecture;
      continue;
    }
    EXPECT_TRUE(is_encoder(kind) ? bodies.contains(body_of(architecture))
                                 : architectures.contains(architecture))
        << architecture;
    EXPECT_TRUE(kinds.contains(kind)) << architecture;
  }
}

}  // namespace
}  // namespace tp
