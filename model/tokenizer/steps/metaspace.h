#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/steps/split.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tp {

// The pieces of a text that get a mark at their front, as if a space preceded them.
enum class PrependScheme : std::uint8_t { always, first, never };

// Reads `prepend_scheme` or the older `add_prefix_space` of a Metaspace part.
PrependScheme prepend_scheme_from_json(const JsonNode& json);

// The pre-tokenizer "Metaspace": converts spaces to a visible mark, usually U+2581. Words begin at marks.
class Metaspace {
 public:
  // `split`: cut before each mark.
  Metaspace(std::string mark, PrependScheme scheme, bool split);

  void operator()(PreTokens& tokens) const;

 private:
  std::string mark_;
  PrependScheme scheme_;
  std::optional<Split> words_;
};

}  // namespace tp
