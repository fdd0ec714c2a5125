#include "model/tokenizer/steps/json_sequence.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Real files nest once. The limit protects the stack against malicious files.
constexpr int kMaxDepth = 16;

void visit_nested(const JsonNode& json, std::string_view member,
                  const std::function<void(const JsonNode&)>& visit, int depth) {
  if (json.type() != "Sequence") return visit(json);
  if (depth == kMaxDepth)
    json.fail("sequences in sequences without end", fmt::format("at most {} levels", kMaxDepth));
  for (const JsonNode& element : json.at(member).elements()) visit_nested(element, member, visit, depth + 1);
}

}  // namespace

void for_each_in_sequence(const JsonNode& json, std::string_view member,
                          const std::function<void(const JsonNode&)>& visit) {
  visit_nested(json, member, visit, 0);
}

}  // namespace tp
