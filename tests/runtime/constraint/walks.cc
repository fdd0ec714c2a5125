// Writes JSON that walks by the masks of schemas alone have come to: walks TOKENIZER SCHEMAS.json SEEDS
//
// One line for each schema: {"schema": ..., "texts": [...]}. The schemas are those of the file, and products
// of them. A validator checks the lines: see validate_walks.mjs.
#include "runtime/constraint/constraint_compiler.h"
#include "runtime/constraint/request_constraint.h"
#include "runtime/constraint/shortest_texts.h"
#include "tp/error.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using namespace tp;
using namespace tp::constraint;
using Json = nlohmann::ordered_json;

constexpr std::size_t kFreeTokens = 25;  // afterwards, the walk takes the shortest way

// Returns the base schemas: each as a property, as items, as an alternative, with a sibling, and through a
// reference.
std::vector<Json> all_schemas(const Json& base) {
  std::vector<Json> schemas(base.begin(), base.end());
  for (std::size_t i = 0; i < base.size(); ++i) {
    const Json& one = base[i];
    const Json& other = base[(i * 7 + 3) % base.size()];
    const auto without_ids = [](const Json& schema) {
      return !schema.is_object() || !schema.contains("$defs");
    };
    if (!without_ids(one) || !without_ids(other)) continue;
    schemas.push_back({{"type", "object"},
                       {"properties", {{"first", one}, {"second", other}}},
                       {"required", {"second"}},
                       {"additionalProperties", false}});
    schemas.push_back({{"type", "array"}, {"items", one}, {"minItems", 1}, {"maxItems", 3}});
    schemas.push_back(
        {{"anyOf", {one, {{"type", "array"}, {"prefixItems", {other, one}}, {"minItems", 2}}}}});
    schemas.push_back({{"$defs", {{"part", one}}},
                       {"type", "object"},
                       {"properties", {{"a", {{"$ref", "#/$defs/part"}}}, {"b", {{"$ref", "#/$defs/part"}}}}},
                       {"required", {"a", "b"}}});
  }
  return schemas;
}

class Walker {
 public:
  Walker(ConstraintCompiler& compiler, TokenId end) : compiler_(compiler), end_(end) {}

  std::string walk(const std::shared_ptr<CompiledConstraint>& compiled, unsigned seed) {
    const RequestConstraint constraint(compiled, {.tokens = {}, .sequences = {}, .ends = {end_}});
    ShortestTexts distances(compiled->machine);
    std::mt19937 random(seed);
    Progress progress = constraint.start();
    std::string text;
    while (true) {
      const TokenMask mask = constraint.allowed(progress);
      const TokenId token = choose(mask, constraint, distances, progress, random);
      if (token == end_) return text;
      text += compiler_.vocabulary()->bytes(token);
      progress = constraint.after(progress, token);
    }
  }

 private:
  TokenId choose(const TokenMask& mask, const RequestConstraint& constraint, ShortestTexts& distances,
                 Progress progress, std::mt19937& random) {
    std::vector<TokenId> allowed;
    for (std::size_t id = 0; id < compiler_.vocabulary()->size(); ++id) {
      if (mask.contains(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
    }
    if (allowed.empty()) throw std::logic_error("no token is allowed");
    if (progress.tokens < kFreeTokens)
      return allowed[std::uniform_int_distribution<std::size_t>(0, allowed.size() - 1)(random)];
    if (mask.contains(end_)) return end_;
    return *std::ranges::min_element(
        allowed, {}, [&](TokenId token) { return distances.after(constraint.after(progress, token).state); });
  }

  ConstraintCompiler& compiler_;
  TokenId end_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: walks TOKENIZER SCHEMAS.json SEEDS\n";
    return 2;
  }
  try {
    const Tokenizer tokenizer = Tokenizer::load(argv[1]);
    const TokenId end = tokenizer.eos_id().value_or(0);
    ConstraintCompiler compiler(tokenizer, tokenizer.vocab_size(), {end});
    std::ifstream file(argv[2]);
    Walker walker(compiler, end);
    for (const Json& schema : all_schemas(Json::parse(file))) {
      const auto compiled = compiler.compile(JsonSchema{schema.dump()});
      Json texts = Json::array();
      try {
        for (unsigned seed = 0; seed < static_cast<unsigned>(std::stoi(argv[3])); ++seed)
          texts.push_back(walker.walk(compiled, seed));
      } catch (const std::exception& error) {
        throw std::runtime_error(schema.dump() + ": " + error.what());
      }
      std::cout << Json{{"schema", schema}, {"texts", texts}}.dump() << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
